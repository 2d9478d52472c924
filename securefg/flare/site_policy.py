"""A site's own floor: what it wants of every job before anything private leaves, whoever asks.

    # site_policy.yaml
    methods: [fedgl, gfl_appnp]     # no others are run here
    least_noise: 1.0                # noise multiplier of every private field, at least
    masking: required               # every private field travels under masks
    budget_per_month: {epsilon: 8, delta: 1.0e-5}
    scores: true                    # whether counts of right answers on own nodes are told

What is not set is not asked for. A job is checked as a whole when it starts, and every reply once
more before it leaves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat, ValidationError

from securefg.foundation.errors import ConfigError, PrivacyError
from securefg.foundation.quoting import shown
from securefg.foundation.settings import Settings
from securefg.foundation.yaml_text import read_yaml
from securefg.privacy.ledger import Mechanism
from securefg.privacy.policy import PlannedRelease, Policy
from securefg.privacy.rules import Plain, TrainedWithNoise


class JobRefused(PrivacyError):
    """A site will not take part in a job."""


class MonthlyBudget(Settings):
    """What all jobs of a calendar month (UTC) together may cost a client or row of this site."""

    epsilon: PositiveFloat
    delta: float = Field(1e-5, gt=0, lt=1)
    unit: Literal["client", "row"] = "client"


class SitePolicy(Settings):
    """The floor. By default everything goes, and is booked."""

    methods: tuple[str, ...] | None = Field(None, description="methods that may run here")
    least_noise: PositiveFloat | None = Field(
        None, description="least noise multiplier of every private field"
    )
    masking: Literal["optional", "required"] = "optional"
    budget_per_month: MonthlyBudget | None = None
    scores: bool = Field(True, description="tell how models do on this site's own nodes")

    def check(self, method: str, policy: Policy, planned: list[PlannedRelease]) -> None:
        """Raise `JobRefused` with every reason, or return."""
        reasons = [
            *self._about_the_method(method),
            *(reason for release in planned for reason in self._about(release, policy)),
            *self._about_seeds(policy),
        ]
        if reasons:
            raise JobRefused("; ".join(reasons))

    def _about_the_method(self, method: str) -> list[str]:
        if self.methods is None or method in self.methods:
            return []
        return [f"method {method}; allowed here: {', '.join(self.methods) or 'none'}"]

    def _about(self, release: PlannedRelease, policy: Policy) -> list[str]:
        reasons = []
        if self.masking == "required" and release.name not in policy.masked:
            reasons.append(f"{release.name} would leave without masks")
        if self.least_noise is not None:
            found = _noise(release, policy)
            if found < self.least_noise:
                words = f"noise multiplier {found:.4g}" if found else "no noise"
                reasons.append(f"{release.name} has {words}; wanted {self.least_noise:g}")
        return reasons

    def _about_seeds(self, policy: Policy) -> list[str]:
        wants_noise = self.least_noise is not None or self.budget_per_month is not None
        if wants_noise and not policy.protects:
            return ["the noise is seeded and protects nothing"]
        return []


def _noise(release: PlannedRelease, policy: Policy) -> float:
    """Of the client's whole upload: noise for single samples of its training does not count."""
    rule = policy.rules.get(release.name)
    if rule is None or isinstance(rule, (Plain, TrainedWithNoise)):
        return 0.0
    return rule.noise_multiplier


def planned_profile(policy: Policy, planned: list[PlannedRelease]) -> dict[Mechanism, int]:
    """What the job would book for a client if it ran to its end."""
    profile: dict[Mechanism, int] = {}
    for release in planned:
        mechanism = policy.mechanism(release.message, release.field, release.dim, release.num_rows)
        profile[mechanism] = profile.get(mechanism, 0) + release.count
    return profile


def load_policy(path: Path) -> SitePolicy:
    """Read a site's policy; one that is not there is the default, one that is wrong raises."""
    if not path.exists():
        return SitePolicy()
    try:
        return SitePolicy.model_validate(read_yaml(path) or {})
    except ValidationError as error:
        first = error.errors()[0]
        key, found = ".".join(map(str, first["loc"])), shown(first.get("input"))
        raise ConfigError(f"{path}: {key}: {first['msg']}, found {found}") from error
