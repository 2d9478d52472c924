"""Every epsilon of a run with what it is about: unit, relation, holders, and what it leaves out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from securefg.data.tabular.schema import FILE as SCHEMA
from securefg.data.tabular.schema import read_schema
from securefg.foundation.errors import DataError
from securefg.privacy.accountants import Claim, claim, claim_units
from securefg.privacy.influence import Fixed
from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Clients
from securefg.runs.assembly import Setup, with_truth
from securefg.runs.rare_classes import uncovered_choices
from securefg.runs.summary import SEEDED, ClaimedEpsilon, LinkEpsilon
from securefg.settings.config import RunConfig
from securefg.settings.partition import REMAINING
from securefg.settings.privacy import Unit

VALIDATION = "validation labels, by which the kept round is chosen"
EARLY = "validation labels, by which the run is ended early"
ANSWERS = "answers for nodes, which are shown to others and computed from people's own data"
FROM_EDGES = (
    "{} that were computed from edges: one edge moves the rows of both its ends, and a node moves "
    "its neighbours' rows"
)
EARLIER = (
    "earlier releases of the same data, from which somebody was erased since: erasure.json has the "
    "epsilon of all releases together"
)
AT_HOME = "answers for nodes, which stay at home by the method's declaration"


def claim_epsilons(experiment: Setup, ledger: Ledger) -> dict[Unit, ClaimedEpsilon]:
    """Return a claim per unit. A node's also by its number of links, where the method says how.

    A run with `training.patience` ends when validation labels say so. The composition of what it
    spent is no bound then, since the number of releases is itself a result: the claim is that of
    all planned releases, and the spent epsilon stands beside it.
    """
    spent = _from_ledger(experiment, ledger)
    if experiment.config.training.patience is None:
        return spent
    planned = planned_epsilons(experiment)
    return {unit: _at_least(planned[unit], claim) for unit, claim in spent.items()}


def _at_least(planned: ClaimedEpsilon, spent: ClaimedEpsilon) -> ClaimedEpsilon:
    """Return the planned claim with the spent epsilon, or the spent claim if that is more."""
    if planned.epsilon is None or spent.epsilon is None or spent.epsilon >= planned.epsilon:
        return spent
    changed = {"epsilon": planned.epsilon, "spent": spent.epsilon, "by_links": planned.by_links}
    return spent.model_copy(update=changed)


def _from_ledger(experiment: Setup, ledger: Ledger) -> dict[Unit, ClaimedEpsilon]:
    policy = experiment.policy
    claims_by_unit = {
        c.unit: claim_with_reasons(c, policy.protects, not_covered(experiment))
        for c in claim_units(ledger, policy.delta, population=policy.population)
    }
    by_links = _by_links(experiment, ledger)
    return {
        **claims_by_unit,
        "node": claims_by_unit["node"].model_copy(update={"by_links": by_links}),
    }


def planned_epsilons(experiment: Setup) -> dict[Unit, ClaimedEpsilon]:
    """Return the claims of the run at its end, if one client sends all that is planned."""
    config, policy = experiment.config, experiment.policy
    ledger = Ledger(1)
    for release in experiment.method.releases(config.method, config.training, experiment.public):
        mechanism = policy.mechanism(release.message, release.field, release.dim, release.num_rows)
        one = Release(mechanism, Clients(((0, 1),)), round=1, step=1)
        ledger.record([one] * release.count)
    return _from_ledger(experiment, ledger)


def claim_with_reasons(
    claim: Claim, protects: bool, beside: tuple[str, ...] = ()
) -> ClaimedEpsilon:
    """Return the claim for the summary, with the reasons for which it is not private."""
    because = [*claim.because, *([] if protects or not claim.private else [SEEDED])]
    given = tuple(f"{what}, given to the server" for what in claim.given)
    return ClaimedEpsilon(
        epsilon=claim.epsilon if math.isfinite(claim.epsilon) else None,
        delta=claim.delta,
        private=not because and not given,
        because=(*because, *given),
        relation=claim.relation,
        holders=claim.holders,
        num_units=claim.num_units,
        not_covered=beside,
    )


def not_covered(experiment: Setup) -> tuple[str, ...]:
    """Return what leaves clients, or the run used of their data, that no epsilon covers."""
    training, shown = experiment.config.training, experiment.method.answers_shown
    answers = ANSWERS if shown(experiment.config.method) else AT_HOME
    return (
        *([VALIDATION] if training.final_model == "best" else []),
        *([EARLY] if training.patience is not None else []),
        *([answers] if experiment.policy.rules else []),
        *(
            release.node.left_out
            for release in _planned_releases(experiment)
            if release.node.left_out
        ),
        *([EARLIER] if experiment.config.partition.name == REMAINING else []),
        *uncovered_choices(experiment.config),
        *_learnt_from_tables(experiment.config),
    )


def _learnt_from_tables(config: RunConfig) -> tuple[str, ...]:
    """Return what the schema of a prepared folder tells of the tables, or nothing if all was
    declared."""
    path = None if config.data.folder is None else config.data.folder / SCHEMA
    if path is None or not path.is_file():
        return ()
    try:
        schema = read_schema(path)
    except DataError:
        return (f"{SCHEMA}, which cannot be read",)
    facts = [f"{SCHEMA}: {fact}" for fact in schema.learnt]
    if schema.from_edges:
        facts.append(FROM_EDGES.format(f"{len(schema.from_edges)} columns"))
    summed = len(schema.summed)
    if summed and not _counts_links(config, summed):
        facts.append(FROM_EDGES.format(f"the last {summed} features"))
    return tuple(facts)


def _counts_links(config: RunConfig, summed: int) -> bool:
    """Whether the method's influence covers the sums over links, as they were prepared."""
    rows_kept = config.data.normalize_features in (None, "none") and config.data.projection is None
    return rows_kept and getattr(config.method, "link_columns", 0) == summed


def _planned_releases(experiment: Setup) -> list[PlannedRelease]:
    config = experiment.config
    return experiment.method.releases(config.method, config.training, experiment.public)


def _by_links(experiment: Setup, ledger: Ledger) -> tuple[LinkEpsilon, ...]:
    """Return epsilons for the covered number of links, and for the median, 95th percentile and
    largest degree if the experiment has the graph."""
    planned = [
        release for release in _planned_releases(experiment) if release.node.moved is not None
    ]
    population = experiment.policy.population
    if not planned or (population is not None and population.given):
        return ()
    if all(isinstance(release.node.moved, Fixed) for release in planned):
        return ()  # the claim holds for any number of links
    numbers = {"covered": max(release.node.links for release in planned)}
    known = with_truth(experiment)
    if getattr(experiment.config.method, "link_columns", 0):
        known = None  # partners at other clients count too, and no client's edges show them
    if known is not None:
        ends = known.union.edge_index.flatten()
        degrees = torch.bincount(ends, minlength=known.union.num_nodes).double()
        degrees = degrees / (1 if known.union.directed else 2)
        held = degrees[torch.unique(known.partition.nodes)]
        for name, share in (("median", 0.5), ("95th percentile", 0.95), ("largest", 1.0)):
            numbers[name] = math.ceil(float(torch.quantile(held, share)))
    link_epsilons = [
        LinkEpsilon(whose=name, links=k, epsilon=_epsilon_at(experiment.policy, ledger, planned, k))
        for name, k in numbers.items()
    ]
    return (*link_epsilons, *_own_row_too(experiment, ledger, planned, numbers["covered"]))


def _own_row_too(
    experiment: Setup, ledger: Ledger, planned: list[PlannedRelease], links: int
) -> Iterator[LinkEpsilon]:
    """The claim under the stricter convention, where a release leaves a node's own row out."""
    if all(release.node.stricter is None for release in planned):
        return
    strict = [
        replace(r, node=replace(r.node, moved=r.node.stricter or r.node.moved)) for r in planned
    ]
    epsilon = _epsilon_at(experiment.policy, ledger, strict, links)
    yield LinkEpsilon(whose="covered, its own row too", links=links, epsilon=epsilon)


def _epsilon_at(
    policy: Policy, ledger: Ledger, planned: list[PlannedRelease], links: int
) -> float | None:
    """Return the node's epsilon if it had so many links, from the same releases."""
    at = {release.name: release for release in planned}

    def moved(mechanism: Mechanism) -> Mechanism:
        if mechanism.field not in at:
            return mechanism
        release = at[mechanism.field]
        influence = replace(release.node, links=links)
        assert policy.population is not None
        holders = policy.population.holders("node")
        found = policy.rules[release.name].reach(influence, holders, release.dim, release.num_rows)
        return replace(mechanism, node=found)

    profiles = [
        {moved(mechanism): count for mechanism, count in profile.items()}
        for profile in ledger.profiles()
    ]
    found = claim(profiles, "node", policy.delta, population=policy.population).epsilon
    return found if math.isfinite(found) else None
