"""By brute force: a unit changed wherever it is held moves what is released no further than booked.

Real hosts of real methods answer a real first request, before and after one node or one edge of a
small random graph is changed at every client that holds it. What they would send, clipped and
rounded as the rule says, is compared over all clients.
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
from torch import Tensor

from securefg.data.graph import Graph
from securefg.data.shard import Shard, shards
from securefg.federation.roles import Site
from securefg.privacy.defence import Defence
from securefg.privacy.defences.distributed_discrete import DistributedDiscrete
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.ledger import Reach
from securefg.privacy.stages import clip_l2
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import parse_config
from tests.small import tree

LOCAL = {"mechanism": "local_gaussian", "noise_multiplier": 1.0}
MASKED = {
    "mechanism": "distributed_discrete",
    "noise_multiplier": 1.0,
    "secure_aggregation": {},
}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("fedgl", {"weighting": "equal"}, {**LOCAL, "clip_per": "row"}),
    ("fedgl", {"weighting": "equal"}, {**LOCAL, "clip_per": "message", "adjacency": "zero_out"}),
    (
        "fedgl",
        {"weighting": "equal", "pseudo_labels": False, "pseudo_graph": False},
        {**MASKED, "adjacency": "zero_out"},
    ),
    ("fedavg", {"weighting": "equal", "upload": "update"}, {**LOCAL, "clip_l2": 0.05}),
    ("fedavg", {"weighting": "equal"}, MASKED),
]


class _Asked(Exception):
    """The server has asked."""


class _Ear:
    """A cohort that hears the first request and answers nothing."""

    num_clients = 3

    def ask(self, request: Message, *rest: Any) -> Any:
        self.request = request
        raise _Asked


def _experiment(method: str, settings: dict[str, Any], privacy: dict[str, Any]) -> Experiment:
    base = tree(Path("unused"), method)
    base["method"] |= settings
    base["data"]["csbm"] |= {"num_nodes": 60, "degree": 9, "num_features": 8}
    base["training"] |= {"local_epochs": 1, "lr": 0.5}
    return prepare(parse_config({**base, "privacy": privacy}))


def _request(x: Experiment) -> Message:
    ear = _Ear()
    server = x.method.make_server(x.public, x.config.method, x.config.training, ear)  # type: ignore[arg-type]
    with pytest.raises(_Asked):
        server.round(1)
    return ear.request


def _replies(x: Experiment, dealt: tuple[Shard, ...], request: Message) -> list[Message]:
    host_replies = []
    for shard in dealt:
        site = Site((shard,), x.config.method, x.config.training, 7, torch.device("cpu"))
        turn = Turn(1, 1, Clients.of([shard.client]))
        host_replies.append(x.method.make_host(site).handle(request, turn))
    return host_replies


def _changed_node(graph: Graph, node: int, rng: np.random.Generator) -> Graph:
    """Other features, another label, and its links gone."""
    features, labels = graph.features.clone(), graph.labels.clone()
    features[node] = torch.from_numpy(rng.normal(0, 5, features.shape[1])).float()
    labels[node] = (labels[node] + 1) % graph.num_classes
    kept = ~(graph.edge_index == node).any(0)
    return replace(graph, features=features, labels=labels, edge_index=graph.edge_index[:, kept])


def _changed_edge(graph: Graph, edge: int) -> Graph:
    a, b = graph.edge_index[:, edge].tolist()
    source, target = graph.edge_index
    gone = ((source == a) & (target == b)) | ((source == b) & (target == a))
    return replace(graph, edge_index=graph.edge_index[:, ~gone])


def _neighbours(x: Experiment, unit: str, rng: np.random.Generator) -> Iterator[Graph]:
    if unit == "node":
        for node in rng.choice(x.union.num_nodes, 6, replace=False):
            yield _changed_node(x.union, int(node), rng)
    else:
        for edge in rng.choice(x.union.edge_index.shape[1], 6, replace=False):
            yield _changed_edge(x.union, int(edge))


def _sent(rule: Defence, values: Tensor, uniforms: Tensor) -> Tensor:
    """As the channel would send it but for the noise, flat; rounding by the same uniforms."""
    assert isinstance(rule, (LocalGaussian, DistributedDiscrete))
    clipped = clip_l2(values, rule.clip_l2, rule.per).reshape(-1)
    if isinstance(rule, DistributedDiscrete):
        return torch.floor(clipped * rule.scale + uniforms[: len(clipped)])
    return clipped


def _booked_distance(rule: Defence, reach: Reach, dim: int) -> float:
    """sigma over the booked multiplier, over all holders."""
    assert reach.noise_multiplier is not None
    if isinstance(rule, DistributedDiscrete):
        sigma = rule.local_stddev(rule.plan_for(dim)) * math.sqrt(rule.least_noises)
        return sigma / reach.noise_multiplier * (1 + 1e-6)
    assert isinstance(rule, LocalGaussian)
    return math.sqrt(reach.times) * rule.sigma / reach.noise_multiplier * (1 + 1e-9)


@pytest.mark.parametrize("unit", ["node", "edge"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_changed_unit_moves_what_is_released_no_further_than_booked(case: int, unit: str) -> None:
    x = _experiment(*CASES[case])
    rng = np.random.default_rng([case, unit == "node"])
    request, before = _request(x), shards(x.union, x.partition)
    sent = _replies(x, before, request)
    furthest = 0.0
    for graph in _neighbours(x, unit, rng):
        after = _replies(x, shards(graph, x.partition), request)
        for release in x.method.planned(x.config.method, x.config.training, x.public):
            if release.count == 0:
                continue
            rule = x.policy.rules[release.name]
            fact = x.policy.mechanism(release.message, release.field, release.dim, release.num_rows)
            uniforms = torch.from_numpy(rng.random(release.dim))
            moves = torch.stack(
                [
                    _sent(rule, getattr(new, release.field), uniforms)
                    - _sent(rule, getattr(old, release.field), uniforms)
                    for old, new in zip(sent, after, strict=True)
                ]
            )
            seen = moves.sum(0) if isinstance(rule, DistributedDiscrete) else moves
            reach = fact.node if unit == "node" else fact.edge
            bound = _booked_distance(rule, reach, release.dim)
            assert float(seen.norm()) <= bound, release.name
            furthest = max(furthest, float(seen.norm()) / bound)
            touched = int((moves.norm(dim=1) > 0).sum())
            assert touched <= x.policy.population.holders(unit)  # type: ignore[union-attr, arg-type]
    assert furthest > 0.01  # something moved: the test can fail


@pytest.mark.parametrize("seed", range(20))
def test_rounding_adds_no_more_than_the_booked_steps_to_a_proved_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim, distance = int(rng.integers(1, 50)), float(rng.uniform(0.001, 3.0))
    rule = DistributedDiscrete(
        50.0,
        1.0,
        "message",
        moved_l2=distance,
        scale=2.0 ** rng.integers(0, 8),
        least_noises=3,
    )
    first_vector = rng.normal(0, 1, dim)
    step = rng.normal(0, 1, dim)
    other = first_vector + step / np.linalg.norm(step) * distance
    uniforms = rng.random(dim)
    moved = np.floor(first_vector * rule.scale + uniforms) - np.floor(other * rule.scale + uniforms)
    assert np.linalg.norm(moved) <= rule.moved_steps(distance, rule.plan_for(dim))
