"""What one node or edge meets over all its holders, and how it is claimed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from torch import Tensor

from securefg.foundation.errors import ConfigError
from securefg.privacy.accountants import Step, claim, claim_units, tightest
from securefg.privacy.defences.distributed_discrete import DistributedDiscrete
from securefg.privacy.defences.dp_sgd import DpSgd
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.defences.plain import Plain
from securefg.privacy.influence import NOTHING, WHOLE_MESSAGE, Influence, Population
from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.privacy.policy import Policy, make_policy
from securefg.privacy.private_training import TrainingPlan
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private
from securefg.settings.privacy import PrivacySettings

DELTA = 1e-5


class Sent(Message, kind="influence_test.Sent"):
    sums: Tensor = private("sum", "numbers", means=Other("numbers"))
    rows: Tensor = private("sum", "rows", means=Other("rows"), rows="node")


@dataclass(frozen=True)
class Linear:
    """S(k) = a + b k."""

    a: float
    b: float

    def __call__(self, links: int) -> float:
        return self.a + self.b * links


def policy_of(population: Population, *planned: PlannedRelease, **settings: object) -> Policy:
    tree = {"mechanism": "local_gaussian", "noise_multiplier": 2.0, **settings}
    return make_policy(PrivacySettings.model_validate(tree), planned, 10, population=population)


def test_a_clipped_message_moves_by_the_whole_diameter_whatever_the_relation() -> None:
    replaced = LocalGaussian(1.0, 3.0, "message", "replace_one")
    zeroed = LocalGaussian(1.0, 3.0, "message", "zero_out")
    assert replaced.reach(WHOLE_MESSAGE, 1, 8, 1).noise_multiplier == pytest.approx(3.0)
    assert zeroed.reach(WHOLE_MESSAGE, 1, 8, 1).noise_multiplier == pytest.approx(1.5)


@pytest.mark.parametrize(("rows", "met"), [(None, 10), (4, 4), (99, 10)])
def test_rows_that_a_node_moves_add_up_as_a_root(rows: int | None, met: int) -> None:
    rule = LocalGaussian(1.0, 3.0, "row", "replace_one")
    found = rule.reach(Influence(rows), 1, 20, 10)
    assert found.noise_multiplier == pytest.approx(3.0 / math.sqrt(met))


def test_own_noises_compose_over_holders_and_a_masked_sum_adds_their_moves() -> None:
    local = LocalGaussian(1.0, 3.0, "message").reach(WHOLE_MESSAGE, 4, 8, 1)
    assert (local.noise_multiplier, local.times) == (pytest.approx(3.0), 4)
    rule = DistributedDiscrete(1.0, 3.0, "message", "replace_one", scale=4096.0, least_noises=10)
    summed = rule.reach(WHOLE_MESSAGE, 4, 8, 1)
    assert (summed.noise_multiplier, summed.times) == (pytest.approx(3.0 / 4, rel=1e-6), 1)


def test_a_proved_distance_counts_with_rounding_and_never_more_than_the_clip() -> None:
    rule = DistributedDiscrete(100.0, 2.0, "message", "zero_out", 3.0, scale=1024.0, least_noises=5)
    assert rule.plan_for(16).beta == 0
    found = rule.reach(Influence(moved=Linear(1.0, 1.0), links=2), 1, 16, 1)
    assert found.noise_multiplier == pytest.approx(2.0, rel=1e-6)
    assert found.removal
    twice = rule.reach(Influence(moved=Linear(1.0, 1.0), links=5), 1, 16, 1)
    ratio = (3 * 1024 + 4) / (6 * 1024 + 4)
    assert twice.noise_multiplier == pytest.approx(2.0 * ratio, rel=1e-6)
    far = rule.reach(Influence(moved=Linear(1e9, 0.0)), 1, 16, 1)
    assert far.noise_multiplier == pytest.approx(
        rule.local_stddev(rule.plan_for(16))
        * math.sqrt(5)
        / rule.widest_distance(rule.plan_for(16))
    )


def test_rounding_counts_in_every_row_that_a_node_moves() -> None:
    """A proved distance is of the whole message, whose every number is rounded, clipped by row or
    not; on a coarse grid that is most of what moves."""
    rule = DistributedDiscrete(100.0, 2.0, "row", "zero_out", 3.0, least_noises=5)
    found = rule.reach(Influence(moved=Linear(3.0, 0.0)), 1, 400, 100)
    sigma = rule.local_stddev(rule.plan_for(4)) * math.sqrt(5)
    assert found.noise_multiplier == pytest.approx(sigma / (3 + math.sqrt(400)), rel=1e-6)


def test_what_a_unit_does_not_touch_costs_nothing_even_without_noise() -> None:
    assert Plain().reach(NOTHING, 3, 8, 1).times == 0
    assert Plain().reach(WHOLE_MESSAGE, 3, 8, 1).noise_multiplier is None


def test_a_sample_of_dp_sgd_keeps_its_sampling_and_meets_every_holder() -> None:
    rule = DpSgd(TrainingPlan(5, 0.1, 1.0, 1.5, 0.1), 20)
    one = rule.reach(Influence(rows=1), 3, 8, 1)
    assert (one.noise_multiplier, one.sampling, one.times) == (1.5, 0.1, 3)
    every = rule.reach(WHOLE_MESSAGE, 3, 8, 1)
    assert (every.noise_multiplier, every.sampling) == (1.5 / 20, 1.0)


def test_the_node_claim_is_over_all_holders_and_names_them() -> None:
    population = Population(10, 300, 900, node_holders=9, edge_holders=4)
    policy = policy_of(population, PlannedRelease(Sent, "sums", 5, 12))
    ledger = Ledger(10)
    booked = policy.mechanism(Sent, "sums", 12, 1)
    for round in (1, 2, 3):
        ledger.record([Release(booked, Clients(((0, 10),)), round, 1)])
    client, node, edge = claim_units(ledger, DELTA, population=population)
    assert client.epsilon == tightest((Step(2.0, 3),), DELTA)
    assert node.epsilon == tightest((Step(2.0, 27),), DELTA)
    assert edge.epsilon == tightest((Step(2.0, 12),), DELTA)
    assert (node.holders, node.num_units, node.relation) == (9, 300, "removed, added or changed")
    assert (edge.holders, edge.num_units) == (4, 900)


def test_holders_that_nobody_told_may_be_all_clients() -> None:
    assert Population(10).holders("node") == 10
    policy = policy_of(Population(10), PlannedRelease(Sent, "sums", 1, 12))
    assert policy.mechanism(Sent, "sums", 12, 1).node.times == 10


def test_what_the_server_is_given_makes_nodes_and_edges_unbounded() -> None:
    population = Population(3, given=("all edges",))
    policy = policy_of(population, PlannedRelease(Sent, "sums", 1, 12))
    ledger = Ledger(3)
    ledger.record([Release(policy.mechanism(Sent, "sums", 12, 1), Clients(((0, 3),)), 1, 1)])
    client, node, edge, features = claim_units(ledger, DELTA, population=population)
    assert [c.private for c in (client, node, edge)] == [True, False, False]
    assert node.given == ("all edges",)
    assert (features.unit, features.private, features.given) == ("features", True, ())
    assert features.epsilon == claim(ledger.profiles(), "node", DELTA).epsilon


def test_clients_that_released_different_things_are_taken_together() -> None:
    a, b = (
        replace(Mechanism(name, "local_gaussian", noise_multiplier=3.0), node=reach_of(3.0))
        for name in "ab"
    )
    found = claim([{a: 2, b: 0}, {a: 0, b: 2}], "node", DELTA)
    assert found.epsilon == tightest((Step(3.0, 4),), DELTA)


def reach_of(multiplier: float) -> object:
    return LocalGaussian(1.0, multiplier, "message").reach(WHOLE_MESSAGE, 1, 8, 1)


@pytest.mark.parametrize("mechanism", ["local_gaussian", "distributed_discrete"])
@pytest.mark.parametrize("holders", [1, 3])
@pytest.mark.parametrize("moved", [None, Linear(1.0, 0.25)])
def test_target_epsilon_speaks_of_the_node(
    mechanism: str, holders: int, moved: Linear | None
) -> None:
    population = Population(10, 100, 200, holders, holders)
    node = Influence(moved=moved, links=8)
    planned = PlannedRelease(Sent, "sums", 4, 50, norm=20.0, node=node)
    settings = {
        "mechanism": mechanism,
        "noise_multiplier": None,
        "target_epsilon": 3.0,
        "unit": "node",
        "secure_aggregation": {"ring_bits": 64},
    }
    policy = policy_of(population, planned, **settings)
    fact = policy.mechanism(Sent, "sums", 50, 1)
    found = claim([{fact: 4}], "node", DELTA, population=population)
    assert found.epsilon == pytest.approx(3.0, rel=1e-3)
    assert found.relation == ("removed or added" if moved else "removed, added or changed")
    alone = claim([{fact: 4}], "client", DELTA)
    assert (alone.epsilon > 6.0) == (moved is not None)


def test_a_release_that_an_edge_does_not_move_gets_noise_for_a_node_and_not_for_all() -> None:
    """Of a target for edges it takes nothing, so noise for a whole message would be for nobody."""
    node = Influence(moved=Linear(1.0, 0.0))
    still = PlannedRelease(Sent, "sums", 1, 12, norm=1000.0, node=node, edge=NOTHING)
    moving = replace(still, field="rows", edge=Influence(moved=Linear(0.5, 0.0)))
    settings = {"noise_multiplier": None, "target_epsilon": 3.0, "unit": "edge"}
    policy = policy_of(Population(10, node_holders=1, edge_holders=1), still, moving, **settings)
    assert policy.rules["Sent.sums"].sensitivity == 1.0
    assert policy.rules["Sent.rows"].sensitivity == 0.5
    booked = {policy.mechanism(Sent, name, 12, 1): 1 for name in ("sums", "rows")}
    assert claim([booked], "edge", DELTA).epsilon == pytest.approx(3.0, rel=1e-3)
    assert 3.0 < claim([booked], "node", DELTA).epsilon < 12.0


def test_a_target_for_a_node_that_moves_nothing_is_refused() -> None:
    planned = PlannedRelease(Sent, "sums", 4, 50, node=NOTHING)
    settings = {"noise_multiplier": None, "target_epsilon": 3.0, "unit": "node"}
    with pytest.raises(ConfigError, match="no field with noise"):
        policy_of(Population(10), planned, **settings)


def test_a_reach_survives_the_ledger_file() -> None:
    policy = policy_of(Population(3, node_holders=2), PlannedRelease(Sent, "rows", 1, 12, 4))
    booked = Release(policy.mechanism(Sent, "rows", 12, 4), Clients(((0, 3),)), 1, 1)
    assert Release.from_json(booked.to_json()) == booked
