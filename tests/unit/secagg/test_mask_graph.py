"""The masking graph is regular, symmetric, connected, and the same for all who know the seed."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from securefg.secagg.graph import GraphParameters, MaskGraph, choose_parameters
from securefg.settings.secagg import Threat

SEED = bytes(range(32))


@pytest.fixture(scope="module")
def sparse() -> MaskGraph:
    return MaskGraph.drawn(GraphParameters(100, 40, 27), SEED)


def test_neighbours_are_mutual_and_as_many_as_the_degree(sparse: MaskGraph) -> None:
    around = [set(sparse.neighbours(c)) for c in range(100)]
    for client, others in enumerate(around):
        assert len(others) == 40
        assert client not in others
        assert all(client in around[other] for other in others)


def test_pairs_are_the_neighbours_each_once(sparse: MaskGraph) -> None:
    wanted = [[c, other] for c in range(100) for other in sparse.neighbours(c) if c < other]
    assert sparse.pairs().tolist() == wanted


def test_the_graph_is_as_connected_as_its_degree() -> None:
    graph = MaskGraph.drawn(GraphParameters(40, 6, 3), SEED)
    assert nx.node_connectivity(nx.Graph(graph.pairs().tolist())) == 6


def test_the_seed_fixes_the_graph_and_another_gives_another(sparse: MaskGraph) -> None:
    again = MaskGraph.drawn(sparse.parameters, SEED)
    other = MaskGraph.drawn(sparse.parameters, bytes(32))
    assert np.array_equal(again.order, sparse.order)
    assert not np.array_equal(other.order, sparse.order)


def test_places_are_a_permutation(sparse: MaskGraph) -> None:
    assert sorted(sparse.order) == list(range(100))
    assert np.array_equal(sparse.order[sparse.place], np.arange(100))


def test_no_client_is_more_likely_than_another_to_be_a_neighbour() -> None:
    parameters = GraphParameters(20, 4, 2)
    counts = np.zeros(20)
    for trial in range(2000):
        counts[list(MaskGraph.drawn(parameters, trial.to_bytes(32, "big")).neighbours(0))] += 1
    wanted = 2000 * 4 / 19
    assert counts[0] == 0
    assert np.all(np.abs(counts[1:] - wanted) < 5 * np.sqrt(wanted))


def test_in_the_complete_graph_all_mask_with_all_and_hold_all_shares() -> None:
    graph = MaskGraph.drawn(choose_parameters(5, Threat()), SEED)
    assert graph.neighbours(2) == (0, 1, 3, 4)
    assert graph.holders(2) == (0, 1, 2, 3, 4)
    assert len(graph.pairs()) == 10


def test_in_a_sparse_graph_the_neighbours_hold_the_shares(sparse: MaskGraph) -> None:
    assert sparse.holders(3) == sparse.neighbours(3)


@pytest.mark.parametrize("client", [-1, 100])
def test_a_client_outside_the_roster_is_refused(sparse: MaskGraph, client: int) -> None:
    with pytest.raises(IndexError, match="not among 100"):
        sparse.neighbours(client)
