from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from securefg.data import partitions
from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.data.partitions import draw_partition
from securefg.foundation.errors import ConfigError
from securefg.settings.partition import SHIPPED, partition_settings
from tests.unit.data.graphs import random_graph

GRAPH = random_graph(num_nodes=60, num_pairs=150)

ALL = [
    {"name": "shares"},
    {"name": "shares", "overlap": 0.1},
    {"name": "public_private"},
    {"name": "public_private", "selection": "top_degree"},
    {"name": "one_node"},
    {"name": "louvain", "num_clients": 4},
    {"name": "dirichlet", "num_clients": 3, "min_nodes": 2},
]
DISJOINT = ("one_node", "louvain", "dirichlet")


def drawn(given: dict[str, Any], graph: Graph = GRAPH, seed: int = 0) -> Partition:
    return draw_partition(graph, partition_settings(given["name"]).model_validate(given), seed)


def holders(partition: Partition) -> torch.Tensor:
    return torch.bincount(partition.nodes, minlength=partition.num_nodes)


@pytest.mark.parametrize("given", ALL, ids=str)
def test_a_partition_follows_the_seed(given: dict[str, Any]):
    first, again = drawn(given), drawn(given)
    assert torch.equal(first.nodes, again.nodes)
    assert torch.equal(first.offsets, again.offsets)
    if given["name"] != "one_node":
        other = drawn(given, seed=1)
        same = torch.equal(first.offsets, other.offsets) and torch.equal(first.nodes, other.nodes)
        assert not same


@pytest.mark.parametrize("given", [g for g in ALL if g["name"] in DISJOINT], ids=str)
def test_disjoint_schemes_give_every_node_to_one_client(given: dict[str, Any]):
    assert holders(drawn(given)).tolist() == [1] * GRAPH.num_nodes


def test_shares_are_of_the_sizes_asked_for():
    partition = drawn({"name": "shares"}, random_graph(num_nodes=100))
    assert partition.sizes.tolist() == [30, 40, 50, 50, 60, 70]


@settings(max_examples=60, deadline=None)
@given(
    shares=st.lists(st.floats(0.05, 1), min_size=1, max_size=6),
    between=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_an_overlap_is_the_exact_number_of_nodes_at_all_clients(shares, between, seed):
    """Any overlap that is possible: from what the sizes force to the smallest of them."""
    sizes = [round(share * GRAPH.num_nodes) for share in shares]
    least = max(0, sum(sizes) - (len(sizes) - 1) * GRAPH.num_nodes)
    common = least + round(between * (min(sizes) - least))
    overlap = common / GRAPH.num_nodes
    partition = drawn({"name": "shares", "shares": shares, "overlap": overlap}, seed=seed)
    assert partition.sizes.tolist() == sizes
    assert int((holders(partition) == len(shares)).sum()) == common


def test_free_shares_overlap_by_about_the_product_of_the_shares():
    partition = drawn({"name": "shares"}, random_graph(num_nodes=20000, num_pairs=1))
    common = float((holders(partition) == 6).float().mean())
    assert common == pytest.approx(0.3 * 0.4 * 0.5 * 0.5 * 0.6 * 0.7, abs=0.004)


def test_public_nodes_are_at_every_client_and_private_ones_at_one():
    partition = drawn({"name": "public_private"}, random_graph(num_nodes=100))
    assert partition.public is not None
    assert len(partition.public) == 40
    assert partition.sizes.tolist() == [55] * 4
    expected = torch.ones(100, dtype=torch.int64).index_fill(0, partition.public, 4)
    assert torch.equal(holders(partition), expected)


def test_top_degree_makes_the_best_connected_nodes_public():
    given = {"name": "public_private", "selection": "top_degree", "public_share": 0.2}
    partition = drawn(given)
    assert partition.public is not None
    degrees = torch.bincount(GRAPH.edge_index[0], minlength=GRAPH.num_nodes)
    private = torch.ones(GRAPH.num_nodes, dtype=torch.bool).index_fill(0, partition.public, False)
    assert int(degrees[partition.public].min()) >= int(degrees[private].max())


def test_without_public_nodes_the_parts_are_disjoint_and_equal():
    partition = drawn({"name": "public_private", "public_share": 0})
    assert partition.sizes.tolist() == [15] * 4
    assert holders(partition).tolist() == [1] * GRAPH.num_nodes


def test_louvain_keeps_communities_together_and_sizes_balanced():
    cliques = [(10 * c + i, 10 * c + j) for c in range(8) for i in range(10) for j in range(i)]
    edges = torch.tensor(cliques).T
    graph = random_graph(num_nodes=80)
    graph = Graph(**{**vars(graph), "edge_index": torch.cat([edges, edges.flip(0)], 1)})
    partition = drawn({"name": "louvain", "num_clients": 4}, graph)
    assert partition.sizes.tolist() == [20] * 4
    for nodes in partition.clients:
        assert torch.bincount(nodes // 10, minlength=8).unique().tolist() == [0, 10]


def test_louvain_cuts_a_community_that_is_too_large():
    pairs = torch.combinations(torch.arange(30)).T
    graph = Graph(**{**vars(random_graph()), "edge_index": torch.cat([pairs, pairs.flip(0)], 1)})
    assert drawn({"name": "louvain", "num_clients": 3}, graph).sizes.tolist() == [10] * 3


def test_communities_are_looked_for_once_per_graph_and_seed(monkeypatch: pytest.MonkeyPatch):
    looked = []
    find_communities = partitions._found_communities

    def counted(graph: Graph, resolution: float, seed: int) -> list[Any]:
        looked.append(seed)
        return find_communities(graph, resolution, seed)

    monkeypatch.setattr(partitions, "_found_communities", counted)
    monkeypatch.setattr(partitions, "_COMMUNITIES", {})
    given = {"name": "louvain", "num_clients": 4}
    fewer = Graph(**{**vars(GRAPH), "edge_index": GRAPH.edge_index[:, 2:]})
    first, again = drawn(given), drawn(given)
    drawn(given, seed=1), drawn(given, fewer), drawn({**given, "resolution": 2.0})
    assert len(looked) == 4
    assert torch.equal(first.nodes, again.nodes)


def test_a_small_alpha_skews_the_labels_more():
    graph = random_graph(num_nodes=3000)

    def skew(alpha: float) -> float:
        given = {"name": "dirichlet", "num_clients": 5, "alpha": alpha, "min_nodes": 1}
        counts = [torch.bincount(graph.labels[n], minlength=3) for n in drawn(given, graph).clients]
        return float(np.mean([int(c.max()) / int(c.sum()) for c in counts]))

    assert skew(0.1) > 0.7
    assert skew(1000) < 0.4


def test_metis_without_its_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ConfigError, match=r"pip install 'securefg\[metis\]'"):
        drawn({"name": "metis", "num_clients": 2})


def test_metis_gives_every_client_its_part(monkeypatch: pytest.MonkeyPatch):
    def part_graph(num_parts: int, adjacency: list[Any], options: Any) -> tuple[int, list[int]]:
        assert sum(map(len, adjacency)) == GRAPH.edge_index.shape[1]
        assert options.seed >= 0
        return 0, [node % num_parts for node in range(len(adjacency))]

    fake = SimpleNamespace(part_graph=part_graph, Options=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "pymetis", fake)
    assert drawn({"name": "metis", "num_clients": 3}).sizes.tolist() == [20] * 3


@pytest.mark.parametrize(
    "given",
    [
        {"name": "shares", "shares": [0.5, 1.1]},
        {"name": "shares", "shares": [0.5, 0]},
        {"name": "shares", "shares": []},
        {"name": "shares", "overlap": -0.1},
        {"name": "shares", "num_clients": 3},
        {"name": "public_private", "num_clients": 0},
        {"name": "public_private", "public_share": 1.5},
        {"name": "public_private", "selection": "best"},
        {"name": "louvain", "num_clients": 0},
        {"name": "dirichlet", "alpha": 0},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(given: dict[str, Any]):
    with pytest.raises(ValidationError):
        partition_settings(given["name"]).model_validate(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "louvain", "num_clients": 61}, r"num_clients: 61; allowed for 60 nodes.*1 to 60"),
        ({"name": "dirichlet", "num_clients": 7}, r"num_clients: 7; .* least 10 .*: 1 to 6"),
        ({"name": "metis", "num_clients": 61}, r"num_clients: 61"),
        ({"name": "public_private", "num_clients": 61, "public_share": 0}, "num_clients: 61"),
        ({"name": "shares", "shares": [0.001]}, r"partition\.shares: 0\.001 of 60 nodes is none"),
        ({"name": "shares", "shares": [0.5, 0.2], "overlap": 0.3}, r"overlap: 18 .*: 0 to 12"),
        ({"name": "shares", "shares": [0.9, 0.9], "overlap": 0.5}, r"overlap: 30 .*: 48 to 54"),
        (
            {"name": "dirichlet", "num_clients": 6, "alpha": 0.001},
            r"min_nodes: none of 1000 draws",
        ),
    ],
    ids=str,
)
def test_what_the_graph_does_not_allow_is_told_with_numbers(given: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        drawn(given)


def test_feature_group_deals_values_and_leaves_out_the_rest() -> None:
    """Nodes without a value, with two of them, or of a rare value are with no client."""
    values = torch.zeros(60, 5)
    values[:30, 1], values[30:55, 2], values[55:58, 3], values[55, 1] = 1, 1, 1, 1
    graph = replace(GRAPH, features=values)
    found = drawn({"name": "feature_group", "first": 1, "count": 3, "min_nodes": 5}, graph)
    assert [nodes.tolist() for nodes in found.clients] == [[*range(30)], [*range(30, 55)]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 9}, r"partition\.count: found columns 1 to 9; expected columns of the 5"),
        ({"min_nodes": 40}, r"min_nodes: found 40; expected at most 30"),
    ],
)
def test_feature_group_that_does_not_fit_is_refused(change: dict[str, int], message: str) -> None:
    values = torch.zeros(60, 5)
    values[:30, 1], values[30:55, 2] = 1, 1
    group = {"name": "feature_group", "first": 1, "count": 2, "min_nodes": 5, **change}
    with pytest.raises(ConfigError, match=message):
        drawn(group, replace(GRAPH, features=values))


def test_every_scheme_has_a_line_for_the_list():
    names = ["shares", "public_private", "one_node", "louvain", "dirichlet", "metis"]
    names += ["random", "given", "feature_group", "remaining"]
    assert list(SHIPPED) == names
    assert all(kind.summary for kind in SHIPPED.values())
