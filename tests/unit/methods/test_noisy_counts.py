"""Released label counts: what one node moves, by brute force and by hostile graphs; whole runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from audits.exposure import audit_exposures
from audits.findings.record import Verdict
from audits.influence import audit_influences
from audits.truth import Truth
from securefg.data.graph import Graph
from securefg.foundation.errors import ConfigError
from securefg.methods.base import Outlook
from securefg.methods.noisy_counts import features
from securefg.methods.noisy_counts.algorithm import Model, Published
from securefg.methods.noisy_counts.features import (
    OwnRowToo,
    choose_share,
    describe_nodes,
    feature_width,
    label_counts,
    moved_counts,
    place_rows,
    sum_moments,
)
from securefg.methods.noisy_counts.settings import Settings
from securefg.methods.two_sums.features import links_of, pack_moments
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.settings.config import RunConfig, parse_config
from tests.small import tree
from tests.unit.methods.test_two_sums import random_graph, without_edge, without_node
from tests.unit.methods.test_two_sums_hostile import LOOKS, SHAPES, TRAINS, crafted

ROUNDING = 1e-9

# --------------------------------------------------------------------------- what a node moves


def counts_without(graph: Graph, node: int, links: int) -> Tensor:
    """The counts of all nodes but one, at the places that they have in the whole graph."""
    kept = torch.tensor([v for v in range(graph.num_nodes) if v != node])
    return place_rows(label_counts(without_node(graph, node), links), kept, graph.num_nodes)


def moved_by(graph: Graph, node: int, links: int) -> tuple[float, float]:
    """How far a node moves the counts: without its own row, and with it."""
    moved = label_counts(graph, links) - counts_without(graph, node, links)
    others = moved.clone()
    others[node] = 0
    return float(others.norm()), float(moved.norm())


def degrees(graph: Graph) -> Tensor:
    return torch.from_numpy(np.asarray(links_of(graph).sum(1))).long().flatten()


@pytest.mark.parametrize("seed", range(40))
def test_removed_node_moves_counts_by_root_of_links(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, links = random_graph(rng), int(rng.choice([1, 3, 20]))
    for node, degree in enumerate(degrees(graph).tolist()):
        others, whole = moved_by(graph, node, links)
        assert others <= moved_counts(degree) + ROUNDING
        assert whole <= OwnRowToo(links)(degree) + ROUNDING


def test_largest_move_reaches_the_declared_distance() -> None:
    """No noise is wasted: training neighbours that nobody else links to move the whole way."""
    shares, strict = [], []
    for seed in range(40):
        graph = random_graph(np.random.default_rng(seed))
        for node, degree in enumerate(degrees(graph).tolist()):
            if degree:
                others, whole = moved_by(graph, node, 50)
                shares.append(others / moved_counts(degree))
                strict.append(whole / OwnRowToo(50)(degree))
    assert max(shares) == pytest.approx(1)
    assert max(strict) > 0.99


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("trains", sorted(TRAINS))
@pytest.mark.parametrize("looks", sorted(LOOKS))
def test_hostile_graph_moves_no_further_than_declared(shape: str, trains: str, looks: str) -> None:
    for count in (1, 4, 30):
        graph = crafted(shape, looks, trains, count, alike=True)
        for links in (1, 5, 100):
            degree = int(degrees(graph)[0])
            others, whole = moved_by(graph, 0, links)
            assert others <= moved_counts(degree) + ROUNDING
            assert whole <= OwnRowToo(links)(degree) + ROUNDING


@pytest.mark.parametrize("seed", range(20))
def test_removed_edge_moves_counts_by_root_two(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed))
    for edge in range(graph.edge_index.shape[1]):
        less = label_counts(without_edge(graph, edge), 5)
        assert float((label_counts(graph, 5) - less).norm()) <= math.sqrt(2) + ROUNDING


def test_mean_in_place_of_counts_moves_further() -> None:
    """The referee catches a mean over neighbours, of which one has all the weight."""
    graph = random_graph(np.random.default_rng(3))
    assert not all(
        float((means(graph) - means_without(graph, node)).norm())
        <= moved_counts(int(degree)) / max(1, int(degree))
        for node, degree in enumerate(degrees(graph))
    )


def means(graph: Graph) -> Tensor:
    counts = label_counts(graph, 1000)
    return counts / counts.sum(1, keepdim=True).clamp_min(1)


def means_without(graph: Graph, node: int) -> Tensor:
    kept = torch.tensor([v for v in range(graph.num_nodes) if v != node])
    return place_rows(means(without_node(graph, node)), kept, graph.num_nodes)


@pytest.mark.parametrize("size", [0.0, 1.0, 1e30])
@pytest.mark.parametrize("seed", range(8))
def test_removed_node_moves_moments_by_root_two_for_any_counts(seed: int, size: float) -> None:
    """Counts and projection are what the server sends: any finite numbers."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    counts = torch.from_numpy(rng.normal(size=(graph.num_nodes, graph.num_classes)) * size)
    projection = torch.from_numpy(rng.normal(size=(6, graph.num_classes)) * max(size, 1))
    whole = moments(graph, projection, counts)
    for node in range(graph.num_nodes):
        kept = torch.arange(graph.num_nodes) != node
        less = moments(without_node(graph, node), projection, counts[kept])
        assert float((whole - less).norm()) <= math.sqrt(2) + 1e-6


def moments(graph: Graph, projection: Tensor, counts: Tensor) -> Tensor:
    return pack_moments(sum_moments(graph, describe_nodes(graph, projection, counts, 1.0, True)))


# ------------------------------------------------------------------------------------ whole runs

NOISE = {
    "mechanism": "distributed_discrete",
    "target_epsilon": 8,
    "delta": 0.01,
    "unit": "node",
    "secure_aggregation": {"dropout": 0, "corrupt": 0},
}


def config(root: Path, **method: Any) -> RunConfig:
    whole = tree(root, "noisy_counts")
    whole["data"]["csbm"] |= {"num_nodes": 400}
    whole["method"] |= {"links": 10, **method}
    whole["privacy"] = NOISE
    whole["partition"] = {"name": "louvain", "num_clients": 3}
    whole["training"] = {"rounds": 1, "patience": None, "final_model": "last"}
    return parse_config(whole)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> runner.Outcome:
    return runner.start(config(tmp_path_factory.mktemp("counts")))


def test_summary_has_both_conventions(finished: runner.Outcome) -> None:
    assert finished.summary is not None
    claim = finished.summary.epsilon["node"]
    assert claim.epsilon == pytest.approx(8, rel=1e-3)
    strict = {one.whose: one.epsilon for one in claim.by_links}
    assert strict["covered"] == pytest.approx(8, rel=1e-3)
    assert (strict["covered, its own row too"] or math.inf) > 16
    assert any("own row of the counts" in words for words in claim.not_covered)


def test_audit_finds_no_node_beyond_the_declaration(finished: runner.Outcome) -> None:
    found = audit_influences(Truth.of(finished.folder), 0)
    assert {one.verdict for one in found} == {Verdict.NOT_DETECTED}
    shares = {one.metric: one.details["share_of_declared"] for one in found}
    counted = [share for metric, share in shares.items() if "LabelCounts" in metric]
    assert max(counted) > 0.9


def test_audit_finds_counts_that_are_too_far(
    finished: runner.Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silo that counts every neighbour thrice is found."""
    whole = features.known_labels
    monkeypatch.setattr(features, "known_labels", lambda graph: 3 * whole(graph))
    found = audit_influences(Truth.of(finished.folder), 0)
    counted = [one for one in found if "LabelCounts" in one.metric and one.unit == "node"]
    assert [one.verdict for one in counted] == [Verdict.VIOLATION]


def test_sums_of_the_run_expose_no_upload(finished: runner.Outcome) -> None:
    found = audit_exposures(Truth.of(finished.folder), 0)
    assert Verdict.LEAK not in {one.verdict for one in found}


def test_predictions_without_own_features_follow_from_the_release(tmp_path: Path) -> None:
    graph = prepare(config(tmp_path)).union
    classes, dim = graph.num_classes, feature_width(graph.num_classes)
    release = Model(
        projection=torch.randn(graph.num_features, classes),
        counts=torch.randn(graph.num_nodes, classes),
        stddev=1.0,
        weights=torch.randn(dim * classes + classes),
    )
    other = replace(graph, features=torch.randn_like(graph.features))
    device = torch.device("cpu")
    alone, used = Settings(own_features=False), Settings()
    same = [Published(g, alone, device).answers(release) for g in (graph, other)]
    assert torch.equal(*same)
    differ = [Published(g, used, device).answers(release) for g in (graph, other)]
    assert not torch.equal(*differ)


@pytest.mark.parametrize(("ratio", "share"), [(None, 0.7), (99.0, 0.7), (100.0, 0.88)])
def test_share_of_counts_grows_where_last_sum_is_clear(ratio: float | None, share: float) -> None:
    outlook = Outlook(500, lambda settings: (None, None, ratio))
    chosen = choose_share(Settings(), outlook)
    assert chosen.shares[1] == share
    assert sum(chosen.shares) == pytest.approx(1)
    assert choose_share(Settings(counts_share=0.5), outlook).shares[1] == 0.5


def test_shares_before_the_rule_was_asked_are_refused() -> None:
    with pytest.raises(ConfigError, match="not chosen by the rule yet"):
        _ = Settings().shares


def test_second_round_is_refused(tmp_path: Path) -> None:
    whole = config(tmp_path).model_dump()
    whole["training"]["rounds"] = 2
    with pytest.raises(ConfigError, match="expected 1 for noisy_counts"):
        prepare(parse_config(whole))
