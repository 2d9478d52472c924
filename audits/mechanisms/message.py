"""One message under audit: places for canaries, what is claimed for it, and what scores show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from audits.empirical_epsilon import (
    EpsilonBound,
    GaussianBound,
    gaussian_bound,
    moments_bound,
)
from audits.mechanisms.results import Check, LawResult, MechanismResult, law_level
from audits.noise_law import LawTest
from audits.uploads import Host, MakeChannel, audited_shape, claimed_fields
from securefg.privacy.accountants import claim
from securefg.privacy.defence import NoisyUpload
from securefg.privacy.influence import NOTHING
from securefg.privacy.law import Law
from securefg.privacy.ledger import Mechanism
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.settings.privacy import Unit

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Slot:
    """A place for a canary of one field. `pattern` has norm 1 over [rows, width].

    size  the canary's length: the clip, or the distance that a node or an edge moves
    """

    release: PlannedRelease
    size: float
    pattern: Floats

    def canary_rows(self, coins: Floats, loudness: float = 1.0) -> Floats:
        """Return (trials, rows, numbers): the canary where the coin is 1."""
        return (coins * self.size * loudness)[:, None, None] * self.pattern

    def score(self, seen: Floats) -> Floats:
        """Return the scores <y, e> / size."""
        return np.tensordot(seen, self.pattern, 2) / self.size


@dataclass
class AuditedMessage:
    """A message with fields that promise noise, the `claimed` ones.

    The claims come from `policy`. The measurements come from the channels alone.
    """

    policy: Policy
    releases: Sequence[PlannedRelease]
    make_channel: MakeChannel
    trials: int
    rng: np.random.Generator
    confidence: float = 0.95

    def __post_init__(self) -> None:
        self.claimed = claimed_fields(self.policy, self.releases)

    @property
    def shared_rounds(self) -> int:
        """Return the number of rounds in which all claimed fields are sent."""
        return min(release.count for release in self.claimed)

    def make_host(
        self, *, companion: bool = False, rows: int | None = 1, alone: bool = False
    ) -> Host:
        """Return a host of the audit's own that seals messages through a new channel."""
        channel = self.make_channel(self.policy)
        return Host(self.policy, self.releases, channel, companion, rows, alone)

    def rule_of(self, release: PlannedRelease) -> NoisyUpload:
        """Return the defence that the field's noise is claimed for."""
        rule = self.policy.rule(release.message, release.field)
        assert isinstance(rule, NoisyUpload)
        return rule

    def law(self, release: PlannedRelease, host: Host) -> Law:
        """Return the law of the noise on one upload of the host."""
        return self.rule_of(release).law(torch.Size(host.shape(release)))

    @property
    def is_gaussian(self) -> bool:
        """Return whether the noise of every claimed field has the trade-off of a Gaussian."""
        return all(self.rule_of(r).law(torch.Size([1])).is_gaussian for r in self.claimed)

    # ---------------------------------------------------------------------------------- canaries

    def claimed_slots(self, rows: int) -> list[Slot]:
        """Return places in all claimed fields, in at most `rows` rows of each."""
        return [slot for release in self.claimed for slot in self.slots_of(release, rows)]

    def slots_of(self, release: PlannedRelease, at_most: int) -> list[Slot]:
        """Return a place per unit of a field.

        A canary is spread over all numbers of the unit, so that a clip per number in place of a
        clip per unit shows. Under an L1 clip it is one number, which moves furthest.
        """
        rule, size = self.rule_of(release), self.size(release)
        rows, width = audited_shape(self.policy, release, at_most)
        signs = self.rng.choice([-1.0, 1.0], (rows, width))
        if rule.norm_order == 1:
            first = np.arange(width) == 0
            whole = np.zeros((rows, width))
            whole[0, 0] = signs[0, 0]
            units = (
                [whole]
                if rule.per == "message"
                else [signs * first * own for own in np.eye(rows)[:, :, None]]
            )
            return [Slot(release, size, unit) for unit in units]
        if rule.per == "message":
            return [Slot(release, size, signs / math.sqrt(rows * width))]
        one_row = np.eye(rows)[:, :, None]
        return [Slot(release, size, signs * own / math.sqrt(width)) for own in one_row]

    def size(self, release: PlannedRelease) -> float:
        """Return the length of a canary: as far as the protected unit moves the seen value.

        A node or an edge moves the message of each of its holders. Noise that only the sum carries
        meets all these moves at once. Noise of every holder's own meets one of them.
        """
        rule = self.rule_of(release)
        if rule.moved_l2 is None:
            return rule.clip_l2
        population = self.policy.population
        together = 1
        if rule.needs_masks and population is not None:
            together = max(1, population.holders(self.unit_of(release)))
        return min(together * rule.moved_l2, rule.clip_l2)

    def game_distance(self, release: PlannedRelease) -> float:
        """Return how far apart the two values of a game lie."""
        return self.size(release) * (1 - self._other_coin(release))

    def _other_coin(self, release: PlannedRelease) -> float:
        """Return the second coin: the opposite canary if a value is replaced, and none
        otherwise."""
        rule = self.rule_of(release)
        return -1.0 if rule.moved_l2 is None and rule.adjacency == "replace_one" else 0.0

    def trial_coins(self, trials: int) -> Floats:
        """Return the coins of the trials: two neighbouring values by the adjacency, in turn."""
        return np.where(np.arange(trials) % 2 == 0, 1.0, self._other_coin(self.claimed[0]))

    # ------------------------------------------------------------------- claims and what is shown

    def epsilon(
        self, releases: Sequence[PlannedRelease], rounds: int, unit: Unit, host: Host
    ) -> float:
        """Return the accountant's claim for these fields over so many rounds, in the shapes of the
        host."""
        profile: dict[Mechanism, int] = {}
        for release in releases:
            fact = self.booked_fact(release, host)
            profile[fact] = profile.get(fact, 0) + rounds
        return claim([profile], unit, self.policy.delta).epsilon

    def booked_fact(self, release: PlannedRelease, host: Host) -> Mechanism:
        """Return the mechanism that would be booked for an upload of the host, met by a node or an
        edge once. A game plays one of the holders that draw noise of their own."""
        rows, width = host.shape(release)
        booked = self.policy.mechanism(release.message, release.field, rows * width, rows)
        node, edge = (replace(met, times=min(1, met.times)) for met in (booked.node, booked.edge))
        return replace(booked, node=node, edge=edge)

    def score_bound(self, scores: Floats, coins: Floats, shift: float) -> GaussianBound:
        """Return the bound that the scores show. `shift` is what coin 1 adds to them before the
        noise.

        Errors of the threshold half-way between the two means are counted, and means and spreads
        are measured: each at half of the level, so that the largest bound holds. If a round adds
        noise or takes it away, the first shows it. If noise is Gaussian, the second shows more. For
        noise of another law, the bound counted without any assumption stands for both.
        """
        other = float(coins.min())
        has_canary, guess = coins == 1, scores >= shift * (1 + other) / 2
        half = (1 + self.confidence) / 2
        counted = gaussian_bound(
            int((guess & ~has_canary).sum()),
            int((~has_canary).sum()),
            int((~guess & has_canary).sum()),
            int(has_canary.sum()),
            self.policy.delta,
            half,
        )
        if not self.is_gaussian:
            cp = replace(counted.cp, confidence=self.confidence)
            return GaussianBound(counted.mu, cp, cp)
        mu, measured = counted.mu, counted.gdp
        if np.isfinite(scores).all():  # what is no number has no moments
            mu, measured = moments_bound(
                scores[has_canary],
                scores[~has_canary],
                self.policy.delta,
                half,
                shift * (1 - other),
            )
        if counted.mu > mu:
            mu, measured = counted.mu, replace(counted.gdp, ceiling=measured.ceiling)
        gdp, cp = (replace(b, confidence=self.confidence) for b in (measured, counted.cp))
        return GaussianBound(mu, gdp, cp)

    def law_result(
        self,
        check: Check,
        release: PlannedRelease,
        host: Host,
        tests: Sequence[LawTest],
        numbers: int,
        rounds: int = 1,
    ) -> LawResult:
        """Return the result of the tests of one field's noise, for the unit that the noise
        protects."""
        unit = self.unit_of(release)
        return LawResult(
            field=release.name,
            check=check,
            unit=unit,
            rule=self.rule_of(release).name,
            rounds=rounds,
            planned=release.count,
            claimed=self.epsilon([release], rounds, unit, host),
            tests=tuple(tests),
            numbers=numbers,
            level=self.level,
        )

    @property
    def level(self) -> float:
        """Return the level of a single test of the noise's law."""
        return law_level(self.confidence)

    def unit_of(self, release: PlannedRelease) -> Unit:
        """Return the unit that the release's noise is sized for. A release that no edge moves has
        noise for a node."""
        rule = self.rule_of(release)
        if rule.moved_l2 is not None:
            return "node" if release.influence(self.policy.unit) == NOTHING else self.policy.unit
        return "row" if rule.per == "row" else "client"

    @property
    def unit(self) -> Unit:
        """Return the unit of all claimed fields together: the client, unless noise is sized for
        less."""
        units = {self.unit_of(release) for release in self.claimed}
        return next(iter(units)) if units <= {"node"} or units <= {"edge"} else "client"

    def game_result(
        self,
        check: Check,
        release: PlannedRelease,
        host: Host,
        *,
        rounds: int = 1,
        claimed_rounds: int = 1,
        gdp: EpsilonBound,
        cp: EpsilonBound | None = None,
    ) -> MechanismResult:
        """Return the result of a game on `host` about one field, for the unit that its noise
        protects."""
        rule = self.rule_of(release)
        unit = self.unit_of(release)
        return MechanismResult(
            field=release.name,
            check=check,
            unit=unit,
            rule=rule.name,
            rounds=rounds,
            planned=release.count,
            claimed=self.epsilon([release], claimed_rounds, unit, host),
            gdp=gdp,
            cp=cp,
        )
