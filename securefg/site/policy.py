"""A site's own floor: what it wants of every job before anything private leaves, whoever asks.

    # site_policy.yaml
    methods: [fedgl]                # no others are run here
    max_rounds: 50
    least_noise: 1.0                # noise multiplier of every private field; 0 asks for none
    noise: system                   # seeded noise protects nothing
    defences: []                    # defences from outside securefg that may make the noise
    units: [client]                 # whom a job's epsilon may be for
    per: [message]                  # what noise may be sized for: a whole message, or a row of it
    adjacency: [replace_one]        # what counts as neighbours
    max_clip_l2: 100
    masking: required               # every private field travels under masks
    masking_mode: malicious         # the server may lie; `honest` trusts it
    masking_keys: hybrid            # masks hold if X25519 breaks later; `any` takes X25519 alone
    least_cohort: 3                 # no sum of fewer organisations is opened
    least_corrupt: 0.05             # share of all clients that masks must count as colluding
    max_dropout: 0.34               # share of a cohort that may fall silent
    least_holders: 2                # no sum of a node that fewer clients hold is released
    least_participation: 1.0        # share of the clients that every round asks
    max_local_epochs: 50            # passes over a site's data in one round
    budget_per_month: {epsilon: 8, delta: 1.0e-5, unit: client}     # any 31 days, all jobs
    budget_total: {epsilon: 16, delta: 1.0e-5, unit: client}        # for ever, all jobs
    submissions: 5                  # how often one run may be started here
    max_refusals: 50                # refused requests after which a job is ended here
    failure_seconds: 10             # every failure is answered at a multiple of this after it came
    scores: false                   # whether counts of right answers on own nodes are told
    server_knows: []                # what a method's server may have: graph, labels, trainers

A site without this file, or with one that cannot be read, takes part in nothing. What is not set is
as strict as above. A job is checked as a whole when it starts, and every reply once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from securefg.foundation.complaints import explain_errors
from securefg.foundation.errors import ConfigError, PrivacyError
from securefg.foundation.settings import Settings
from securefg.foundation.suggestions import name_kind, spell_value
from securefg.foundation.yaml_text import read_yaml
from securefg.methods.registry import get_method
from securefg.privacy.defence import Defence, NoisyUpload
from securefg.privacy.ledger import Mechanism
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.settings.config import RunConfig
from securefg.settings.execution import TrainingSettings
from securefg.settings.privacy import Adjacency, Per, Unit, shipped_defences
from securefg.settings.secagg import SecureAggregationSettings
from securefg.site.cohorts import fewest_organisations, largest_dropout, smallest_sum

POLICY_FILE = "site_policy.yaml"
Known = Literal["graph", "labels", "trainers"]


class JobRefused(PrivacyError):
    """A site will not take part in a job."""


class _Floor(Settings):
    """`no` is a truth value to YAML and would be the number 0; `yes` in quotes would be true."""

    @field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: Any, info: ValidationInfo) -> Any:
        is_switch = cls.model_fields[str(info.field_name)].annotation is bool
        if isinstance(value, bool) is not is_switch:
            expected = "true or false" if is_switch else "a value that is not true or false"
            raise ValueError(f"found {spell_value(value)}; expected {expected}")
        return value


class Budget(_Floor):
    """What all jobs together may cost a unit of this site."""

    epsilon: PositiveFloat
    delta: float = Field(1e-5, gt=0, le=0.01)
    unit: Unit = "client"


class SitePolicy(_Floor):
    """The floor. By default it is high."""

    methods: tuple[str, ...] | Literal["any"] = ()
    max_rounds: PositiveInt = 50
    least_noise: float = Field(1.0, ge=0)
    noise: Literal["system", "any"] = "system"
    defences: tuple[str, ...] | Literal["any"] = ()
    units: tuple[Unit, ...] = ("client",)
    per: tuple[Per, ...] = ("message",)
    adjacency: tuple[Adjacency, ...] = ("replace_one",)
    max_clip_l2: PositiveFloat = 100.0
    masking: Literal["optional", "required"] = "required"
    masking_mode: Literal["malicious", "honest"] = "malicious"
    masking_keys: Literal["hybrid", "any"] = "hybrid"
    least_cohort: PositiveInt = 3
    least_corrupt: float = Field(0.05, ge=0, lt=1)
    max_dropout: float = Field(0.34, ge=0, lt=1)
    least_holders: PositiveInt = 2
    least_participation: float = Field(1.0, gt=0, le=1)
    max_local_epochs: PositiveInt = 50
    budget_per_month: Budget | None = Budget(epsilon=8)
    budget_total: Budget | None = Budget(epsilon=16)
    submissions: PositiveInt = 5
    max_refusals: PositiveInt = 50
    failure_seconds: float = Field(10.0, ge=0, le=600)
    scores: bool = Field(False, description="tell how models do on this site's own nodes")
    server_knows: tuple[Known, ...] = ()

    @classmethod
    def everything_goes(cls) -> SitePolicy:
        """For a rehearsal on one machine, where all data is the one's who runs it."""
        return cls(
            methods="any",
            max_rounds=10**9,
            least_noise=0,
            noise="any",
            defences="any",
            units=("client", "row", "node", "edge", "features"),
            per=("row", "message"),
            adjacency=("replace_one", "zero_out"),
            max_clip_l2=1e18,
            masking="optional",
            masking_mode="honest",
            masking_keys="any",
            least_cohort=1,
            least_corrupt=0,
            max_dropout=0.99,
            least_holders=1,
            least_participation=1e-9,
            max_local_epochs=10**9,
            budget_per_month=None,
            budget_total=None,
            submissions=10**9,
            max_refusals=10**9,
            failure_seconds=0,
            scores=True,
            server_knows=("graph", "labels", "trainers"),
        )

    def check(
        self,
        config: RunConfig,
        policy: Policy,
        planned: list[PlannedRelease],
        organisations: Mapping[str, int],
    ) -> None:
        """Raise `JobRefused` with every reason, or return.

        organisations  how many clients each organisation of the job has
        """
        reasons = [
            *self._about_the_run(config),
            *self._about_masking(config, policy, organisations),
            *(
                reason
                for name in (release.name for release in planned)
                for reason in self.about(name, policy.rules.get(name), name in policy.masked)
            ),
        ]
        if reasons:
            raise JobRefused("; ".join(reasons))

    def _about_the_run(self, config: RunConfig) -> list[str]:
        reasons, method = [], config.method.name
        if self.methods != "any" and method not in self.methods:
            reasons.append(f"method {method}; allowed here: {_words(self.methods)}")
        known = get_method(method).server_knows - set(self.server_knows)
        if known:
            reasons.append(
                f"the server of {method} has {_words(sorted(known))} of the whole graph; allowed "
                f"here: {_words(self.server_knows)}"
            )
        if config.training.rounds > self.max_rounds:
            reasons.append(f"{config.training.rounds} rounds; allowed here: {self.max_rounds}")
        reasons += self._about_training(config.training)
        if self.noise == "system" and config.privacy.noise_rng != "system":
            reasons.append("the noise is seeded and protects nothing")
        named = {
            config.privacy.mechanism,
            *(f.mechanism for f in config.privacy.field_rules.values()),
        }
        strange = named - set(shipped_defences()) - set(self.defences)
        if strange and self.defences != "any":
            reasons.append(
                f"defence {_words(sorted(strange))}; allowed here: {_words(self.defences)} beside "
                "those of securefg"
            )
        if config.privacy.unit not in self.units:
            reasons.append(
                f"epsilon is per {config.privacy.unit}; allowed here: {_words(self.units)}"
            )
        return reasons

    def _about_training(self, training: TrainingSettings) -> list[str]:
        reasons = []
        if training.local_epochs > self.max_local_epochs:
            reasons.append(
                f"training.local_epochs: found {training.local_epochs}; expected at most "
                f"{self.max_local_epochs}"
            )
        if training.participation < self.least_participation:
            reasons.append(
                f"training.participation: found {training.participation:g}; expected at least "
                f"{self.least_participation:g}"
            )
        return reasons

    def _about_masking(
        self, config: RunConfig, policy: Policy, organisations: Mapping[str, int]
    ) -> list[str]:
        settings = config.privacy.secure_aggregation
        if settings is None:
            return []  # where masks are required, every field says so
        reasons = []
        if settings.form != "session":
            reasons.append(
                f"secure_aggregation.form: found {settings.form}; expected session at a site"
            )
        if self.masking_mode == "malicious" and not settings.malicious:
            reasons.append("masking trusts the server; wanted malicious: true")
        if self.masking_keys == "hybrid" and settings.keys != "hybrid":
            reasons.append(f"secure_aggregation.keys: found {settings.keys}; expected hybrid")
        if settings.min_clients < self.least_cohort:
            reasons.append(
                f"sums of {settings.min_clients} clients are opened; wanted {self.least_cohort}"
            )
        threat = settings.threat_among(sum(organisations.values()))
        smallest = smallest_sum(settings, policy, threat)
        fewest = fewest_organisations(smallest, organisations)
        if fewest < self.least_cohort:
            reasons.append(
                f"least_cohort: found sums over {smallest} clients of {fewest} organisations; "
                f"expected at least {self.least_cohort} organisations"
            )
        return [*reasons, *self._about_threat(settings, largest_dropout(policy, threat))]

    def _about_threat(self, settings: SecureAggregationSettings, dropout: float) -> list[str]:
        reasons, where = [], "secure_aggregation"
        if settings.corrupt < self.least_corrupt:
            reasons.append(
                f"{where}.corrupt: found {settings.corrupt:g}; expected at least "
                f"{self.least_corrupt:g}"
            )
        if dropout > self.max_dropout:
            reasons.append(
                f"{where}.dropout: found {dropout:.3g} of a cohort; expected at most "
                f"{self.max_dropout:g}"
            )
        if settings.min_holders < self.least_holders:
            reasons.append(
                f"{where}.min_holders: found {settings.min_holders}; expected at least "
                f"{self.least_holders}"
            )
        return reasons

    def about(self, name: str, rule: Defence | None, masked: bool) -> list[str]:
        """Every reason against one field's rule."""
        reasons = []
        if self.masking == "required" and not masked:
            reasons.append(f"{name} would leave without masks")
        # Noise for single samples of its training does not count for the client's whole upload.
        noised = rule if isinstance(rule, NoisyUpload) else None
        found = noised.noise_multiplier if noised else 0.0
        if found < self.least_noise:
            words = f"noise multiplier {found:.4g}" if found else "no noise"
            reasons.append(f"{name} has {words}; wanted {self.least_noise:g}")
        if noised is not None:
            if noised.per not in self.per:
                reasons.append(f"{name} has noise per {noised.per}; allowed: {_words(self.per)}")
            if noised.adjacency not in self.adjacency:
                reasons.append(
                    f"{name} has the relation {noised.adjacency}; allowed: {_words(self.adjacency)}"
                )
            if noised.clip_l2 > self.max_clip_l2:
                reasons.append(
                    f"{name} is clipped at {noised.clip_l2:g}; at most: {self.max_clip_l2:g}"
                )
        return reasons


def _words(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def planned_profile(policy: Policy, planned: list[PlannedRelease]) -> dict[Mechanism, int]:
    """What the job would book for a client if it ran to its end."""
    profile: dict[Mechanism, int] = {}
    for release in planned:
        mechanism = policy.mechanism(release.message, release.field, release.dim, release.num_rows)
        profile[mechanism] = profile.get(mechanism, 0) + release.count
    return profile


def load_policy(path: Path) -> SitePolicy:
    """Read a site's policy; one that is not there, or is wrong, raises."""
    try:
        policy_content = read_yaml(path)
    except ConfigError as error:
        raise ConfigError(f"no policy of this site: {error}") from error
    if not isinstance(policy_content, dict):
        raise ConfigError(
            f"{path}: found {name_kind(policy_content)}; expected the keys of a policy"
        )
    try:
        return SitePolicy.model_validate(policy_content)
    except ValidationError as error:
        raise ConfigError(explain_errors(error, SitePolicy, prefix=f"{path}: ")) from error


def write_policy(path: Path, policy: SitePolicy) -> None:
    """The whole policy, every value spelled out, where there is none yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(yaml.safe_dump(policy.model_dump(mode="json"), sort_keys=False))
        path.chmod(0o600)
