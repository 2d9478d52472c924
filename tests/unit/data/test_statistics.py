from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.data.shard import shards
from securefg.data.statistics import statistics
from tests.unit.data.graphs import random_graph

memberships = st.lists(st.sets(st.integers(0, 19), min_size=1, max_size=20), min_size=1, max_size=5)


def partition_of(clients: list[set[int]], num_nodes: int = 20) -> Partition:
    return Partition.of("toy", num_nodes, [torch.tensor(list(nodes)) for nodes in clients])


def edge_set(graph: Graph) -> set[tuple[int, ...]]:
    """Undirected edges once, directed ones as they are."""
    listed = (tuple(edge) for edge in graph.edge_index.T.tolist())
    return {edge if graph.directed else tuple(sorted(edge)) for edge in listed}


@settings(max_examples=50, deadline=None)
@given(clients=memberships, seed=st.integers(0, 50), directed=st.booleans())
def test_edges_are_held_lost_or_foreign_as_counted_one_by_one(clients, seed, directed):
    graph = random_graph(20, 60, seed, directed)
    graph_statistics = statistics(graph, partition_of(clients))
    edges = edge_set(graph)
    for client, nodes in zip(graph_statistics.clients, clients, strict=True):
        inside = [len(set(edge) & nodes) for edge in edges]
        assert client.num_edges == inside.count(2)
        assert client.num_lost_edges == inside.count(1)
    unheld = [edge for edge in edges if not any(set(edge) <= nodes for nodes in clients)]
    assert graph_statistics.num_unheld_edges == len(unheld)


@settings(max_examples=30, deadline=None)
@given(clients=memberships, seed=st.integers(0, 50))
def test_histograms_and_splits_agree_with_the_shards(clients, seed):
    graph = random_graph(20, 60, seed)
    partition = partition_of(clients)
    found = statistics(graph, partition)
    for client, shard in zip(found.clients, shards(graph, partition), strict=True):
        shard_graph = shard.graph
        degrees = torch.bincount(
            shard_graph.edge_index[0], minlength=shard_graph.num_nodes
        ).tolist()
        bins = [degree.bit_length() for degree in degrees]
        expected = [bins.count(b) for b in range(len(client.degree_counts))]
        assert list(client.degree_counts) == expected
        assert sum(expected) == client.num_nodes == shard_graph.num_nodes
        assert list(client.label_counts) == torch.bincount(shard_graph.labels, minlength=3).tolist()
        assert (client.num_train, client.num_val, client.num_test) == shard_graph.split.sizes


def test_overlaps_are_counted_between_all_pairs(graph: Graph):
    found = statistics(graph, partition_of([{0, 1, 2}, {2, 3}, {2, 1, 9}], 30))
    assert found.overlap == ((3, 1, 2), (1, 2, 1), (2, 1, 3))
    assert (found.num_union_nodes, found.num_common_nodes) == (5, 1)


def test_labels_and_splits_of_samples_are_counted_as_samples(graph: Graph):
    labels = torch.tensor([[0, 0, 1]]).repeat(30, 1)
    train = torch.tensor([[True, True, False]]).repeat(30, 1)
    sampled = replace(graph, labels=labels, split=replace(graph.split, train=train))
    (client,) = statistics(sampled, partition_of([{0, 1}], 30)).clients
    assert client.label_counts == (4, 2, 0)
    assert client.num_train == 4


def test_statistics_are_plain_data(graph: Graph):
    found = statistics(graph, partition_of([{0, 1, 2}, {2, 3}], 30))
    again = type(found).model_validate_json(json.dumps(found.model_dump(mode="json")))
    assert again == found


@pytest.mark.parametrize(("num_clients", "told"), [(64, True), (65, False)])
def test_the_overlap_matrix_stops_at_64_clients(num_clients: int, told: bool):
    graph = random_graph(100)
    found = statistics(graph, partition_of([{k} for k in range(num_clients)], 100))
    assert (found.overlap is not None) == told


def test_twenty_thousand_clients_are_counted_at_once():
    graph = random_graph(20_000, 50_000)
    bounds = torch.arange(20_001)
    start = time.process_time()
    graph_statistics = statistics(graph, Partition("one_node", 20_000, bounds[:-1], bounds))
    # One pass over the edges per client took minutes; all at once takes below a second.
    assert time.process_time() - start < 10
    assert graph_statistics.num_unheld_edges == graph.num_edges
    assert sum(client.num_lost_edges for client in graph_statistics.clients) == 2 * graph.num_edges
