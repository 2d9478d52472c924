from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from securefg.data.graph import Graph, sorted_edges, undirected

pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=30)


@given(pairs)
def test_sorted_edges_are_the_distinct_pairs_without_loops_in_order(given_pairs):
    edges = sorted_edges(torch.tensor(given_pairs).T, 7)
    assert edges.T.tolist() == [list(p) for p in sorted(set(given_pairs)) if p[0] != p[1]]


@given(pairs)
def test_undirected_lists_every_edge_in_both_directions(given_pairs):
    edges = undirected(torch.tensor(given_pairs).T, 7)
    assert torch.equal(sorted_edges(edges.flip(0), 7), edges)


def test_subgraph_keeps_the_order_asked_for_and_only_inner_edges(graph: Graph):
    nodes = torch.tensor([5, 2, 9, 0])
    part = graph.subgraph(nodes)
    inner = {tuple(nodes[edge].tolist()) for edge in part.edge_index.T}
    whole = {tuple(edge.tolist()) for edge in graph.edge_index.T}
    kept = set(nodes.tolist())
    assert inner == {edge for edge in whole if set(edge) <= kept}
    assert torch.equal(part.features, graph.features[nodes])
    assert torch.equal(part.split.val, graph.split.val[nodes])


def test_a_graph_moves_to_a_device_whole(graph: Graph):
    moved = graph.to("meta")
    tensors = (moved.features, moved.edge_index, moved.labels, moved.split.train)
    assert {str(tensor.device) for tensor in tensors} == {"meta"}
