"""The linked games: noise must be independent over rounds, rows, fields, messages and hosts.

A pilot without canaries shows how everything that the adversary sees depends on each other, its own
uploads too. The canary s and the weights w that read it come from the pilot. The game is then
played on fresh clients with s and w fixed. `play_across` looks at messages: one host seals all
messages of a round for the same clients, and no number of one message's noise may depend on a
number of another's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from audits.mechanisms.effort import spread_rounds, trials_for
from audits.mechanisms.message import AuditedMessage, Floats, Slot
from audits.mechanisms.results import LawResult, MechanismResult
from audits.noise_law import joint_tests
from audits.uploads import Host

ROWS = 2
"""So many rows of every field carry a canary: noise that rows share shows in two."""

PILOT, TRIALS, ROUNDS, MESSAGES = 4000, 20_000, 3, 8


def play_linked(message: AuditedMessage, slots: list[Slot]) -> MechanismResult:
    """Play the game in which the canary lies in all slots of all rounds, and return its result.
    Whole messages are held against the claim for all fields together."""
    rounds = spread_rounds(message.shared_rounds, ROUNDS)
    host, other = (message.make_host(companion=True, rows=ROWS) for _ in range(2))
    trials = trials_for(host, min(TRIALS, message.trials), len(rounds))
    watch, places = _Watch(host, other, slots, rounds), len(slots) * len(rounds)
    pilot = watch.observe_slots(np.zeros(places), np.zeros(min(PILOT, trials)))
    signs, weights = _best_canary(pilot, places)
    coins = message.trial_coins(trials)
    seen = watch.observe_slots(signs, coins)
    score_bound = message.score_bound(seen @ weights, coins, float(weights[:places] @ signs))
    fields = ", ".join(release.field for release in message.claimed)
    return MechanismResult(
        field=f"{message.claimed[0].message.__name__} ({fields})",
        check="linked",
        unit=message.unit,
        rule=", ".join(sorted({message.rule_of(release).name for release in message.claimed})),
        rounds=len(rounds),
        planned=max(release.count for release in message.claimed),
        claimed=message.epsilon(message.claimed, len(rounds), message.unit, host),
        gdp=score_bound.gdp,
        cp=score_bound.cp,
    )


@dataclass(frozen=True)
class _Watch:
    """A view of an adversary that has a client on the victim's host, and a client on another
    host."""

    host: Host
    other: Host
    slots: list[Slot]
    rounds: list[int]

    def observe_slots(self, signs: Floats, coins: Floats) -> Floats:
        """Return [trials, columns]: the victim's slots round by round, then those of its companion
        on the same host, then those of a client of another host. The adversary knows that both sent
        0."""
        here = self.host.enrol_clients(len(coins), MESSAGES)
        self.other.next_client = self.host.next_client
        there = self.other.enrol_clients(len(coins), MESSAGES)
        columns: list[list[Floats]] = [[], [], []]
        for round, own_signs in zip(self.rounds, np.split(signs, len(self.rounds)), strict=True):
            seen, own = self.host.emit_views(self._slot_canaries(own_signs, coins), here, round)
            beyond, _ = self.other.emit_views({}, there, round)
            for column, found in zip(columns, (seen, own, beyond), strict=True):
                column += [slot.score(found[slot.release.field]) for slot in self.slots]
        return np.stack([values for column in columns for values in column], axis=1)

    def _slot_canaries(self, signs: Floats, coins: Floats) -> dict[str, Floats]:
        units: dict[str, Floats] = {}
        for slot, sign in zip(self.slots, signs, strict=True):
            name = slot.release.field
            units[name] = units.get(name, 0.0) + slot.canary_rows(coins * sign)
        return units


def _best_canary(pilot: Floats, slots: int) -> tuple[Floats, Floats]:
    """Return signs s for the canary in the victim's slots, and weights w that read it out of all
    columns.

    One half of the pilot proposes pairs (s, w). The other half chooses, by w's / rms(w'X).
    """
    first, second = pilot[: len(pilot) // 2], pilot[len(pilot) // 2 :]

    def loudness(candidate: tuple[Floats, Floats]) -> float:
        signs, weights = candidate
        noise = math.sqrt(float(np.square(second @ weights).mean()))
        return float(weights[:slots] @ signs) / max(noise, 1e-12 * float(np.abs(weights).max()))

    return max(_slot_differences(slots) + _optimal_pairs(first, slots), key=loudness)


def _slot_differences(slots: int) -> list[tuple[Floats, Floats]]:
    """Return the plain sum, and the differences from either known upload."""
    ones, none = np.ones(slots), np.zeros(slots)
    columns = ((ones, none, none), (ones, -ones, none), (ones, none, -ones))
    return [(ones, np.concatenate(parts)) for parts in columns]


def _optimal_pairs(pilot: Floats, slots: int) -> list[tuple[Floats, Floats]]:
    """Return pairs (s, w) from the second moments M of the pilot.

    P, the block of M^-1 for the victim, says for which s the optimum s' P s is large, and w = M^-1
    s attains it.
    """
    moments = pilot.T @ pilot / len(pilot)
    scale = max(float(np.trace(moments)) / len(moments), 1e-12)
    inverse = np.linalg.inv(moments + 1e-10 * scale * np.eye(len(moments)))
    _, directions = np.linalg.eigh(inverse[:slots, :slots])
    loudest = np.where(directions[:, -3:].T >= 0, 1.0, -1.0)
    alternating = 1.0 - 2.0 * (np.arange(slots) % 2)
    tried = (np.ones(slots), alternating, *loudest)
    return [(signs, inverse[:, :slots] @ signs) for signs in tried]


CLIENTS, DRAWS = 4, 32
NUMBERS: Final = 1 << 19
"""Longer messages are cut short, to one row of a few numbers."""


def play_across(messages: Sequence[AuditedMessage]) -> list[LawResult]:
    """Return one result over all messages, or none if a method has a single message."""
    if len(messages) < 2:
        return []
    first = messages[0]
    channel = first.make_channel(first.policy)
    hosts = [Host(m.policy, m.releases, channel, rows=None, alone=True) for m in messages]
    for host in hosts:
        if host.numbers_per_trial * CLIENTS * DRAWS > NUMBERS // len(hosts):
            host.rows = 1
    noises: dict[str, list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]] = {}
    for _ in range(DRAWS):
        for message, host in zip(messages, hosts, strict=True):
            seen, _own = host.emit_views({}, [(0, CLIENTS)], 1)
            for release in message.claimed:
                law = message.law(release, host)
                scores = law.normal_scores(seen[release.field] / law.sd)
                noises.setdefault(release.name, []).append(scores)
    parts = [np.concatenate(found) for found in noises.values()]
    return [
        LawResult(
            field=", ".join(noises),
            check="linked",
            unit=first.unit,
            rule=", ".join(sorted({m.rule_of(r).name for m in messages for r in m.claimed})),
            rounds=1,
            planned=max(r.count for m in messages for r in m.claimed),
            claimed=sum(
                m.epsilon([r], 1, m.unit, h)
                for m, h in zip(messages, hosts, strict=True)
                for r in m.claimed
            ),
            tests=tuple(joint_tests(parts)),
            numbers=sum(part.size for part in parts),
            level=first.level,
        )
    ]
