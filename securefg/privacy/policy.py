"""The policy: one rule for every private field, settled before the run starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from securefg.errors import ConfigError, NoRule
from securefg.messages import Declaration, Message
from securefg.privacy.accountants import calibrate, steps_for
from securefg.privacy.ledger import Mechanism, Unit
from securefg.privacy.rules import LocalGaussian, Plain, Rule
from securefg.privacy.settings import FieldSettings, PrivacySettings
from securefg.privacy.stages import Per


@dataclass(frozen=True)
class PlannedRelease:
    """A private field that a method will send: how often in the run, and with how many rows."""

    message: type[Message]
    field: str
    count: int
    num_rows: int = 1

    @property
    def name(self) -> str:
        return f"{self.message.__name__}.{self.field}"

    @property
    def declaration(self) -> Declaration:
        return self.message.declarations[self.field]


@dataclass(frozen=True)
class Policy:
    """Rules by `Message.field`, and the claim they must keep."""

    rules: dict[str, Rule]
    delta: float
    unit: Unit
    budget: float | None
    protects: bool

    def rule(self, message: type[Message], field: str) -> Rule:
        name = f"{message.__name__}.{field}"
        if name not in self.rules:
            raise NoRule(f"{name} is private and no rule covers it; nothing was sent")
        return self.rules[name]

    def mechanism(self, message: type[Message], field: str, num_rows: int) -> Mechanism:
        """The fact to book when the field leaves."""
        rule, name = self.rule(message, field), f"{message.__name__}.{field}"
        if isinstance(rule, Plain):
            return Mechanism(field=name, rule=rule.name)
        return Mechanism(
            field=name,
            rule=rule.name,
            per=rule.per,
            noise_multiplier=rule.noise_multiplier,
            num_rows=num_rows if rule.per == "row" else 1,
            adjacency=rule.adjacency,
            protects=self.protects,
        )


def make_policy(settings: PrivacySettings, planned: list[PlannedRelease]) -> Policy:
    """Settle every rule; with `target_epsilon`, find the noise that keeps it."""
    _refuse_unknown_fields(settings, planned)
    rules = {release.name: _rule(settings, release) for release in planned}
    policy = Policy(
        rules=rules,
        delta=settings.delta,
        unit=settings.unit,
        budget=settings.budget,
        protects=settings.noise_rng == "system",
    )
    return policy if settings.target_epsilon is None else _calibrated(policy, settings, planned)


def _refuse_unknown_fields(settings: PrivacySettings, planned: list[PlannedRelease]) -> None:
    known = [release.name for release in planned]
    for name in settings.fields:
        if name not in known:
            raise ConfigError(
                f"privacy.fields.{name}: no such private field; this run sends {', '.join(known)}"
            )


def _rule(settings: PrivacySettings, release: PlannedRelease) -> Rule:
    own = settings.fields.get(release.name) or FieldSettings(mechanism=settings.mechanism)
    if own.mechanism == "plain":
        return Plain()
    multiplier = own.noise_multiplier or settings.noise_multiplier
    if multiplier is None and settings.target_epsilon is None:
        raise ConfigError(f"privacy.fields.{release.name}: local_gaussian wants noise_multiplier")
    default_per: Per = "row" if release.declaration.rows else "message"
    return LocalGaussian(
        clip_l2=own.clip_l2 or settings.clip_l2,
        noise_multiplier=multiplier or 1.0,
        per=own.per or settings.per or default_per,
        adjacency=settings.adjacency,
    )


def _calibrated(policy: Policy, settings: PrivacySettings, planned: list[PlannedRelease]) -> Policy:
    assert settings.target_epsilon is not None
    profile = {
        policy.mechanism(r.message, r.field, r.num_rows): r.count
        for r in planned
        if isinstance(policy.rules[r.name], LocalGaussian)
    }
    steps, _ = steps_for(profile, settings.unit)
    if not steps:
        raise ConfigError("privacy.target_epsilon: this run sends no field with noise")
    multiplier = calibrate(profile, settings.unit, settings.delta, settings.target_epsilon)
    rules = {
        name: replace(rule, noise_multiplier=rule.noise_multiplier * multiplier)
        if isinstance(rule, LocalGaussian)
        else rule
        for name, rule in policy.rules.items()
    }
    return replace(policy, rules=rules)
