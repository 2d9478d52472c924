"""One message under audit: places for canaries, what is claimed for it, and what scores show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audits.empirical_epsilon import EpsilonBound, GaussianBound, gaussian_bound
from audits.mechanisms.results import Check, MechanismResult, law_level
from audits.uploads import Host, MakeChannel, audited_shape, claimed_fields
from securefg.privacy.accountants import claim
from securefg.privacy.policy import PlannedRelease, Policy
from securefg.privacy.rules import DistributedDiscrete, LocalGaussian, Plain, TrainedWithNoise
from securefg.settings.privacy import Unit

Floats = NDArray[np.float64]


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
class AuditedMessage:
    """A message with fields that promise noise, the `claimed` ones.

    The claims come from `policy`; what is measured comes from the channels alone.
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
        """How many rounds all claimed fields are sent in."""
        return min(release.count for release in self.claimed)

    def host(self, *, companion: bool = False, rows: int | None = 1) -> Host:
        return Host(self.policy, self.releases, self.make_channel(self.policy), companion, rows)

    def rule(self, release: PlannedRelease) -> LocalGaussian | DistributedDiscrete:
        rule = self.policy.rule(release.message, release.field)
        assert not isinstance(rule, (Plain, TrainedWithNoise))
        return rule

    # ---------------------------------------------------------------------------------- canaries

    def slots(self, rows: int) -> list[Slot]:
        """Places in all claimed fields, in so many rows of each at the most."""
        return [slot for release in self.claimed for slot in self.slots_of(release, rows)]

    def slots_of(self, release: PlannedRelease, at_most: int) -> list[Slot]:
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

    # ------------------------------------------------------------------- claims and what is shown

    def epsilon(
        self, releases: Sequence[PlannedRelease], rounds: int, unit: Unit, host: Host
    ) -> float:
        """The accountant's claim for these fields, so many rounds, in the shapes of the host."""
        profile = {}
        for release in releases:
            rows, width = host.shape(release)
            fact = self.policy.mechanism(release.message, release.field, rows * width, rows)
            profile[fact] = rounds
        return claim([profile], unit, self.policy.delta).epsilon

    def bound(self, scores: Floats, coins: Floats, shift: float) -> GaussianBound:
        """Errors of the threshold half-way between the two means; `shift` is what coin 1 adds.

        The larger of the two bounds is what counts: each is made at half of the level, so that
        both hold at once.
        """
        threshold = shift * (1 + float(coins.min())) / 2
        one, guess = coins == 1, scores >= threshold
        found = gaussian_bound(
            int((guess & ~one).sum()),
            int((~one).sum()),
            int((~guess & one).sum()),
            int(one.sum()),
            self.policy.delta,
            (1 + self.confidence) / 2,
        )
        gdp, cp = (replace(b, confidence=self.confidence) for b in (found.gdp, found.cp))
        return GaussianBound(found.mu, gdp, cp)

    @property
    def level(self) -> float:
        return law_level(self.confidence)

    def unit_of(self, release: PlannedRelease) -> Unit:
        return "row" if self.rule(release).per == "row" else "client"

    def result(
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
        """What a game on `host` says of one field, for the unit that its noise protects."""
        rule = self.rule(release)
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
