"""Audits of the mechanisms themselves, without any training: canaries through the run's own rules.

For every private field that promises noise, and for whole messages, games are played against what
a real channel emits under the run's own policy (`uploads.py`), and the privacy loss they show is
compared with what the accountant claims for the same releases:

    canary   the textbook game: u = +-C e (or 0 and C e), scores summed over the rounds
    loud     the canary far above the clip, which clipping before the noise must make harmless
    linked   whole messages over several rounds, with the uploads of two clients that the adversary
             knows; a pilot finds how noises hang together, and the canary that exploits it
    seed     the noise drawn again from seeds that an adversary would try
    shape    the size of the noise at the planned shape of the array
    mask     coins under the masks of real sessions (`mask_reuse.py`)

VIOLATION: the measured lower bound is above the claim. INCONCLUSIVE: no outcome could have been.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from audits.empirical_epsilon import (
    EpsilonBound,
    GaussianBound,
    epsilon_of_mu,
    gaussian_bound,
    mu_of_epsilon,
)
from audits.guesses import guessed_sources, likely_seeds
from audits.mask_reuse import audit_masks
from audits.uploads import Host, MakeChannel, audited_shape, claimed_fields, open_channel
from securefg.assembly import Experiment, prepare
from securefg.channel import Channel
from securefg.config import RunConfig
from securefg.engines.hosting import noise_source
from securefg.messages import Message
from securefg.privacy.accountants import claim
from securefg.privacy.ledger import Unit
from securefg.privacy.policy import PlannedRelease, Policy
from securefg.privacy.rules import DistributedDiscrete, LocalGaussian, Plain, TrainedWithNoise

Check = Literal["canary", "loud", "linked", "seed", "shape", "mask"]
Verdict = Literal["VIOLATION", "NOT_DETECTED", "INCONCLUSIVE"]
Floats = NDArray[np.float64]

NUMBERS = 2 * 10**7
"""A game draws about so many noises at most; where all rounds would take more, some are played."""

LOUDNESS = 1e4
PILOT, LINKED, LINKED_ROUNDS, ROWS, MESSAGES = 4000, 20_000, 3, 2, 8
LARGEST_MU = 1e3
SUSPICIOUS = 0.9
"""A correlation of the noise with a guess of it that chance does not bring about."""


@dataclass(frozen=True)
class MechanismResult:
    """One game against one field (or a whole message) and what it says of the claim.

    rounds     how many rounds were played, of `planned`
    claimed    the accountant's epsilon: for all planned rounds in the game `canary`, whose gdp
               takes the others for like those played, mu_T = mu sqrt(T / t); else for those played
    gdp, cp    lower bounds: for a Gaussian trade-off, and without any assumption
    """

    field: str
    check: Check
    unit: Unit
    rule: str
    rounds: int
    planned: int
    claimed: float
    gdp: EpsilonBound | None
    cp: EpsilonBound | None
    verdict: Verdict
    because: str

    @property
    def lower(self) -> float:
        return max(bound.epsilon for bound in (self.gdp, self.cp) if bound is not None)

    @property
    def ceiling(self) -> float:
        return max(bound.ceiling for bound in (self.gdp, self.cp) if bound is not None)


def audit_mechanisms(config: RunConfig, trials: int, seed: int) -> list[MechanismResult]:
    """Play all games against the mechanisms that this run would use."""
    return audit_experiment(prepare(config), trials, seed)


def audit_experiment(
    experiment: Experiment, trials: int, seed: int, make_channel: MakeChannel | None = None
) -> list[MechanismResult]:
    """As `audit_mechanisms`, of a run whose data are dealt out already."""
    config = experiment.config
    planned = experiment.method.planned(config.method, config.training, experiment.public)

    def own_channel(policy: Policy) -> Channel:
        return open_channel(policy, noise_source(config))

    results = audit_releases(
        experiment.policy,
        planned,
        make_channel or own_channel,
        trials,
        seed,
        likely_seeds(config.seed),
    )
    return results + audit_masking(experiment, seed)


def audit_masking(experiment: Experiment, seed: int) -> list[MechanismResult]:
    """Whether single masked uploads show nothing, where the run masks any."""
    settings, masked = experiment.config.privacy.secure_aggregation, experiment.policy.masked
    if settings is None or not masked:
        return []
    bound = audit_masks(settings, experiment.policy.delta, seed)
    return [_result(", ".join(masked), "mask", "client", "masked", 2, 2, 0.0, None, bound)]


def audit_releases(
    policy: Policy,
    planned: Sequence[PlannedRelease],
    make_channel: MakeChannel,
    trials: int,
    seed: int,
    seeds: Sequence[int] = (),
) -> list[MechanismResult]:
    """Every message with a field that promises noise, through channels of `make_channel`.

    The claims come from `policy`; what is measured comes from the channels alone.
    """
    unlimited = replace(policy, budget=None)
    results = []
    for number, releases in enumerate(_by_message(planned)):
        if claimed_fields(policy, releases):
            rng = np.random.default_rng([seed, number])
            audit = _Audit(unlimited, releases, make_channel, trials, rng)
            results += [*audit.canary(), *audit.loud(), audit.linked(), *audit.shape()]
            results += audit.guessed(seeds)
    return results


def _by_message(planned: Sequence[PlannedRelease]) -> Iterator[list[PlannedRelease]]:
    sent = [release for release in planned if release.count > 0]
    for message in dict.fromkeys(release.message for release in sent):
        yield [release for release in sent if release.message is message]


# ------------------------------------------------------------------------------------------- slots


@dataclass(frozen=True)
class Slot:
    """A place for a canary: one unit of one field. `pattern` has norm 1 over [rows, width]."""

    release: PlannedRelease
    clip_l2: float
    pattern: Floats

    def canary(self, coins: Floats, loudness: float = 1.0) -> Floats:
        return (coins * self.clip_l2 * loudness)[:, None, None] * self.pattern

    def score(self, seen: Floats) -> Floats:
        """<y, e> / C."""
        return np.tensordot(seen, self.pattern, 2) / self.clip_l2


@dataclass
class _Audit:
    """All games against one message."""

    policy: Policy
    releases: Sequence[PlannedRelease]
    make_channel: MakeChannel
    trials: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.claimed = claimed_fields(self.policy, self.releases)
        self.message: type[Message] = self.releases[0].message
        self.planned = max(release.count for release in self.claimed)
        self.slots = self._slots(ROWS)

    def host(self, *, companion: bool = False, rows: int | None = 1) -> Host:
        return Host(self.policy, self.releases, self.make_channel(self.policy), companion, rows)

    def rule(self, release: PlannedRelease) -> LocalGaussian | DistributedDiscrete:
        rule = self.policy.rule(release.message, release.field)
        assert not isinstance(rule, (Plain, TrainedWithNoise))
        return rule

    def _slots(self, rows: int) -> list[Slot]:
        return [slot for release in self.claimed for slot in self._slots_of(release, rows)]

    def _slots_of(self, release: PlannedRelease, at_most: int) -> list[Slot]:
        """A unit each. Its canary is spread over all numbers of the unit, so that a clip per number
        in place of one per unit shows."""
        rule = self.rule(release)
        rows, width = audited_shape(self.policy, release, at_most)
        signs = self.rng.choice([-1.0, 1.0], (rows, width))
        if rule.per == "message":
            return [Slot(release, rule.clip_l2, signs / math.sqrt(rows * width))]
        one_row = np.eye(rows)[:, :, None]
        return [Slot(release, rule.clip_l2, signs * own / math.sqrt(width)) for own in one_row]

    def coins(self, trials: int) -> Floats:
        """Every second trial the one value, else the other: what the adjacency calls neighbours."""
        other = -1.0 if self.rule(self.claimed[0]).adjacency == "replace_one" else 0.0
        return np.where(np.arange(trials) % 2 == 0, 1.0, other)

    def epsilon(
        self, releases: Sequence[PlannedRelease], rounds: int, unit: Unit, host: Host
    ) -> float:
        """The accountant's claim for these fields, so many rounds, in the shapes of the host."""
        profile = {}
        for release in releases:
            rows, width = host.shape(release)
            fact = self.policy.mechanism(self.message, release.field, rows * width, rows)
            profile[fact] = rounds
        return claim([profile], unit, self.policy.delta).epsilon

    def own_unit(self, release: PlannedRelease) -> Unit:
        return "row" if self.rule(release).per == "row" else "client"

    def bound(self, scores: Floats, coins: Floats, shift: float) -> GaussianBound:
        """Errors of the threshold half-way between the two means; `shift` is what coin 1 adds."""
        threshold = shift * (1 + float(coins.min())) / 2
        one, guess = coins == 1, scores >= threshold
        return gaussian_bound(
            int((guess & ~one).sum()),
            int((~one).sum()),
            int((~guess & one).sum()),
            int(one.sum()),
            self.policy.delta,
        )

    # --------------------------------------------------------------------------- canary and loud

    def canary(self) -> list[MechanismResult]:
        host = self.host()
        room = max(1, NUMBERS // (self.trials * host.numbers_per_trial))
        rounds = _spread(min(release.count for release in self.claimed), room)
        return self._textbook("canary", host, self.trials, rounds, 1.0)

    def loud(self) -> list[MechanismResult]:
        host = self.host()
        return self._textbook("loud", host, self._fitting(host, self.trials // 5), [1], LOUDNESS)

    def _textbook(
        self, check: Check, host: Host, trials: int, rounds: list[int], loudness: float
    ) -> list[MechanismResult]:
        """Every field has its own game; they share the messages. One unit of each is played."""
        slots = {slot.release.field: slot for slot in self._slots(1)}
        coins, enrolled = self.coins(trials), host.enrol(trials)
        units = {name: slot.canary(coins, loudness) for name, slot in slots.items()}
        scores = {name: np.zeros(trials) for name in slots}
        for round in rounds:
            seen, _ = host.emit(units, enrolled, round)
            for name, slot in slots.items():
                scores[name] += slot.score(seen[name])
        results = []
        for release in self.claimed:
            found = self.bound(scores[release.field], coins, float(len(rounds)))
            unit = self.own_unit(release)
            whole = release.count if check == "canary" else len(rounds)
            claimed = self.epsilon([release], whole, unit, host)
            gdp = _for_rounds(found, math.sqrt(whole / len(rounds)), self.policy.delta)
            results.append(
                _result(
                    release.name,
                    check,
                    unit,
                    self.rule(release).name,
                    len(rounds),
                    release.count,
                    claimed,
                    gdp,
                    found.cp,
                )
            )
        return results

    def _fitting(self, host: Host, wanted: int, rounds: int = 1) -> int:
        most = NUMBERS // (4 * rounds * host.numbers_per_trial)
        return max(400, min(wanted, most)) // 2 * 2

    # ------------------------------------------------------------------------------------ linked

    def linked(self) -> MechanismResult:
        """Noise must be independent over rounds, rows, fields, clients and hosts.

        A pilot without canaries shows how all that the adversary sees hangs together, its own
        uploads too; from it come the canary s and the weights w that read it (`_best_canary`). The
        game is then played on fresh clients with s and w fixed.
        """
        host, other = (self.host(companion=True, rows=ROWS) for _ in range(2))
        rounds = _spread(min(release.count for release in self.claimed), LINKED_ROUNDS)
        slots = len(self.slots) * len(rounds)
        fitting = self._fitting(host, min(LINKED, self.trials), len(rounds))
        pilot = self._observe(host, other, rounds, np.zeros(slots), np.zeros(min(PILOT, fitting)))
        signs, weights = _best_canary(pilot, slots)
        coins = self.coins(fitting)
        seen = self._observe(host, other, rounds, signs, coins)
        found = self.bound(seen @ weights, coins, float(weights[:slots] @ signs))
        rules = ", ".join(sorted({self.rule(release).name for release in self.claimed}))
        return _result(
            f"{self.message.__name__} ({', '.join(r.field for r in self.claimed)})",
            "linked",
            "client",
            rules,
            len(rounds),
            self.planned,
            self.epsilon(self.claimed, len(rounds), "client", host),
            found.gdp,
            found.cp,
        )

    def _observe(
        self, host: Host, other: Host, rounds: list[int], signs: Floats, coins: Floats
    ) -> Floats:
        """[trials, columns]: the victim's slots round by round, then those of its companion on the
        same host, then those of a client of another host; the adversary knows that both sent 0."""
        trials, here = len(coins), host.enrol(len(coins), MESSAGES)
        other.next_client = host.next_client
        there = other.enrol(trials, MESSAGES)
        columns: list[list[Floats]] = [[], [], []]
        for number, round in enumerate(rounds):
            units: dict[str, Floats] = {}
            for slot, sign in zip(self.slots, signs[number * len(self.slots) :], strict=False):
                name = slot.release.field
                units[name] = units.get(name, 0.0) + slot.canary(coins * sign)
            seen, own = host.emit(units, here, round)
            beyond, _ = other.emit({}, there, round)
            for column, found in zip(columns, (seen, own, beyond), strict=True):
                column += [slot.score(found[slot.release.field]) for slot in self.slots]
        return np.stack([values for column in columns for values in column], axis=1)

    # -------------------------------------------------------------------------------------- seed

    def guessed(self, seeds: Sequence[int]) -> list[MechanismResult]:
        """Draw the noise again from every guess; where one fits, play the game with it removed."""
        if not seeds:
            return []
        host = self.host()
        sources = guessed_sources(seeds, discrete=host.cohort > 1)
        enrolled = host.enrol(max(4, 32 // host.cohort))
        seen, _ = host.emit({}, enrolled, 1)
        best = {release.field: SUSPICIOUS for release in self.claimed}
        fitting: dict[str, Host] = {}
        for source in sources:
            copy = Host(self.policy, self.releases, open_channel(self.policy, source))
            again, _ = copy.emit({}, enrolled, 1)
            for name in best:
                likeness = _correlation(seen[name], again[name])
                if likeness > best[name]:
                    best[name], fitting[name] = likeness, copy
        return [
            self._without_noise(release, host, fitting.get(release.field), len(sources))
            for release in self.claimed
        ]

    def _without_noise(
        self, release: PlannedRelease, host: Host, guess: Host | None, tried: int
    ) -> MechanismResult:
        (slot,) = self._slots_of(release, 1)
        trials = self._fitting(host, 2000) if host.cohort == 1 else 400
        coins = self.coins(trials)
        if guess is None:
            nothing = gaussian_bound(1, 1, 1, 1, self.policy.delta)
            ceiling = gaussian_bound(0, trials // 2, 0, trials // 2, self.policy.delta)
            found = GaussianBound(
                0.0,
                replace(nothing.gdp, ceiling=ceiling.gdp.ceiling, trials=tried),
                replace(nothing.cp, ceiling=ceiling.cp.ceiling, trials=tried),
            )
        else:
            enrolled = host.enrol(trials)
            seen, _ = host.emit({release.field: slot.canary(coins)}, enrolled, 1)
            again, _ = guess.emit({}, enrolled, 1)
            found = self.bound(slot.score(seen[release.field] - again[release.field]), coins, 1.0)
        unit = self.own_unit(release)
        return _result(
            release.name,
            "seed",
            unit,
            self.rule(release).name,
            1,
            release.count,
            self.epsilon([release], 1, unit, host),
            found.gdp,
            found.cp,
        )

    # ------------------------------------------------------------------------------------- shape

    def shape(self) -> list[MechanismResult]:
        """At the planned shape every number of a field's noise is a draw of the same law: its
        standard deviation says mu = S / sd for the largest canary, at 99.9 %."""
        host = self.host(rows=None)
        trials = max(1, NUMBERS // (10 * host.numbers_per_trial))
        seen, _ = host.emit({}, host.enrol(min(trials, 1000)), 1)
        results = []
        for release in self.claimed:
            rule, unit = self.rule(release), self.own_unit(release)
            distance = rule.clip_l2 * (2 if rule.adjacency == "replace_one" else 1)
            bound = _noise_bound(seen[release.field], distance, self.policy.delta)
            claimed = self.epsilon([release], 1, unit, host)
            results.append(
                _result(
                    release.name, "shape", unit, rule.name, 1, release.count, claimed, bound, None
                )
            )
        return results


# -------------------------------------------------------------------------------------- arithmetic


def _best_canary(pilot: Floats, slots: int) -> tuple[Floats, Floats]:
    """Signs s for the canary in the victim's slots, and weights w that read it out of all columns.

    One half of the pilot gives the second moments M; P, the block of M^-1 for the victim, says for
    which s the optimum s' P s is large, and w = M^-1 s attains it. Beside these stand the plain sum
    and the differences from either known upload. The other half chooses, by w's / rms(w'X).
    """
    first, second = pilot[: len(pilot) // 2], pilot[len(pilot) // 2 :]
    ones, none = np.ones(slots), np.zeros(slots)
    candidates = [
        (ones, np.concatenate(parts))
        for parts in ((ones, none, none), (ones, -ones, none), (ones, none, -ones))
    ]
    moments = first.T @ first / len(first)
    scale = max(float(np.trace(moments)) / len(moments), 1e-12)
    inverse = np.linalg.inv(moments + 1e-10 * scale * np.eye(len(moments)))
    _, directions = np.linalg.eigh(inverse[:slots, :slots])
    loudest = np.where(directions[:, -3:].T >= 0, 1.0, -1.0)
    alternating = 1.0 - 2.0 * (np.arange(slots) % 2)
    candidates += [(signs, inverse[:, :slots] @ signs) for signs in (ones, alternating, *loudest)]

    def loudness(candidate: tuple[Floats, Floats]) -> float:
        signs, weights = candidate
        noise = math.sqrt(float(np.square(second @ weights).mean()))
        return float(weights[:slots] @ signs) / max(noise, 1e-12 * float(np.abs(weights).max()))

    return max(candidates, key=loudness)


def _noise_bound(noise: Floats, distance: float, delta: float) -> EpsilonBound:
    """mu >= distance / (the upper end of the noise's standard deviation)."""
    confidence, count = 0.999, noise.size
    upper = float(noise.std()) * math.sqrt(count / float(chi2.ppf(1 - confidence, count - 1)))
    mu = min(LARGEST_MU, distance / upper) if upper > 0 else LARGEST_MU
    ceiling = epsilon_of_mu(LARGEST_MU, delta)
    return EpsilonBound(epsilon_of_mu(mu, delta), delta, confidence, "gdp", ceiling, count)


def _for_rounds(found: GaussianBound, factor: float, delta: float) -> EpsilonBound:
    """The Gaussian bound for more rounds of this kind: mu grows with the root of their number."""
    if factor == 1:
        return found.gdp
    ceiling = epsilon_of_mu(factor * mu_of_epsilon(found.gdp.ceiling, delta), delta)
    return replace(found.gdp, epsilon=epsilon_of_mu(factor * found.mu, delta), ceiling=ceiling)


def _correlation(one: Floats, other: Floats) -> float:
    a, b = one.ravel() - one.mean(), other.ravel() - other.mean()
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return abs(float(a @ b)) / norms if norms > 0 else 0.0


def _spread(last: int, room: int) -> list[int]:
    """At most `room` rounds of 1 … last, the first and the last among them."""
    return [int(n) for n in np.unique(np.linspace(1, last, min(last, room)).round())]


def _result(
    name: str,
    check: Check,
    unit: Unit,
    rule: str,
    rounds: int,
    planned: int,
    claimed: float,
    gdp: EpsilonBound | None,
    cp: EpsilonBound | None,
) -> MechanismResult:
    bounds = [bound for bound in (gdp, cp) if bound is not None]
    best = max(bounds, key=lambda bound: bound.epsilon)
    ceiling = max(bound.ceiling for bound in bounds)
    verdict, because = _judged(best, ceiling, claimed)
    return MechanismResult(
        name, check, unit, rule, rounds, planned, claimed, gdp, cp, verdict, because
    )


def _judged(best: EpsilonBound, ceiling: float, claimed: float) -> tuple[Verdict, str]:
    shown = f"epsilon {best.epsilon:.4g} was shown at {best.confidence:.1%} over {best.trials}"
    if best.epsilon > claimed:
        return "VIOLATION", f"{shown}, above the claimed {claimed:.4g}"
    if ceiling <= claimed:
        return "INCONCLUSIVE", f"at most {ceiling:.4g} could be shown, claimed are {claimed:.4g}"
    return "NOT_DETECTED", f"{shown}; claimed are {claimed:.4g}"


def violations(results: Sequence[MechanismResult]) -> Mapping[str, list[Check]]:
    """The checks that failed, by field."""
    found: dict[str, list[Check]] = {}
    for result in results:
        if result.verdict == "VIOLATION":
            found.setdefault(result.field, []).append(result.check)
    return found
