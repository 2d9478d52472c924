"""Perceptrons of many clients at once: what each trains on, and local SGD on the cross-entropy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.data.graph import Split
from securefg.data.shard import Shard
from securefg.foundation.streams import uniform_at
from securefg.models.classifiers import run_mlp
from securefg.models.network import Shapes, split_vector
from securefg.models.optimizers import Sgd


@dataclass(frozen=True)
class ClientSamples:
    """A set of the samples of n clients with S each. Row i of everything is the i-th client.

    clients  their numbers, ascending, (n,)
    inputs   (n, S, d);  labels (n, S);  masks (n, S)
    """

    clients: NDArray[np.int64]
    inputs: Tensor
    labels: Tensor
    masks: Split

    @classmethod
    def of(cls, shards: Sequence[Shard], device: torch.device) -> ClientSamples:
        """Return the samples of clients with one node each. If the node is labelled, all its
        samples are."""
        graphs, n = [shard.graph for shard in shards], len(shards)
        inputs = torch.cat([graph.features for graph in graphs])
        inputs = inputs.reshape(n, -1, inputs.shape[-1])
        size = inputs.shape[:2]
        masks = [
            torch.cat([getattr(graph.split, part) for graph in graphs]).reshape(n, -1).expand(size)
            for part in ("train", "val", "test")
        ]
        labels = torch.cat([graph.labels for graph in graphs]).reshape(n, -1).expand(size)
        clients = np.array([shard.client for shard in shards])
        return cls(clients, inputs.to(device), labels.to(device), Split(*masks).to(device))

    def rows(self, clients: NDArray[np.int64]) -> Tensor:
        """Return the rows of these clients."""
        found = torch.from_numpy(np.searchsorted(self.clients, clients))
        return found.to(self.inputs.device)

    def training_set(self, rows: Tensor) -> TrainingSet:
        """Return the training samples of the clients in these rows, side by side."""
        train = self.masks.train[rows]
        width = max(1, int(train.sum(1).max()))
        position = torch.argsort(~train, dim=1, stable=True)[:, :width]
        numbers = torch.from_numpy(self.clients).to(rows.device)[rows]
        at = (rows[:, None], position)
        return TrainingSet(
            self.inputs[at],
            self.labels[at],
            train.gather(1, position),
            (numbers[:, None] * train.shape[1] + position).cpu().numpy(),
        )


@dataclass(frozen=True)
class TrainingSet:
    """A set of training samples of n clients, padded to the largest count T.

    present  (n, T): False where it is padding;  places  (n, T): a number of its own per sample
    """

    inputs: Tensor
    labels: Tensor
    present: Tensor
    places: NDArray[np.int64]

    def draw_batches(self, size: int | None, count: int, *stream: str | int) -> Iterator[Tensor]:
        """Yield `count` batches (n, size): which samples each client takes, without replacement."""
        seed, *names = stream
        padding = (~self.present).cpu().numpy()
        for step in range(count):
            drawn = uniform_at(self.places, int(seed), *names, step) + padding
            order = np.argsort(drawn, axis=1, kind="stable")[:, :size]
            yield torch.from_numpy(order).to(self.inputs.device)


def local_sgd(
    vectors: Tensor,
    shapes: Shapes,
    samples: TrainingSet,
    batches: Iterable[Tensor],
    lr: float,
    weight_decay: float,
) -> Tensor:
    """Return every client's weights, (n, |W|), after a step per batch. No samples, no change.

    A step is w -= lr (g + decay w) with g the gradient of the batch's mean cross-entropy.
    """
    weights = tuple(w.contiguous().clone().requires_grad_() for w in split_vector(vectors, shapes))
    sgd = Sgd(weights, [weight_decay] * len(weights), lr)
    for batch in batches:
        sgd.step(torch.autograd.grad(_batch_loss(weights, samples, batch), weights))
    trained = torch.cat([w.detach().flatten(1) for w in weights], 1)
    return torch.where(samples.present.any(1, keepdim=True), trained, vectors)


def _batch_loss(weights: Sequence[Tensor], samples: TrainingSet, batch: Tensor) -> Tensor:
    """Return the sum over the clients of their batch's mean: no client's gradient touches
    another's."""
    index = batch[..., None].expand(-1, -1, samples.inputs.shape[2])
    logits = run_mlp(weights, samples.inputs.gather(1, index))
    labels = samples.labels.gather(1, batch)  # -1 in the padding of a client without labels
    losses = cross_entropy(logits.mT, labels, reduction="none", ignore_index=-1)
    present = samples.present.gather(1, batch)
    return ((losses * present).sum(1) / present.sum(1).clamp_min(1)).sum()
