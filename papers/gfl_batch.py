"""GFL-APPNP with one local step per communication, in its exact centralised form.

With I = 1 the mean of the clients' models is one step of gradient descent on the mean loss of all
labelled clients, C_k included (`tests/unit/papers/test_gfl_batch.py`). No Jacobian is formed: on
subCora it would weigh 105 MiB in each of 4000 communications.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from papers.best_round import best_scores
from securefg.data.graph import Split
from securefg.federation.evaluation import Scores
from securefg.foundation.streams import derive_seed, torch_stream, uniform_at
from securefg.methods.gfl_appnp.settings import Settings
from securefg.models.appnp import propagation_matrix
from securefg.models.two_layer_mlp import MlpShape
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import RunConfig
from securefg.settings.privacy import NO_DEFENCE


def run_single_steps(configs: Sequence[RunConfig]) -> dict[str, float]:
    """Return the test accuracy in percent of every run with I = 1 among these, by its hash."""
    return {config.hash: 100 * finish(config).test_accuracy for config in configs if fits(config)}


def fits(config: RunConfig) -> bool:
    """Return whether this is GFL-APPNP with I = 1, all clients, full Jacobians and no noise."""
    settings, training = config.method, config.training
    return (
        isinstance(settings, Settings)
        and (settings.jacobian, settings.jacobian_noise) == ("full", 0)
        and (settings.represent, settings.upload, settings.sums) == ("all", "model", "server")
        and (training.local_epochs, training.participation, training.weight_decay) == (1, 1, 0)
        and config.privacy.mechanism == NO_DEFENCE
        and config.privacy.secure_aggregation is None
    )


def finish(config: RunConfig) -> Scores:
    """Return the scores of a run's best communication."""
    experiment = prepare(config)
    training, together = experiment.config.training, Together(experiment)
    return best_scores(together.round, training)


class Together:
    """All clients' samples in one place, and the model that they share."""

    def __init__(self, experiment: Experiment) -> None:
        config, union, public = experiment.config, experiment.union, experiment.public
        assert isinstance(config.method, Settings)
        assert public.edge_index is not None
        self._settings, self._training = config.method, config.training
        self._seed, self._count = derive_seed(config.seed, "clients"), union.num_nodes
        self._x = union.features.float().reshape(self._count, -1, union.num_features)
        used = (self._x != 0).flatten(0, 1).any(0)
        shape = MlpShape(union.num_features, self._settings.hidden, union.num_classes)
        layers = shape.split(shape.initial(torch_stream(public.seed, "weights")))
        # A word that no sample has gets no gradient, and plain descent leaves its column alone.
        self._x = self._x[..., used].contiguous()
        self._first = layers.first[:, used].clone().requires_grad_()
        self._second = layers.second.clone().requires_grad_()
        steps = self._settings.teleport, self._settings.steps
        matrix = propagation_matrix(public.edge_index, public.num_nodes, *steps).float()
        self._own = matrix.diagonal().clone()
        self._others = matrix.fill_diagonal_(0)
        self._labels = union.labels.reshape(self._count, -1)
        self._split = union.split
        shared = (self._count, self._x.shape[1])
        self._trains = union.split.train.reshape(self._count, -1).expand(shared)
        self._trainers = self._trains.any(1).nonzero().flatten()

    def round(self, number: int) -> Scores:
        """Take one step. Return the scores of the model before the step, as the engine has them."""
        hidden = torch.relu(self._x @ self._first.T) @ self._second.T
        context = self._others @ hidden.mean(1)
        logits = self._own[:, None, None] * hidden + context[:, None]
        loss = self._loss(logits, number)
        own = (self._first, self._second)
        for weights, gradient in zip(own, torch.autograd.grad(loss, own), strict=True):
            weights.data.sub_(self._training.lr * gradient)
        return self._scores(hidden.detach(), context.detach())

    def _loss(self, logits: Tensor, number: int) -> Tensor:
        trainers = self._trainers
        labels = self._labels.expand(logits.shape[:2])[trainers]
        chosen = self._trains[trainers]
        size = int(chosen[0].sum())
        logits = logits[trainers][chosen].reshape(len(trainers), size, -1)
        labels = labels[chosen].reshape(len(trainers), size)
        batch = self._settings.batch_size
        if batch is not None and batch < size:
            places = trainers.numpy()[:, None] * size + np.arange(size)
            drawn = uniform_at(places, self._seed, "batch", number, 0)
            order = torch.from_numpy(np.argsort(drawn, axis=1, kind="stable")[:, :batch])
            logits = logits.gather(1, order[..., None].expand(-1, -1, logits.shape[2]))
            labels = labels.gather(1, order)
        return cross_entropy(logits.flatten(0, 1), labels.flatten())

    def _scores(self, hidden: Tensor, context: Tensor) -> Scores:
        if self._labels.shape[1] == 1 and self._settings.scored == "nodes":
            hidden = hidden.mean(1, keepdim=True)
        logits = self._own[:, None, None] * hidden + context[:, None]
        scored = logits.shape[:2]
        labels = self._labels.expand(scored)
        masks = (
            mask.reshape(self._count, -1).expand(scored) for mask in vars(self._split).values()
        )
        split = Split(*masks)
        losses = cross_entropy(logits.transpose(1, 2), labels, reduction="none", ignore_index=-1)
        correct = (logits.argmax(-1) == labels).float()
        return Scores(
            train_loss=float(losses[split.train].mean()),
            val_loss=float(losses[split.val].mean()),
            val_accuracy=float(correct[split.val].mean()),
            test_accuracy=float(correct[split.test].mean()),
        )
