"""GFL-APPNP in one process without messages, exactly (`tests/unit/papers/test_gfl_batch.py`).

Features are rotated into the space that the samples span. Plain descent never leaves it, and inner
products are all that training reads. On subCora that leaves 300 of 1433 columns, so Jacobians
weigh 22 MiB a communication in place of 105, and none is sent.

With I = 1 the mean of the clients' models is one step of gradient descent on the mean loss of all
labelled clients, C_k included, and no Jacobian is formed. Noise on
Jacobians is the engine's own where nothing is rotated. In a rotated space it has the same law, so
only the labelled clients' sums of it are drawn: Gaussian, of covariance A A^T between clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from papers.best_round import best_scores
from securefg.data.graph import Split
from securefg.federation.evaluation import Scores
from securefg.foundation.streams import derive_seed, torch_stream, uniform_at
from securefg.methods.gfl_appnp.algorithm import jacobian_noise
from securefg.methods.gfl_appnp.settings import Settings
from securefg.models.appnp import propagation_matrix
from securefg.models.two_layer_mlp import (
    Layers,
    LocalSgd,
    MlpShape,
    Neighbourhood,
    Samples,
    compact_jacobian,
    mean_hidden,
    run_mlp,
)
from securefg.protocol.codec import Clients, Turn
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import RunConfig
from securefg.settings.privacy import NO_DEFENCE


def run_together(configs: Sequence[RunConfig]) -> dict[str, float]:
    """Return the test accuracy in percent of every run that fits, by its hash."""
    return {config.hash: 100 * finish(config).test_accuracy for config in configs if fits(config)}


def fits(config: RunConfig) -> bool:
    """Return whether this is GFL-APPNP of all clients, plain descent and no defence."""
    settings, training = config.method, config.training
    return (
        isinstance(settings, Settings)
        and (settings.represent, settings.upload, settings.sums) == ("all", "model", "server")
        and (training.participation, training.weight_decay) == (1, 0)
        and config.privacy.mechanism == NO_DEFENCE
        and config.privacy.secure_aggregation is None
    )


def finish(config: RunConfig) -> Scores:
    """Return the scores of a run's best communication."""
    settings, experiment = config.method, prepare(config)
    assert isinstance(settings, Settings)
    is_plain = (settings.jacobian, settings.jacobian_noise) == ("full", 0)
    alone = is_plain and config.training.local_epochs == 1
    together = Together(experiment) if alone else LocalSteps(experiment)
    return best_scores(together.round, experiment.config.training)


class Together:
    """All clients' samples in one place, and the model that they share."""

    def __init__(self, experiment: Experiment) -> None:
        config, union, public = experiment.config, experiment.union, experiment.public
        assert isinstance(config.method, Settings)
        assert public.edge_index is not None
        self._settings, self._training = config.method, config.training
        self._seed, self._count = derive_seed(config.seed, "clients"), union.num_nodes
        self._x = union.features.float().reshape(self._count, -1, union.num_features)
        shape = MlpShape(union.num_features, self._settings.hidden, union.num_classes)
        layers = shape.split(shape.initial(torch_stream(public.seed, "weights")))
        self._first, self._second = layers.first.clone(), layers.second.clone()
        samples = self._x.flatten(0, 1).double()
        if len(samples) < samples.shape[1]:
            basis = torch.linalg.qr(samples.T).Q
            self._x = (samples @ basis).float().reshape(*self._x.shape[:2], -1)
            self._first = (self._first.double() @ basis).float()
        steps = self._settings.teleport, self._settings.steps
        matrix = propagation_matrix(public.edge_index, public.num_nodes, *steps).float()
        self._own = matrix.diagonal().clone()
        self._others = matrix.fill_diagonal_(0)
        self._labels = union.labels.reshape(self._count, -1)
        self._split = union.split
        shared = (self._count, self._x.shape[1])
        self._trains = union.split.train.reshape(self._count, -1).expand(shared)
        self._trainers = self._trains.any(1).nonzero().flatten()

    @property
    def num_columns(self) -> int:
        """Return the number of features, or of dimensions that the samples span."""
        return self._x.shape[2]

    def round(self, number: int) -> Scores:
        """Take one step. Return the scores of the model before the step, as the engine has them."""
        layers = (self._first.requires_grad_(), self._second.requires_grad_())
        hidden = torch.relu(self._x @ self._first.T) @ self._second.T
        context = self._others @ hidden.mean(1)
        logits = self._own[:, None, None] * hidden + context[:, None]
        loss = self._loss(logits, number)
        for weights, gradient in zip(layers, torch.autograd.grad(loss, layers), strict=True):
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


class LocalSteps(Together):
    """All clients' samples in one place, and labelled clients that take steps of their own."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(experiment)
        self.mixing = self._others[self._trainers]  # from noises to the sums of them
        if self.num_columns < experiment.union.num_features:
            values, vectors = torch.linalg.eigh((self.mixing @ self.mixing.T).double())
            self.mixing = (vectors * values.clamp_min(0).sqrt()).float()
        trainers, used = self._trainers, self._trains[self._trainers]
        labels = self._labels.expand(self._x.shape[:2])[trainers][used]
        size = len(trainers), int(used[0].sum())
        self._samples = Samples(
            self._x[trainers][used].reshape(*size, -1),
            one_hot(labels, len(self._second)).float().reshape(*size, -1),
        )

    @torch.no_grad()
    def round(self, number: int) -> Scores:
        """Take I steps per labelled client. Return the scores of the model before them."""
        layers, trainers = Layers(self._first, self._second), self._trainers
        gates, mean = mean_hidden(self._first, self._x)
        context = self._others @ (mean @ self._second.T)
        slope = None
        if self._settings.jacobian == "full":
            jacobian = compact_jacobian(gates, mean, self._x)
            slope = self._others[trainers] @ jacobian.flatten(1)
            if self._settings.jacobian_noise:
                turn = Turn(number, 0, Clients(((0, self.mixing.shape[1]),)))
                noise = jacobian_noise(self._settings, self._seed, layers, turn)
                slope += self.mixing @ noise.flatten(1)
            slope = slope.view(len(trainers), *jacobian.shape[1:])
        scores = self._scores(run_mlp(layers, self._x), context)
        around = Neighbourhood(self._own[trainers], context[trainers], slope)
        trained = LocalSgd(layers, self._samples, around, self._training.lr)
        weights = trained.run(self._batches(number)).mean(0)
        size = self._first.numel()
        self._first = weights[:size].view_as(self._first)
        self._second = weights[size:].view_as(self._second)
        return scores

    def _batches(self, number: int) -> Iterator[Tensor | None]:
        """Yield for every local step which samples each labelled client takes."""
        size, batch = self._samples.inputs.shape[1], self._settings.batch_size
        places = self._trainers.numpy()[:, None] * size + np.arange(size)
        for step in range(self._training.local_epochs):
            if batch is None or batch >= size:
                yield None
            else:
                drawn = uniform_at(places, self._seed, "batch", number, step)
                yield torch.from_numpy(np.argsort(drawn, axis=1, kind="stable")[:, :batch])
