"""The policy: one rule for every private field, settled before the run starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from securefg.foundation.errors import ConfigError, NoRule
from securefg.privacy.accountants import calibrate_noise, steps_for
from securefg.privacy.contract import check_fact, check_law, check_reach, settle_rule
from securefg.privacy.defence import Asked, Defence, NoisyUpload, local_defences
from securefg.privacy.influence import WHOLE_MESSAGE, Fixed, Influence, Population
from securefg.privacy.ledger import Mechanism, OpenedBy
from securefg.privacy.masking_plan import MaskedField, covers_steering, masked_fields
from securefg.privacy.releases import PlannedRelease
from securefg.privacy.sums import ExactSums, exact_sums
from securefg.protocol.messages import Message
from securefg.secagg.committee.seating import check_seats
from securefg.secagg.graph import choose_parameters
from securefg.settings.privacy import NO_DEFENCE, FieldSettings, PrivacySettings, Unit


@dataclass(frozen=True)
class Policy:
    """A set of rules by `Message.field`, the masked fields among them, and the claim they must
    keep.

    least_survivors  by message, no smaller cohort is unmasked: the sum would lack planned noise, or
                     show the rows of a client that is away
    cohorts          how many clients are to be asked for each kind of message that is masked
    rounds           in how many rounds each of them leaves; a census is not among them
    min_holders      from how many holders on a node's row may be in a sum that carries no noise
    exact            what replies leave out where sums are masked and carry no noise
    """

    rules: Mapping[str, Defence]
    delta: float
    unit: Unit
    budget: float | None
    protects: bool
    masked: Mapping[str, MaskedField] = field(default_factory=dict)
    least_survivors: Mapping[str, int] = field(default_factory=dict)
    population: Population | None = None
    influences: Mapping[str, tuple[Influence, Influence]] = field(default_factory=dict)
    cohorts: Mapping[str, int] = field(default_factory=dict)
    rounds: Mapping[str, int] = field(default_factory=dict)
    min_holders: int = 1
    exact: ExactSums = field(default_factory=ExactSums)
    _facts: dict[tuple[str, str, int, int], Mechanism] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def bare(self) -> bool:
        """Return whether any sum is masked and carries no noise. The difference of two sums is then
        exact."""
        return any(found.rule.is_bare for found in self.masked.values())

    @property
    def is_steering_covered(self) -> bool:
        """Return whether the noise on every masked sum covers an upload whatever the server asked
        for."""
        return all(
            covers_steering(self.influences.get(name, (WHOLE_MESSAGE, WHOLE_MESSAGE))[0], mask.rule)
            for name, mask in self.masked.items()
        )

    def rule(self, message: type[Message], name: str) -> Defence:
        """Return the rule of a private field. Raise NoRule if no rule covers it."""
        full = f"{message.__name__}.{name}"
        if full not in self.rules:
            raise NoRule(f"{full} is private and no rule covers it; nothing was sent")
        return self.rules[full]

    def mask(self, message: type[Message], name: str) -> MaskedField | None:
        """Return how a field is masked, or None if it is not."""
        return self.masked.get(f"{message.__name__}.{name}")

    def masks(self, message: type[Message]) -> list[str]:
        """Return the fields of a message that travel masked."""
        return [name for name in message.declarations if self.mask(message, name)]

    def mechanism(self, message: type[Message], name: str, dim: int, num_rows: int) -> Mechanism:
        """Return the fact to book when the field leaves: `dim` numbers in `num_rows` rows."""
        key = (message.__name__, name, dim, num_rows)
        if key not in self._facts:
            self._facts[key] = self._mechanism_with_units(message, name, dim, num_rows)
        return self._facts[key]

    def _mechanism_with_units(
        self, message: type[Message], name: str, dim: int, num_rows: int
    ) -> Mechanism:
        booked = self._client_mechanism(message, name, dim, num_rows)
        if self.population is None:  # nobody knows with how many clients a node is
            return booked
        rule = self.rule(message, name)
        influences = self.influences.get(booked.field, (WHOLE_MESSAGE, WHOLE_MESSAGE))
        holders = self.population.holders("node"), self.population.holders("edge")
        node, edge = (
            check_reach(rule, influence, count, rule.reach(influence, count, dim, num_rows))
            for influence, count in zip(influences, holders, strict=True)
        )
        return replace(booked, node=node, edge=edge)

    def _client_mechanism(
        self, message: type[Message], name: str, dim: int, num_rows: int
    ) -> Mechanism:
        """Return the fact without nodes and edges: of a client, and of its rows."""
        rule, full = self.rule(message, name), f"{message.__name__}.{name}"
        masked = full in self.masked
        opened_by: OpenedBy = "server"
        if masked and self.masked[full].recipients:
            opened_by = "recipients"
        booked = check_fact(rule, rule.fact(full, dim, num_rows, self.protects))
        word = "masked" if masked and rule.is_bare else rule.name
        return replace(
            booked,
            field=full,
            rule=word,
            protects=self.protects,
            masked=masked,
            opened_by=opened_by,
        )


def make_policy(
    settings: PrivacySettings,
    planned: Sequence[PlannedRelease],
    num_clients: int,
    at_most: int | None = None,
    population: Population | None = None,
) -> Policy:
    """Settle every rule and, with `target_epsilon`, the noise that keeps it. Plan the masking and
    return the policy.

    num_clients  how many are asked in a round
    at_most      how many a sum can ever have: no grid may overflow for these
    population   who holds a node; where it is not known, every client may
    """
    largest = max(num_clients, at_most or 0)
    population = population or Population(largest)
    _refuse_unknown_fields(settings, planned)
    rules = {
        release.name: _make_rule(settings, release, num_clients, largest) for release in planned
    }
    _refuse_noisy_weights(planned, rules)
    if settings.target_epsilon is not None:
        rules = _calibrate_rules(rules, settings, planned, population)
    masked = masked_fields(settings.secure_aggregation, planned, rules, largest)
    _refuse_noise_without_masks(planned, rules, masked)
    rules |= {name: found.rule for name, found in masked.items()}
    for release in planned:
        rows = release.num_rows
        check_law(rules[release.name], release.name, torch.Size((rows, release.dim // rows)))
    _refuse_noisy_census(planned, masked)
    whole = _whole_sums(planned, masked, num_clients, largest)
    return Policy(
        rules=rules,
        delta=settings.delta,
        unit=settings.unit,
        budget=settings.budget,
        protects=settings.noise_rng == "system",
        masked=masked,
        least_survivors=_least_survivors(settings, planned, rules, num_clients, largest) | whole,
        population=population,
        influences={
            r.name: (_settle_influence(r.node), _settle_influence(r.edge)) for r in planned
        },
        cohorts=_session_sizes(settings, planned, masked, num_clients, largest),
        rounds=_count_rounds(planned, masked),
        min_holders=settings.secure_aggregation.min_holders if settings.secure_aggregation else 1,
        exact=exact_sums(planned, [n for n, m in masked.items() if m.rule.is_bare]),
    )


def _settle_influence(influence: Influence) -> Influence:
    """Return the influence without the method's function, because a policy goes to other
    processes."""
    distance = influence.moved_l2
    if distance is None:
        return influence
    return replace(influence, moved=Fixed(distance), stricter=None)


def _session_sizes(
    settings: PrivacySettings,
    planned: Sequence[PlannedRelease],
    masked: Mapping[str, MaskedField],
    num_clients: int,
    population: int,
) -> dict[str, int]:
    """Return by message how many clients a session has. Raise if colluders would break a
    session."""
    if settings.secure_aggregation is None:
        return {}
    threat = settings.secure_aggregation.threat_among(population)
    if settings.secure_aggregation.form == "committee":
        check_seats(settings.secure_aggregation, population)
    sender_counts = {
        r.message.kind: _count_senders(
            r, num_clients if r.count else population
        )  # everybody is counted
        for r in planned
        if r.name in masked
    }
    for kind, cohort in sender_counts.items():
        least = max(threat.least_cohort(cohort), settings.secure_aggregation.min_clients)
        if cohort < least:
            raise ConfigError(
                f"privacy.secure_aggregation: found {cohort} clients that send {kind}; expected at "
                f"least {least} with corrupt {threat.corrupt:g} of {population}; "
                f"{_advise_on_cohort(cohort, population, least)}"
            )
        if settings.secure_aggregation.form == "session":
            choose_parameters(cohort, threat)
    return sender_counts


def _count_rounds(
    planned: Sequence[PlannedRelease], masked: Mapping[str, MaskedField]
) -> dict[str, int]:
    """Return by message in how many rounds it leaves at most. A constant field without noise leaves
    once, which clients ensure by themselves."""
    sent = [r for r in planned if r.name in masked]
    once = {r.name for r in sent if r.declaration.constant and masked[r.name].rule.is_bare}
    kinds = {r.message.kind for r in sent if r.count or r.name not in once}
    return {kind: max(r.count for r in sent if r.message.kind == kind) for kind in kinds}


def _refuse_unknown_fields(settings: PrivacySettings, planned: Sequence[PlannedRelease]) -> None:
    known = [release.name for release in planned]
    for name in settings.field_rules:
        if name not in known:
            raise ConfigError(
                f"privacy.field_rules.{name}: no such private field; "
                f"this run sends {', '.join(known)}"
            )


def _refuse_noisy_weights(planned: Sequence[PlannedRelease], rules: Mapping[str, Defence]) -> None:
    """Raise ConfigError for a weight under noise. It may come out negative, and its mean is
    meaningless."""
    for release in planned:
        weight = f"{release.message.__name__}.{release.declaration.weight}"
        if weight in rules and not rules[weight].is_bare:
            raise ConfigError(
                f"privacy: noise on {weight}, by which {release.name} is weighted, would make the "
                "weights meaningless; let clients count alike (method.weighting: clients)"
            )


def _refuse_noisy_census(
    planned: Sequence[PlannedRelease], masked: Mapping[str, MaskedField]
) -> None:
    """Raise ConfigError for a noisy census. A census (planned for no round) is exact, and leaves
    only beside sums without noise."""
    bare = [name for name, found in masked.items() if found.rule.is_bare]
    for release in planned:
        found = masked.get(release.name)
        if bare and release.count == 0 and found is not None and not found.rule.is_bare:
            raise ConfigError(
                f"privacy.field_rules.{release.name}.mechanism: found {found.rule.name}; expected "
                f"{NO_DEFENCE}, since the field is counted exactly, once, for the sums without "
                f"noise ({', '.join(bare)}); set it to {NO_DEFENCE}, or put noise on these too"
            )


def _refuse_noise_without_masks(
    planned: Sequence[PlannedRelease],
    rules: Mapping[str, Defence],
    masked: Mapping[str, MaskedField],
) -> None:
    """Raise ConfigError if a share of distributed noise would leave outside a masked sum, where it
    protects nothing."""
    for release in planned:
        rule = rules[release.name]
        if not rule.needs_masks or release.name in masked:
            continue
        allowed = " or ".join(local_defences())
        if release.declaration.scope == "each":
            because = "the server needs every single value of it, and none is summed under masks"
            advice = f"set privacy.field_rules.{release.name}.mechanism: {allowed}"
            if release.declaration.summed_by:
                advice += f", or {release.declaration.summed_by}, which sends sums"
        else:
            because = "secure_aggregation.masked_fields leaves it without masks"
            advice = "name the field there, or leave secure_aggregation.masked_fields out"
        raise ConfigError(
            f"privacy.field_rules.{release.name}.mechanism: found {rule.name}; expected {allowed}, "
            f"since {because}; {advice}"
        )


def _make_rule(
    settings: PrivacySettings, release: PlannedRelease, num_clients: int, population: int
) -> Defence:
    if release.trained is not None:
        if settings.mechanism != NO_DEFENCE or release.name in settings.field_rules:
            raise ConfigError(
                f"privacy: {release.name} has its noise from {release.trained.key}; allowed beside "
                f"it: mechanism: {NO_DEFENCE}, and no rule in privacy.field_rules"
            )
        return release.trained
    field_settings = settings.field_rules.get(release.name) or FieldSettings(
        mechanism=settings.mechanism
    )
    multiplier = field_settings.noise_multiplier or settings.noise_multiplier
    if settings.target_epsilon is not None:
        multiplier = multiplier or release.noisier
    masking = settings.secure_aggregation
    key = (
        "mechanism"
        if release.name not in settings.field_rules
        else f"field_rules.{release.name}.mechanism"
    )
    return settle_rule(
        Asked(
            field=release.name,
            mechanism=field_settings.mechanism,
            clip_l2=field_settings.clip_l2 or release.norm or settings.clip_l2,
            noise_multiplier=multiplier,
            per=field_settings.clip_per
            or settings.clip_per
            or ("row" if release.declaration.rows else "message"),
            adjacency=settings.adjacency,
            moved_l2=release.moved_l2(settings.unit),
            threat=masking.threat_among(population) if masking is not None else None,
            senders=_count_senders(release, num_clients),
        ),
        f"privacy.{key}",
    )


def _advise_on_cohort(cohort: int, population: int, least: int) -> str:
    """Return what helps a cohort that is too small for masks. Among two clients each would know the
    other's part of the sum."""
    if population < least:
        return "leave masks out, and let each client add noise that protects alone"
    return "ask more (training.participation), or lower corrupt"


def _count_senders(release: PlannedRelease, num_clients: int) -> int:
    return num_clients if release.senders is None else min(release.senders, num_clients)


def _least_survivors(
    settings: PrivacySettings,
    planned: Sequence[PlannedRelease],
    rules: Mapping[str, Defence],
    num_clients: int,
    population: int,
) -> dict[str, int]:
    """Return, by message with distributed noise, how many masked replies must arrive."""
    if settings.secure_aggregation is None:
        return {}
    threat = settings.secure_aggregation.threat_among(population)
    senders = {
        release.message.kind: _count_senders(release, num_clients)
        for release in planned
        if rules[release.name].needs_masks
    }
    return {kind: count - threat.num_dropped(count) for kind, count in senders.items()}


def _whole_sums(
    planned: Sequence[PlannedRelease],
    masked: Mapping[str, MaskedField],
    num_clients: int,
    population: int,
) -> dict[str, int]:
    """Return, by message whose bare sums must be of all clients, how many these are."""
    bare = [
        release
        for release in planned
        if release.whole and release.name in masked and masked[release.name].rule.is_bare
    ]
    if bare and num_clients < population:
        raise ConfigError(
            f"training.participation: found {num_clients} of {population} clients; expected all "
            f"under masks without noise: a client that is away shows which rows of {bare[0].name} "
            "are its own; leave these rows out, or add noise"
        )
    return {release.message.kind: population for release in bare}


def _calibrate_rules(
    rules: dict[str, Defence],
    settings: PrivacySettings,
    planned: Sequence[PlannedRelease],
    population: Population,
) -> dict[str, Defence]:
    """Scale all noise by the one factor with which the planned releases cost the target."""
    assert settings.target_epsilon is not None
    profile: dict[Mechanism, int] = {}
    for release in planned:
        rule = rules[release.name]
        if isinstance(rule, NoisyUpload):
            node = release.node, population.holders("node")
            edge = release.edge, population.holders("edge")
            fact = rule.planned_fact(release.name, release.num_rows, node, edge)
            profile[fact] = profile.get(fact, 0) + release.count
    if not steps_for(profile, settings.unit)[0]:
        raise ConfigError("privacy.target_epsilon: this run sends no field with noise")
    factor = calibrate_noise(profile, settings.unit, settings.delta, settings.target_epsilon)
    return {
        name: rule.scaled(factor) if isinstance(rule, NoisyUpload) else rule
        for name, rule in rules.items()
    }
