"""The pseudo graph is equation 14 written out densely, whichever the blocks, and so is its use."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from securefg.foundation.errors import ProtocolError
from securefg.models import pseudo_graph
from securefg.models.pseudo_graph import (
    Degree,
    PseudoGraph,
    build_nearly,
    build_pseudo_graph,
    project_graph,
    require_ascending,
)
from securefg.models.sparse import SparseMatrix


def brute_force(embeddings: Tensor, kept: int) -> Tensor:
    """One row after the other: of the positive entries the largest, ties to the smaller index."""
    similar = (embeddings @ embeddings.T).relu()
    dense = torch.zeros_like(similar)
    for row, values in enumerate(similar.tolist()):
        ranked = sorted((j for j, v in enumerate(values) if v > 0), key=lambda j: (-values[j], j))
        for column in ranked[:kept]:
            dense[row, column] = values[column]
    return dense / dense.sum(1, keepdim=True).clamp_min(1e-30)


def as_dense(graph: PseudoGraph) -> Tensor:
    count = len(graph.counts)
    row = torch.arange(count).repeat_interleave(graph.counts)
    dense = graph.values.new_zeros(count, count)
    dense[row, graph.columns.long()] = graph.values
    return dense


def matrix_as_dense(matrix: SparseMatrix) -> Tensor:
    return matrix @ torch.eye(matrix.shape[1], dtype=matrix.values.dtype)


def embeddings(count: int, width: int, seed: int = 0) -> Tensor:
    """Whole numbers, so that products are exact and equal similarities are frequent."""
    stream = torch.Generator().manual_seed(seed)
    drawn = torch.randint(-2, 3, (count, width), generator=stream).double()
    drawn[::5] = 0
    return drawn


@settings(max_examples=60)
@given(st.integers(1, 14), st.integers(1, 4), st.integers(1, 18), st.integers(0, 2**32 - 1))
def test_the_graph_is_the_brute_force_one_with_ties_and_empty_rows(
    count: int, width: int, kept: int, seed: int
) -> None:
    h = embeddings(count, width, seed)
    graph = build_pseudo_graph(h, kept)
    assert torch.allclose(as_dense(graph), brute_force(h, kept), rtol=0, atol=1e-15)


@pytest.mark.parametrize("entries", [1, 20, 45, 1 << 22])
def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    h = embeddings(20, 3)
    whole = build_pseudo_graph(h, 6)
    monkeypatch.setattr(pseudo_graph, "BLOCK_ENTRIES", entries)
    found = build_pseudo_graph(h, 6)
    assert torch.equal(found.counts, whole.counts)
    assert torch.equal(found.columns, whole.columns)
    assert torch.equal(found.values, whole.values)


def test_among_equals_those_of_smaller_index_stay() -> None:
    graph = build_pseudo_graph(torch.ones(6, 2), 2)
    assert graph.columns.reshape(6, 2).tolist() == [[0, 1]] * 6
    assert bool((graph.values == 0.5).all())


def test_a_node_with_no_positive_similarity_has_no_neighbour() -> None:
    h = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]])
    graph = build_pseudo_graph(h, 3)
    assert graph.counts.tolist() == [1, 0, 1]
    assert graph.columns.tolist() == [0, 2]
    assert graph.values.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kept", [7, 8, 100])
def test_with_room_for_all_every_positive_entry_stays(kept: int) -> None:
    h = embeddings(7, 3, seed=2)
    graph = build_pseudo_graph(h, kept)
    assert graph.counts.tolist() == (h @ h.T > 0).sum(1).tolist()


@pytest.mark.parametrize("kept", [1, 5, 40])
def test_rows_sum_to_one_have_at_most_s_entries_and_ascend(kept: int) -> None:
    h = torch.randn(40, 8, generator=torch.Generator().manual_seed(1))
    graph = build_pseudo_graph(h, kept)
    assert int(graph.counts.max()) <= kept
    sums = as_dense(graph).sum(1)
    assert torch.allclose(sums, torch.ones(40), atol=1e-6)
    for columns in graph.columns.split(graph.counts.tolist()):
        assert columns.tolist() == sorted(set(columns.tolist()))


@pytest.mark.parametrize("degree", ["count", "weight"])
@pytest.mark.parametrize("scale", [1.0, 0.3, 0.0])
def test_the_projection_is_the_dense_formula(degree: Degree, scale: float) -> None:
    """Some of these nodes lose all their pseudo neighbours; their rows and columns are zero."""
    graph = build_pseudo_graph(embeddings(24, 3, seed=3), 4)
    nodes = torch.tensor([0, 1, 2, 5, 6, 9, 13, 14, 20, 21, 23])
    own_matrix = as_dense(graph)[nodes][:, nodes]
    mass = (own_matrix > 0).double() if degree == "count" else own_matrix
    degrees = mass.sum(1)
    root = torch.where(degrees > 0, degrees.rsqrt(), 0.0)
    wanted = scale * root[:, None] * own_matrix * root[None, :]
    found = project_graph(graph, nodes, scale, degree)
    assert bool((degrees == 0).any())
    assert torch.allclose(matrix_as_dense(found), wanted, rtol=0, atol=1e-12)


def test_the_two_readings_of_the_degree_differ() -> None:
    graph = build_pseudo_graph(embeddings(24, 3, seed=3), 4)
    nodes = torch.arange(24)
    by_count, by_weight = (project_graph(graph, nodes, 1.0, d).values for d in ("count", "weight"))
    assert not torch.allclose(by_count, by_weight)


def test_all_nodes_with_weights_as_degree_keep_the_graph_itself() -> None:
    """Rows sum to one, so D is the identity but for empty rows."""
    h = torch.randn(10, 4, generator=torch.Generator().manual_seed(1)).double()
    graph = build_pseudo_graph(h, 3)
    found = project_graph(graph, torch.arange(10), 1.0, "weight")
    assert torch.allclose(matrix_as_dense(found), as_dense(graph), atol=1e-12)


@pytest.mark.parametrize("degree", ["count", "weight"])
def test_an_edge_to_a_node_that_kept_no_neighbour_is_zero_and_not_infinite(degree: Degree) -> None:
    """0 -> 1 -> 2, and 2 is not among the nodes: the degree of 1 is zero."""
    graph = PseudoGraph(torch.tensor([1, 1, 0]), torch.tensor([1, 2]), torch.ones(2))
    found = project_graph(graph, torch.tensor([0, 1]), 1.0, degree)
    assert found.values.tolist() == [0.0]


def test_nodes_without_pseudo_edges_among_them_give_an_empty_matrix() -> None:
    graph = build_pseudo_graph(torch.zeros(5, 2), 2)
    found = project_graph(graph, torch.tensor([1, 3]), 1.0, "count")
    assert found.shape == (2, 2)
    assert not bool(matrix_as_dense(found).any())


def logits(count: int, width: int = 5) -> Tensor:
    """Rows as a classifier gives them: a class stands out by a random amount."""
    stream = torch.Generator().manual_seed(4)
    drawn = torch.randn(count, width, generator=stream)
    one = torch.randint(width, (count,), generator=stream)
    drawn[torch.arange(count), one] += 3 * torch.rand(count, generator=stream)
    return drawn - drawn.mean(1, keepdim=True)


def test_neighbours_found_nearly_are_those_of_the_exact_graph_and_the_recall_says_how_many() -> (
    None
):
    h = logits(6000)
    exact = build_pseudo_graph(h, 30)
    near, recall = build_nearly(h, 30, seed=0)
    sets = [
        [set(part.tolist()) for part in graph.columns.split(graph.counts.tolist())]
        for graph in (exact, near)
    ]
    found = sum(len(one & other) for one, other in zip(*sets, strict=True))
    share = found / int(exact.counts.sum())
    assert share > 0.98
    assert recall == pytest.approx(share, abs=0.01)


def test_a_poor_search_has_a_poor_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pseudo_graph, "PROBED", 1)
    assert build_nearly(logits(6000), 30, seed=0)[1] < 0.8


def test_a_graph_found_nearly_is_the_same_each_time_and_its_rows_are_of_the_same_form() -> None:
    h = logits(3000)
    h[::7] = 0
    h[5] = float("nan")
    graphs = [build_nearly(h, 10, seed=1)[0] for _ in range(2)]
    for name in ("counts", "columns", "values"):
        assert torch.equal(getattr(graphs[0], name), getattr(graphs[1], name))
    graph = graphs[0]
    assert bool((graph.counts[::7] == 0).all())
    assert int(graph.counts[5]) == 0
    assert int(graph.counts.max()) == 10
    row = torch.arange(3000).repeat_interleave(graph.counts)
    assert bool((torch.diff(row * 3000 + graph.columns) > 0).all())
    sums = torch.zeros(3000).index_add_(0, row, graph.values)
    assert torch.allclose(sums, (graph.counts > 0).float(), atol=1e-5)


def test_rows_without_any_similarity_give_an_empty_graph_with_nothing_missed() -> None:
    graph, recall = build_nearly(torch.zeros(400, 3), 5, seed=0)
    assert int(graph.counts.sum()) == 0
    assert recall == 1.0


@pytest.mark.parametrize("columns", [[0, 2, 1], [1, 1, 0]], ids=["falling", "twice"])
def test_received_rows_out_of_order_are_refused(columns: list[int]) -> None:
    found = PseudoGraph(torch.tensor([0, 3, 0]), torch.tensor(columns), torch.ones(3))
    with pytest.raises(ProtocolError, match="found neighbours out of order"):
        require_ascending("test.Globals", found)


def test_received_rows_may_begin_below_the_row_before() -> None:
    found = PseudoGraph(torch.tensor([2, 0, 1]), torch.tensor([1, 2, 0]), torch.ones(3))
    require_ascending("test.Globals", found)
