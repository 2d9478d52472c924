"""Every epsilon of a run with what it is about: unit, relation, holders, and what it leaves out."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from securefg.privacy.accountants import Claim, claim, claims
from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Clients
from securefg.runs.assembly import Setup, with_truth
from securefg.runs.summary import SEEDED, ClaimedEpsilon, LinkEpsilon
from securefg.settings.privacy import Unit

VALIDATION = "validation labels, by which the kept round is chosen"
EARLY = "validation labels, by which the run is ended early"
ANSWERS = "answers for nodes, which are shown to others and computed from people's own data"
AT_HOME = "answers for nodes, which stay at home by the method's declaration"


def epsilons(experiment: Setup, ledger: Ledger) -> dict[Unit, ClaimedEpsilon]:
    """A claim per unit; a node's also by its number of links, where the method says how.

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
    """The planned claim with the spent epsilon; what was spent, where that is more."""
    if planned.epsilon is None or spent.epsilon is None or spent.epsilon >= planned.epsilon:
        return spent
    changed = {"epsilon": planned.epsilon, "spent": spent.epsilon, "by_links": planned.by_links}
    return spent.model_copy(update=changed)


def _from_ledger(experiment: Setup, ledger: Ledger) -> dict[Unit, ClaimedEpsilon]:
    policy = experiment.policy
    found = {
        c.unit: claimed(c, policy.protects, not_covered(experiment))
        for c in claims(ledger, policy.delta, population=policy.population)
    }
    by_links = _by_links(experiment, ledger)
    return {**found, "node": found["node"].model_copy(update={"by_links": by_links})}


def planned_epsilons(experiment: Setup) -> dict[Unit, ClaimedEpsilon]:
    """What the run will have claimed at its end, if all that is planned is sent by one client."""
    config, policy = experiment.config, experiment.policy
    ledger = Ledger(1)
    for release in experiment.method.releases(config.method, config.training, experiment.public):
        mechanism = policy.mechanism(release.message, release.field, release.dim, release.num_rows)
        one = Release(mechanism, Clients(((0, 1),)), round=1, step=1)
        ledger.record([one] * release.count)
    return _from_ledger(experiment, ledger)


def claimed(claim: Claim, protects: bool, beside: tuple[str, ...] = ()) -> ClaimedEpsilon:
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
    """What leaves clients, or the run used of their data, that no epsilon speaks of."""
    training, shown = experiment.config.training, experiment.method.answers_shown
    answers = ANSWERS if shown(experiment.config.method) else AT_HOME
    return (
        *([VALIDATION] if training.final_model == "best" else []),
        *([EARLY] if training.patience is not None else []),
        *([answers] if experiment.policy.rules else []),
    )


def _by_links(experiment: Setup, ledger: Ledger) -> tuple[LinkEpsilon, ...]:
    """For the covered number of links, and for the median, 95th percentile and largest degree where
    the experiment has the graph."""
    config = experiment.config
    planned = [
        release
        for release in experiment.method.releases(config.method, config.training, experiment.public)
        if release.node.moved is not None
    ]
    population = experiment.policy.population
    if not planned or (population is not None and population.given):
        return ()
    numbers = {"covered": max(release.node.links for release in planned)}
    known = with_truth(experiment)
    if known is not None:
        ends = known.union.edge_index.flatten()
        degrees = torch.bincount(ends, minlength=known.union.num_nodes).double()
        degrees = degrees / (1 if known.union.directed else 2)
        held = degrees[torch.unique(known.partition.nodes)]
        for name, share in (("median", 0.5), ("95th percentile", 0.95), ("largest", 1.0)):
            numbers[name] = math.ceil(float(torch.quantile(held, share)))
    return tuple(
        LinkEpsilon(whose=name, links=k, epsilon=_epsilon_at(experiment.policy, ledger, planned, k))
        for name, k in numbers.items()
    )


def _epsilon_at(
    policy: Policy, ledger: Ledger, planned: list[PlannedRelease], links: int
) -> float | None:
    """The node's epsilon if it had so many links, from the same releases."""
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
