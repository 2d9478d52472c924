"""Perceptrons of many clients at once take the steps that each client would take by itself."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from securefg.data.drawn_graphs import draw_csbm
from securefg.data.partitions import draw_partition
from securefg.data.shard import Shard, shards
from securefg.foundation.streams import torch_stream
from securefg.models.classifiers import mlp_shapes, run_mlp
from securefg.models.many_mlps import ClientSamples, TrainingSet, local_sgd
from securefg.models.network import draw_glorot, split_vector
from securefg.settings.data import CsbmSettings
from securefg.settings.partition import OneNodeSettings

CPU = torch.device("cpu")
SHAPES = mlp_shapes(8, 6, 2)


def clients(task: str = "sc") -> tuple[Shard, ...]:
    settings = {"task": task, "num_nodes": 30, "num_features": 8}
    if task == "sc":
        settings |= {"samples_per_node": 12, "train_share": 0.5, "val_share": 0.25}
    graph = draw_csbm(CsbmSettings.model_validate(settings), seed=1)
    return shards(graph, draw_partition(graph, OneNodeSettings(), 0))


def training_set(held: tuple[Shard, ...]) -> TrainingSet:
    samples = ClientSamples.of(held, CPU)
    return samples.training_set(torch.arange(len(held)))


def start(count: int) -> torch.Tensor:
    return torch.stack([draw_glorot(SHAPES, torch_stream(0, "weights", k)) for k in range(count)])


def test_local_sgd_is_each_clients_own() -> None:
    held = clients()[:3]
    own = training_set(held)
    batches = list(own.draw_batches(4, 5, 0, "batch", 1))
    trained_vectors = local_sgd(start(3), SHAPES, own, batches, 0.3, 0.01)
    for k, shard in enumerate(held):
        vector = start(3)[k].requires_grad_()
        sgd = torch.optim.SGD([vector], lr=0.3, weight_decay=0.01)
        graph = shard.graph
        inputs = graph.features[0][graph.split.train[0]]
        labels = graph.labels[0][graph.split.train[0]]
        for batch in batches:
            sgd.zero_grad()
            logits = run_mlp(split_vector(vector, SHAPES), inputs[batch[k]])
            cross_entropy(logits, labels[batch[k]]).backward()
            sgd.step()
        assert torch.allclose(trained_vectors[k], vector, atol=1e-6)


def test_clients_without_training_samples_keep_their_weights() -> None:
    held = clients("dnc")
    own = training_set(held)
    trains = torch.tensor([bool(shard.graph.split.train.any()) for shard in held])
    assert 0 < int(trains.sum()) < len(held)
    found = local_sgd(start(30), SHAPES, own, own.draw_batches(5, 2, 0, "batch"), 0.3, 0.1)
    assert torch.equal((found != start(30)).any(1), trains)


def test_padding_is_never_trained_on() -> None:
    inputs = torch.randn(2, 4, 8, generator=torch_stream(0))
    present = torch.tensor([[True, True, False, False], [True] * 4])
    places = np.arange(8).reshape(2, 4)
    labels = torch.tensor([[0, 1, 0, 0], [0, 1, 1, 0]])
    padded = TrainingSet(inputs, labels, present, places)
    spoilt = TrainingSet(inputs.where(present[..., None], 1e3), labels, present, places)
    padded_weights, other = (
        local_sgd(start(2), SHAPES, own, own.draw_batches(3, 4, 0, "batch"), 0.3, 0.0)
        for own in (padded, spoilt)
    )
    assert torch.equal(padded_weights, other)
    assert all(set(b[0, :2].tolist()) == {0, 1} for b in padded.draw_batches(3, 4, 0, "batch"))


def test_batches_are_drawn_without_replacement_and_differ() -> None:
    training_data = training_set(clients())
    batches = list(training_data.draw_batches(4, 3, 0, "batch", 1))
    for batch in batches:
        assert batch.shape == (30, 4)
        assert all(len(set(row)) == 4 for row in batch.tolist())
    assert not torch.equal(batches[0], batches[1])
    assert not torch.equal(batches[0][0], batches[0][1])
    assert next(training_data.draw_batches(None, 1, 0)).shape == (30, 6)


def test_a_clients_batches_do_not_depend_on_who_shares_its_host() -> None:
    held = clients()
    together, apart = training_set(held), training_set(held[10:13])
    for one, other in zip(
        together.draw_batches(4, 3, 0, 1), apart.draw_batches(4, 3, 0, 1), strict=True
    ):
        assert torch.equal(one[10:13], other)
