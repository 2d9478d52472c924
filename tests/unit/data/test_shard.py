from __future__ import annotations

import time
from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.data.graph import Graph
from securefg.data.partition import Partition, find_holdings
from securefg.data.shard import Shards, clients_of, features_of, shards, union_graph
from tests.unit.data.graphs import random_graph

memberships = st.lists(st.sets(st.integers(0, 19), min_size=1, max_size=20), min_size=1, max_size=5)


def partition_of(clients: list[set[int]], num_nodes: int = 20) -> Partition:
    return Partition.of("toy", num_nodes, [torch.tensor(list(nodes)) for nodes in clients])


@settings(max_examples=50, deadline=None)
@given(clients=memberships, seed=st.integers(0, 50), directed=st.booleans())
def test_a_shard_is_the_induced_subgraph(clients, seed, directed):
    graph = random_graph(20, 60, seed, directed)
    for shard, nodes in zip(shards(graph, partition_of(clients)), clients, strict=True):
        expected = graph.subgraph(torch.tensor(sorted(nodes)))
        assert shard.node_ids.tolist() == sorted(nodes)
        assert torch.equal(shard.graph.edge_index, expected.edge_index)
        assert torch.equal(shard.graph.features, expected.features)
        assert torch.equal(shard.graph.labels, expected.labels)
        assert torch.equal(shard.graph.split.test, expected.split.test)


@settings(max_examples=50, deadline=None)
@given(clients=memberships, seed=st.integers(0, 50), directed=st.booleans())
def test_the_union_has_the_edges_that_some_client_holds_and_no_other(clients, seed, directed):
    graph = random_graph(20, 60, seed, directed)
    union = union_graph(graph, partition_of(clients))
    whole = [tuple(edge) for edge in graph.edge_index.T.tolist()]
    held = [edge for edge in whole if any(set(edge) <= nodes for nodes in clients)]
    assert [tuple(edge) for edge in union.edge_index.T.tolist()] == held


def test_a_node_that_nobody_holds_is_in_no_mask_of_the_union(graph: Graph):
    union = union_graph(graph, partition_of([{0, 1, 2}, {2, 3}], 30))
    masked = union.split.train | union.split.val | union.split.test
    assert masked.nonzero().flatten().tolist() == [0, 1, 2, 3]
    assert union.num_nodes == 30


def test_masks_over_samples_are_cut_by_node(graph: Graph):
    samples = graph.split.train[:, None].expand(-1, 5)
    split = replace(graph.split, train=samples, val=samples, test=samples)
    union = union_graph(replace(graph, split=split), partition_of([{0, 1}], 30))
    assert union.split.train.shape == (30, 5)
    assert not union.split.train[2:].any()


def test_a_shard_never_prints_what_it_holds(graph: Graph):
    (shard,) = shards(graph, partition_of([{0, 1, 2}], 30))
    assert repr(shard) == f"Shard(client=0, 3 nodes, {shard.graph.num_edges} edges)"


def test_holdings_of_one_node_clients_are_none(graph: Graph):
    single = partition_of([{node} for node in range(30)], 30)
    assert len(find_holdings(graph, single).edge) == 0


def test_twenty_thousand_clients_take_no_pass_over_the_edges_each():
    graph = random_graph(20_000, 50_000)
    bounds = torch.arange(20_001)
    partition = Partition("one_node", 20_000, bounds[:-1], bounds)
    start = time.process_time()
    made = shards(graph, partition)
    # One pass per client took minutes; all at once takes about a second.
    assert time.process_time() - start < 20
    assert len(made) == 20_000


def test_shards_of_very_many_clients_are_cut_out_on_demand(monkeypatch, graph: Graph):
    partition = Partition.of(
        "of two", graph.num_nodes, list(torch.arange(graph.num_nodes).split(2))
    )
    listed = shards(graph, partition)
    monkeypatch.setattr("securefg.data.shard.MANY_CLIENTS", 1)
    lazy = shards(graph, partition)
    assert isinstance(lazy, Shards)
    assert len(lazy) == len(listed)
    for one, other in zip(lazy, listed, strict=True):
        assert one.client == other.client
        assert torch.equal(one.graph.edge_index, other.graph.edge_index)
        assert torch.equal(one.graph.features, other.graph.features)
    part = lazy[1:3]
    assert [shard.client for shard in part] == [1, 2] == clients_of(part).tolist()
    assert torch.equal(features_of(part), features_of(listed[1:3]))
