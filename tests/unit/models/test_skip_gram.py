"""Skip-gram brings neighbours together, goes on from what stands there, and repeats itself."""

from __future__ import annotations

import numpy as np
import torch

from securefg.models.skip_gram import (
    Neighbours,
    SkipGram,
    SkipGramShape,
    initial_embedding,
    random_walks,
)

SHAPE = SkipGramShape(dim=8, window=3, negatives=5)


def two_cliques(size: int = 10) -> Neighbours:
    pairs = [(i, j) for i in range(2 * size) for j in range(2 * size)]
    kept = [(i, j) for i, j in pairs if i != j and i // size == j // size]
    return Neighbours.of(torch.tensor(kept).T, 2 * size)


def new(graph: Neighbours) -> SkipGram:
    start = initial_embedding(len(graph.degrees), 8, np.random.default_rng(1))
    return SkipGram(SHAPE, graph.degrees, start)


def train(model: SkipGram, graph: Neighbours, seed: int, lr: float = 0.05) -> None:
    stream = np.random.default_rng(seed)
    model.train(random_walks(graph, 20, 20, stream), stream, lr)


def test_nodes_of_one_clique_come_together() -> None:
    graph = two_cliques()
    model = new(graph)
    for seed in range(3):
        train(model, graph, seed)
    rows = model.embedding / np.linalg.norm(model.embedding, axis=1, keepdims=True)
    similar = rows @ rows.T
    assert similar[:10, :10].mean() > similar[:10, 10:].mean() + 0.3


def test_row_v_is_node_v() -> None:
    graph = two_cliques()
    start = initial_embedding(20, 8, np.random.default_rng(1))
    assert np.array_equal(new(graph).embedding, start)
    assert not new(graph).contexts.any()


def test_the_same_streams_give_the_same_bits() -> None:
    graph, first_model, other = two_cliques(), new(two_cliques()), new(two_cliques())
    for model in (first_model, other):
        train(model, graph, 3)
    assert np.array_equal(first_model.embedding, other.embedding)
    assert np.array_equal(first_model.contexts, other.contexts)


def test_training_goes_on_from_rows_that_were_written_over() -> None:
    graph = two_cliques()
    first_model, other = new(graph), new(graph)
    train(first_model, graph, 3)
    other.embedding[:], other.contexts[:] = first_model.embedding, first_model.contexts
    for model in (first_model, other):
        model.embedding[:5] = 2.0
        train(model, graph, 4, lr=1e-4)
    assert np.array_equal(first_model.embedding, other.embedding)
    assert 0 < np.abs(first_model.embedding[:5] - 2.0).max() < 0.5


def test_a_node_without_walks_keeps_its_row() -> None:
    graph = Neighbours.of(torch.tensor([[0, 1], [1, 0]]), 3)
    start = initial_embedding(3, 8, np.random.default_rng(1))
    model = SkipGram(SHAPE, graph.degrees, start)
    train(model, graph, 0)
    assert np.array_equal(model.embedding[2], start[2])
    assert not np.array_equal(model.embedding[0], start[0])
