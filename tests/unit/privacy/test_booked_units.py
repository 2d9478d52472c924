"""By brute force: sums with a proved distance, DP-SGD, and rows and clients of any message.

A changed unit moves what is released no further than booked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from securefg.data.graph import Graph
from securefg.data.shard import Shard, shards
from securefg.federation.roles import Site
from securefg.foundation.errors import ConfigError
from securefg.methods.two_sums.algorithm import AskMoments, AskSums
from securefg.privacy.accountants import steps_for
from securefg.privacy.defences.distributed_discrete import DistributedDiscrete, round_rows
from securefg.privacy.defences.dp_sgd import DpSgd
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.noise import SystemNoise
from securefg.privacy.policy import make_policy
from securefg.privacy.releases import PlannedRelease
from securefg.privacy.stages import clip_l2
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import parse_config
from securefg.settings.privacy import PrivacySettings
from tests.small import tree

LOCAL = {"mechanism": "local_gaussian", "noise_multiplier": 1.0, "unit": "node"}
MASKED = {
    "mechanism": "distributed_discrete",
    "noise_multiplier": 1.0,
    "secure_aggregation": {},
    "unit": "node",
}


class Silent(SystemNoise):
    """All samples are drawn, and no noise is added: what is left is what moves."""

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64)


def experiment(method: dict[str, Any], privacy: dict[str, Any], **training: Any) -> Experiment:
    base = tree(Path("unused"))
    base["method"] = method
    base["data"]["csbm"] |= {"num_nodes": 60, "degree": 9, "num_features": 8}
    base["training"] |= {"lr": 0.5, **training}
    return prepare(parse_config({**base, "privacy": privacy}))


def replies(x: Experiment, dealt: tuple[Shard, ...], request: Message) -> list[Message]:
    host_replies = []
    for shard in dealt:
        site = Site(
            (shard,), x.config.method, x.config.training, 7, torch.device("cpu"), noise=Silent()
        )
        host_replies.append(
            x.method.make_host(site).handle(request, Turn(1, 1, Clients.of([shard.client])))
        )
    return host_replies


def without_node(graph: Graph, node: int) -> Graph:
    """It trains nothing and is linked with nothing."""
    train = graph.split.train.clone()
    train[node] = False
    kept = ~(graph.edge_index == node).any(0)
    split = replace(graph.split, train=train)
    return replace(graph, split=split, edge_index=graph.edge_index[:, kept])


def without_edge(graph: Graph, edge: int) -> Graph:
    a, b = graph.edge_index[:, edge].tolist()
    source, target = graph.edge_index
    gone = ((source == a) & (target == b)) | ((source == b) & (target == a))
    return replace(graph, edge_index=graph.edge_index[:, ~gone])


def neighbours(x: Experiment, unit: str, count: int, links: int = 10_000) -> Iterator[Graph]:
    rng, graph = np.random.default_rng(0), x.union
    if unit == "edge":
        for edge in rng.choice(graph.edge_index.shape[1], count, replace=False):
            yield without_edge(graph, int(edge))
        return
    degrees = torch.bincount(graph.edge_index.flatten(), minlength=graph.num_nodes) / 2
    training = (graph.split.train & (degrees <= links)).nonzero().flatten().numpy()
    for node in rng.choice(training, min(count, len(training)), replace=False):
        yield without_node(graph, int(node))


# ------------------------------------------------------------ sums of a proved distance


@pytest.mark.parametrize("privacy", [LOCAL, MASKED], ids=["local", "masked"])
@pytest.mark.parametrize("unit", ["node", "edge"])
@pytest.mark.parametrize("field", ["sums", "products"])
def test_sums_move_no_further_than_proved(privacy: dict[str, Any], unit: str, field: str) -> None:
    narrow = 1 if field == "sums" else 100
    x = experiment({"name": "two_sums", "links": 12, "narrow": narrow}, privacy, rounds=1)
    request = AskSums(number=1) if field == "sums" else AskMoments(projection=None)
    before = replies(x, shards(x.union, x.partition), request)
    planned = x.method.planned(x.config.method, x.config.training, x.public)
    (release,) = (r for r in planned if r.field == field)
    rule = x.policy.rules[release.name]
    fact = x.policy.mechanism(release.message, field, release.dim, release.num_rows)
    reach = fact.node if unit == "node" else fact.edge
    furthest = 0.0
    for graph in neighbours(x, unit, 12, links=12):
        after = replies(x, shards(graph, x.partition), request)
        moves = [
            (getattr(new, field) - getattr(old, field)).double().flatten()
            for old, new in zip(before, after, strict=True)
        ]
        if reach.times == 0:
            assert all(not bool(move.any()) for move in moves)
            furthest = 1.0
            continue
        assert reach.noise_multiplier is not None
        if isinstance(rule, DistributedDiscrete):  # in steps of the grid, rounding left out
            sigma = rule.local_stddev(rule.plan_for(release.dim)) * math.sqrt(rule.least_noises)
            moved = float(torch.stack(moves).sum(0).norm()) * rule.scale
            bound = sigma / reach.noise_multiplier * (1 + 1e-6)
        else:
            assert isinstance(rule, LocalGaussian)
            moved = float(torch.stack(moves).norm())
            bound = math.sqrt(reach.times) * rule.sigma / reach.noise_multiplier * (1 + 1e-9)
        assert moved <= bound
        furthest = max(furthest, moved / bound)
    assert furthest > 0.05  # something moved: the test can fail


# ------------------------------------------------------------------------------------------ DP-SGD

DP_SGD = {"clip_l2": 0.3, "noise_multiplier": 1.5, "sampling": 1.0, "num_samples": 40}


def trained(steps: int = 1) -> Experiment:
    method = {"name": "fedavg", "network": "MLP", "weighting": "equal", "upload": "update"}
    return experiment(method, {}, dp_sgd=DP_SGD, weight_decay=0, local_epochs=steps)


def test_make_policy_noisy_training_refuses_second_noise() -> None:
    method = {"name": "fedavg", "network": "MLP", "weighting": "equal", "upload": "update"}
    with pytest.raises(ConfigError, match=r"noise from training\.dp_sgd; allowed beside it"):
        experiment(method, {**LOCAL, "unit": "row"}, dp_sgd=DP_SGD, weight_decay=0)


def starting_point(x: Experiment) -> Message:
    heard: list[Message] = []

    class Ear:
        num_clients = x.public.num_clients

        def ask(self, request: Message, *rest: Any) -> Any:
            heard.append(request)
            raise InterruptedError

    server = x.method.make_server(x.public, x.config.method, x.config.training, Ear())  # type: ignore[arg-type]
    with pytest.raises(InterruptedError):
        server.round(1)
    return heard[0]


def step_length(x: Experiment, rule: DpSgd, multiplier: float) -> float:
    """The booked distance in a step of the weights: z C over the multiplier, times lr / (q n)."""
    plan = rule.plan
    rate = plan.lr / (plan.sampling * rule.num_samples)
    return rate * plan.noise_multiplier * plan.clip_l2 / multiplier * (1 + 1e-4)


@pytest.mark.parametrize("unit", ["node", "edge", "client"])
def test_a_private_step_moves_no_further_than_booked(unit: str) -> None:
    x = trained()
    (release,) = x.method.planned(x.config.method, x.config.training, x.public)
    rule = x.policy.rules[release.name]
    assert isinstance(rule, DpSgd)
    fact = x.policy.mechanism(release.message, "weights", release.dim, 1)
    request, dealt = starting_point(x), shards(x.union, x.partition)
    before = replies(x, dealt, request)
    graphs = list(neighbours(x, unit, 6)) if unit != "client" else [_of_nobody(x.union)]
    furthest = 0.0
    for graph in graphs:
        after = replies(x, shards(graph, x.partition), request)
        moves = torch.stack([n.weights - o.weights for o, n in zip(before, after, strict=True)])  # type: ignore[attr-defined]
        if unit == "edge":  # a step sees samples without their links
            assert fact.edge.times == 0
            assert not bool(moves.any())
            return
        if unit == "client":
            (step,), _ = steps_for({fact: 1}, "client")
            bound, moved = step_length(x, rule, step.noise_multiplier), float(moves[0].norm())
        else:
            assert fact.node.noise_multiplier is not None
            bound = step_length(x, rule, fact.node.noise_multiplier)
            bound, moved = bound * math.sqrt(fact.node.times), float(moves.norm())
        assert moved <= bound
        furthest = max(furthest, moved / bound)
    assert furthest > 0.02  # samples of a client pull apart, one alone fills its clip


def _of_nobody(graph: Graph) -> Graph:
    nobody = torch.zeros_like(graph.split.train)
    return replace(graph, split=replace(graph.split, train=nobody))


def test_a_step_that_forgets_to_clip_moves_further_than_booked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "securefg.privacy.defences.dp_sgd.clip_l2", lambda values, bound, per: values
    )
    with pytest.raises(AssertionError):
        test_a_private_step_moves_no_further_than_booked("node")


def test_a_private_step_without_a_sample_is_divided_as_before() -> None:
    """By the public number: a client that lost a node shows it in its sum alone."""
    x = trained()
    request, graph = starting_point(x), x.union
    node = int(graph.split.train.nonzero()[0])
    lost = shards(without_node(graph, node), x.partition)[0]
    kept = shards(graph, x.partition)[0]
    few, many = (replies(x, (shard,), request)[0] for shard in (lost, kept))
    assert int(kept.graph.split.train.sum()) >= int(lost.graph.split.train.sum())
    difference = float((many.weights - few.weights).norm())  # type: ignore[attr-defined]
    assert difference <= 0.5 / 40 * 0.3 * (1 + 1e-4)


# ------------------------------------------------------------ rows and clients, any message


class Each(Message, kind="booked_units.Any"):
    rows: Tensor = private("each", "numbers", means=Other(), rows="node")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from(["row", "message"]),
    st.sampled_from(["replace_one", "zero_out"]),
    st.sampled_from(["local_gaussian", "distributed_discrete"]),
    st.floats(0.01, 10.0),
    st.integers(0, 10_000),
)
def test_a_row_and_a_client_move_a_message_no_further_than_booked(
    rows: int, width: int, per: str, adjacency: str, mechanism: str, clip: float, seed: int
) -> None:
    planned = [PlannedRelease(Each, "rows", 1, rows * width, rows)]
    if mechanism == "distributed_discrete":
        planned = [replace(planned[0], message=Summed)]
    policy = make_policy(
        PrivacySettings.model_validate(
            {
                "mechanism": mechanism,
                "noise_multiplier": 1.0,
                "clip_per": per,
                "adjacency": adjacency,
                "clip_l2": clip,
                "secure_aggregation": {} if mechanism == "distributed_discrete" else None,
            }
        ),
        planned,
        num_clients=6,
    )
    rule = policy.rules[planned[0].name]
    assert isinstance(rule, (LocalGaussian, DistributedDiscrete))
    fact = policy.mechanism(planned[0].message, "rows", rows * width, rows)
    rng = np.random.default_rng(seed)
    old = torch.from_numpy(
        rng.standard_normal((1, rows, width)) * clip * 10.0 ** rng.integers(-2, 4)
    )
    for unit in ("row", "client"):
        new = old.clone()
        touched = int(rng.integers(rows)) if unit == "row" else slice(None)
        new[:, touched] = 0 if adjacency == "zero_out" else -new[:, touched]
        moved = np.linalg.norm(released(rule, new, rng) - released(rule, old, rng))
        (step,), _ = steps_for({fact: 1}, unit)  # type: ignore[arg-type]
        assert moved <= stddev(rule, rows, width) / step.noise_multiplier * (1 + 1e-6)


class Summed(Message, kind="booked_units.Summed"):
    rows: Tensor = private("sum", "numbers", means=Other(), rows="node")


def released(rule: LocalGaussian | DistributedDiscrete, values: Tensor, rng: Any) -> Any:
    clipped = clip_l2(values, rule.clip_l2, rule.per).numpy()
    if isinstance(rule, LocalGaussian):
        return clipped.reshape(-1)
    units = clipped.reshape(1, -1) if rule.per == "message" else clipped[0]
    return round_rows(units, rule.plan_for(units.shape[1]), rng).reshape(-1)


def stddev(rule: LocalGaussian | DistributedDiscrete, rows: int, width: int) -> float:
    if isinstance(rule, LocalGaussian):
        return rule.sigma
    plan = rule.plan_for(width if rule.per == "row" else rows * width)
    return rule.local_stddev(plan) * math.sqrt(rule.least_noises)
