"""Sampled rows are right on average, whole where they are small, and train what all rows train."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from securefg.models.gcn import GcnShape, SumOf, normalized_adjacency
from securefg.models.sparse import (
    DenseMatrix,
    Incoming,
    SparseMatrix,
    draw_batches,
    draw_entries,
    sampled_rows,
)
from securefg.models.training import GcnTrainer, Targets
from securefg.settings.methods import NeighborSampling


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph(num_nodes: int = 40) -> Tensor:
    """Edges both ways, some nodes with many and one with none."""
    drawn = torch.rand(num_nodes, num_nodes, generator=stream(1)) < 0.15
    drawn[0] = True
    joined = (drawn | drawn.T).fill_diagonal_(False)
    joined[5], joined[:, 5] = False, False
    return torch.stack(joined.nonzero(as_tuple=True))


def matrix(seed: int, shape: tuple[int, int] = (12, 12)) -> SparseMatrix:
    dense = torch.randn(shape, generator=stream(seed))
    return SparseMatrix.from_dense(dense * (torch.rand(shape, generator=stream(seed + 1)) < 0.7))


@pytest.mark.parametrize("fan_out", [1, 3, 4, 100])
def test_every_row_gives_at_most_so_many_of_its_own_entries(fan_out: int) -> None:
    m = matrix(0)
    rows = torch.tensor([3, 0, 7, 3])
    drawn_entries = draw_entries(m.rows, rows, fan_out, stream())
    degrees = m.rows.diff()[rows]
    assert (
        torch.bincount(drawn_entries.rows, minlength=4).tolist()
        == degrees.clamp_max(fan_out).tolist()
    )
    assert bool((drawn_entries.places >= m.rows[rows[drawn_entries.rows]]).all())
    assert bool((drawn_entries.places < m.rows[rows[drawn_entries.rows] + 1]).all())


def test_small_rows_are_whole() -> None:
    m, other, rows = matrix(2), matrix(5), torch.tensor([4, 1, 11])
    sampled, columns = sampled_rows([m, other], rows, 12, stream())
    dense = torch.eye(12)
    wanted = ((m @ dense) + (other @ dense))[rows]
    assert torch.allclose(sampled @ dense[columns], wanted, atol=1e-6)


@pytest.mark.parametrize("fan_out", [1, 3, 5])
def test_sampled_rows_are_the_rows_on_average(fan_out: int) -> None:
    m, dense = matrix(2), torch.randn(12, 2, generator=stream(9))
    trials = 4000
    rows = torch.arange(12).repeat(trials)
    sampled, columns = sampled_rows([m], rows, fan_out, stream(3))
    drawn = (sampled @ dense[columns]).reshape(trials, 12, 2)
    error = drawn.std(0) / trials**0.5
    assert bool(((drawn.mean(0) - m @ dense).abs() <= 5 * error + 1e-4).all())


def test_a_subgraph_has_the_asked_nodes_first_and_edges_of_the_graph_alone() -> None:
    edges = graph()
    seeds = torch.tensor([7, 0, 5])
    nodes, edge_places = Incoming.of(edges, 40).edges_around(seeds, (3, 2), stream())
    assert nodes[:3].tolist() == seeds.tolist()
    assert len(torch.unique(nodes)) == len(nodes)
    pairs = set(map(tuple, edges.T.tolist()))
    there = list(map(tuple, nodes[edge_places].T.tolist()))
    assert set(there) <= pairs
    assert len(there) == len(set(there))
    into = torch.bincount(edge_places[1], minlength=len(nodes))
    assert int(into[:3].max()) <= 3
    assert int(into[2]) == 0  # node 5 has no neighbour


def test_with_room_for_all_neighbours_a_subgraph_is_all_within_so_many_hops() -> None:
    edges = graph()
    nodes, found = Incoming.of(edges, 40).edges_around(torch.tensor([7]), (40,), stream())
    neighbours = edges[0][edges[1] == 7]
    assert sorted(nodes.tolist()) == sorted([7, *neighbours.tolist()])
    assert found.shape[1] == len(neighbours)


def test_batches_go_over_all_once() -> None:
    parts = list(draw_batches(10, 4, stream()))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert sorted(torch.cat(parts).tolist()) == list(range(10))


@pytest.mark.parametrize("sparse_features", [True, False])
def test_training_on_whole_neighbourhoods_in_one_batch_is_training_on_the_graph(
    sparse_features: bool,
) -> None:
    edges, shape = graph(), GcnShape(6, 4, 3)
    x = torch.randn(40, 6, generator=stream(2)).relu()
    features = SparseMatrix.from_dense(x) if sparse_features else DenseMatrix(x)
    terms = (normalized_adjacency(edges, 40), matrix(4, (40, 40)))
    labels = torch.randint(3, (40,), generator=stream(5))
    targets = [
        Targets(torch.arange(0, 40, 2), labels[::2]),
        Targets(torch.arange(1, 40, 4), labels[1::4], 0.2),
    ]
    first = shape.initial(stream(6))
    whole, sampled = (GcnTrainer(shape, first, 0.01, 5e-4) for _ in range(2))
    whole.train(3, SumOf(terms), features, targets, 0.0, stream())
    everything = NeighborSampling(batch_size=100, fan_out=(40, 40))
    sampled.train_sampled(3, terms, features, targets, 0.0, (stream(), stream()), everything)
    assert torch.allclose(whole.vector(), sampled.vector(), atol=1e-5)
    assert not torch.allclose(first, sampled.vector(), atol=1e-3)
