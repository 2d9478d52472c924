"""Training on labelled nodes: of any network, and of a GCN over changing inputs, sampled too.

The gradients of the GCN are written down: the products are those that autograd makes of `gcn`, in
the same order, so weights are trained to the same bits. Its bookkeeping for every product is what
is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.models.gcn import GcnShape, Operator, sampled_gcn
from securefg.models.network import Network, Shapes, keep_mask, split_vector
from securefg.models.optimizers import Adam, Sgd
from securefg.models.sparse import FeatureMatrix, SparseMatrix, draw_batches
from securefg.settings.execution import TrainingSettings
from securefg.settings.methods import NeighborSampling, Optimizer


def class_weights(classes: Tensor, num_classes: int, training: TrainingSettings) -> Tensor | None:
    """Return the factor of every class in the loss: 1 over its share, and 1 in the mean of nodes.

    The shares are the public ones of the config, else those of the client's own training labels.
    None where the loss is plain.
    """
    if training.loss != "balanced":
        return None
    counts = torch.bincount(classes, minlength=num_classes).float()
    shares = counts / counts.sum().clamp_min(1)
    if training.class_shares is not None:
        shares = torch.tensor(training.class_shares, device=classes.device)
    weights = torch.where(shares > 0, 1 / shares.clamp_min(1e-9), 0.0)
    return weights / (shares > 0).sum()


@torch.no_grad()
def gcn_gradients(
    weights: Sequence[Tensor],
    adjacency: Operator,
    features: FeatureMatrix,
    labelled: Labelled,
    dropout: float,
    stream: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the loss of the labelled nodes by W0 and W1."""
    first, second = weights
    values = features.values * keep_mask(features.values.shape, dropout, stream)
    hidden = adjacency.product(features.product(first, values)).relu_()
    thinned = hidden.mul_(keep_mask(hidden.shape, dropout, stream))
    by_logits = labelled.loss_slope(labelled.rows.product(thinned @ second))
    by_mixed = labelled.rows.product_transposed(by_logits)
    # An entry of `thinned` is positive only where both ReLU and dropout let it pass.
    passed = torch.ops.aten.threshold_backward(by_mixed @ second.T, thinned, 0)
    by_hidden = passed.mul_(1 / (1 - dropout))
    by_first = features.product_transposed(adjacency.product_transposed(by_hidden), values)
    return by_first, thinned.T @ by_mixed


class Trained:
    """A set of weights under an optimizer, both kept from call to call."""

    def __init__(
        self,
        vector: Tensor,
        shapes: Shapes,
        decays: Sequence[float],
        lr: float,
        optimizer: Optimizer = "adam",
    ) -> None:
        self._shapes = shapes
        self.weights = tuple(w.clone().requires_grad_() for w in split_vector(vector, shapes))
        self._optimizer = (Adam if optimizer == "adam" else Sgd)(self.weights, decays, lr)

    def vector(self) -> Tensor:
        """Return all weights as one vector, detached."""
        return torch.cat([w.detach().flatten() for w in self.weights])

    def step(self, loss: Tensor) -> None:
        """Take one step of the optimizer along the gradient of the loss."""
        self._optimizer.step(torch.autograd.grad(loss, self.weights))

    def state(self) -> dict[str, Tensor]:
        """Return weights and optimizer, for a checkpoint."""
        return {"weights": self.vector(), **self._optimizer.state()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from a stored state."""
        stored = split_vector(state["weights"], self._shapes)
        for own, given in zip(self.weights, stored, strict=True):
            own.copy_(given)
        self._optimizer.restore(state)


class Trainer(Trained):
    """A trainer of any network on the labelled nodes of its graph."""

    def __init__(
        self, network: Network, vector: Tensor, optimizer: Optimizer, lr: float, weight_decay: float
    ) -> None:
        self._network = network
        decays = [weight_decay if decayed else 0.0 for decayed in network.decayed]
        super().__init__(vector, network.shapes, decays, lr, optimizer)

    def train(
        self,
        updates: int,
        nodes: Tensor,
        classes: Tensor,
        dropout: float,
        stream: torch.Generator,
        weights: Tensor | None = None,
    ) -> None:
        """Minimise the mean cross-entropy of `nodes`, weighed by class. Without nodes nothing is
        learnt."""
        for _ in range(updates if len(nodes) else 0):
            logits = self._network.logits(self.weights, dropout, stream if dropout else None)
            loss = cross_entropy(logits[nodes], classes, weights)
            self.step(loss)


@dataclass(frozen=True)
class Targets:
    """A set of nodes, their classes, and the factor of their cross-entropy in the loss."""

    nodes: Tensor
    classes: Tensor
    factor: float = 1.0
    _last_rows: list[tuple[Operator, Labelled]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls, nodes: Tensor, labels: Tensor, weight: float, loss: Literal["mean", "sum"]
    ) -> Targets:
        """Return some nodes with their labels. Their losses count by their mean, or add up."""
        factor = weight * len(nodes) if loss == "sum" else weight
        return cls(nodes, labels[nodes], factor)

    def slope_by_scores(self, num_classes: int) -> Tensor:
        """Return the gradient of factor * mean cross-entropy by the log-probabilities, (n, C)."""
        slope = torch.zeros(len(self.nodes), num_classes, device=self.nodes.device)
        return slope.scatter_(1, self.classes[:, None], -self.factor / max(len(self.nodes), 1))


@dataclass(frozen=True)
class Labelled:
    """A part of an operator: the rows at the nodes with targets, and the constant part of their
    loss.

    Other rows have no gradient, so training computes logits for these rows alone.
    """

    rows: Operator
    by_scores: Tensor

    @classmethod
    def of(cls, adjacency: Operator, targets: Sequence[Targets], num_classes: int) -> Labelled:
        """Return the rows of all targets, one set after the other."""
        nodes = torch.cat([target.nodes for target in targets])
        slopes = [target.slope_by_scores(num_classes) for target in targets]
        return cls(adjacency.at(nodes), torch.cat(slopes))

    def loss_slope(self, logits: Tensor) -> Tensor:
        """Return the gradient of the loss by the logits of the rows: factor / n (softmax - 1)."""
        scores = logits.log_softmax(-1)
        return torch._log_softmax_backward_data(self.by_scores, scores, 1, scores.dtype)


def labelled_rows(adjacency: Operator, targets: Sequence[Targets], num_classes: int) -> Labelled:
    """Return the rows of the targets. A single set keeps its rows for the next round."""
    kept = targets[0]._last_rows if len(targets) == 1 else []
    if not kept or kept[0][0] is not adjacency:
        kept[:] = [(adjacency, Labelled.of(adjacency, targets, num_classes))]
    return kept[0][1]


class GcnTrainer(Trained):
    """A trainer of two weight matrices under Adam. L2 regularisation acts on the first alone, as in
    the GCN paper."""

    def __init__(self, shape: GcnShape, vector: Tensor, lr: float, weight_decay: float) -> None:
        super().__init__(vector, shape.matrices, (weight_decay, 0.0), lr)

    def train(
        self,
        epochs: int,
        adjacency: Operator,
        features: FeatureMatrix,
        targets: list[Targets],
        dropout: float,
        stream: torch.Generator,
    ) -> None:
        """Minimise sum_t factor_t * mean CE_t, full batch. A set without nodes adds nothing."""
        present = [target for target in targets if len(target.nodes)]
        if not present:
            return
        labelled = labelled_rows(adjacency, present, self.weights[1].shape[1])
        for _ in range(epochs):
            about = (adjacency, features, labelled, dropout, stream)
            self._optimizer.step(gcn_gradients(self.weights, *about))

    def train_sampled(
        self,
        epochs: int,
        terms: Sequence[SparseMatrix],
        features: FeatureMatrix,
        targets: list[Targets],
        dropout: float,
        streams: tuple[torch.Generator, torch.Generator],
        sampling: NeighborSampling,
    ) -> None:
        """Minimise the same loss by steps on batches, each an unbiased estimate of the loss over
        nodes. The streams are those of batches and neighbours, and of dropout."""
        present = [target for target in targets if len(target.nodes)]
        if not present:
            return
        nodes = torch.cat([target.nodes for target in present])
        classes = torch.cat([target.classes for target in present])
        shares = [t.factor / len(t.nodes) * torch.ones_like(t.nodes).float() for t in present]
        factors = len(nodes) * torch.cat(shares)
        for _ in range(epochs):
            for batch in draw_batches(len(nodes), sampling.batch_size, streams[0]):
                logits = sampled_gcn(
                    self.weights, terms, features, nodes[batch], sampling.fan_out, dropout, streams
                )
                losses = cross_entropy(logits, classes[batch], reduction="none")
                self.step((factors[batch] * losses).mean())
