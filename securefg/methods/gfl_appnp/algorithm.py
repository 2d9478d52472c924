"""GFL-APPNP: every client is a node. Hidden representations are shared, raw data are not.

Client j uploads h_j = MLP(x_j, W), the mean over its samples, and its Jacobian. The server, which
knows the graph, returns to client k its own sums C_k = sum_{j != k} A_tilde_kj h_j and dC_k alone;
clients with labels then take local steps as if they held their neighbours' data, and their models
are averaged. Comments give the line numbers of the paper's Algorithm 1, counted from "Require".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from securefg.data.graph import Split
from securefg.data.shard import clients_of
from securefg.federation.evaluation import LocalScore, score_clients
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State, require_replies
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import torch_stream, uniform_at
from securefg.methods.base import Method
from securefg.methods.gfl_appnp.messages import (
    Call,
    Globals,
    Learn,
    Noted,
    Parts,
    Representation,
    SealedSums,
    Sums,
    Update,
    check_request,
    list_networks,
    plan_releases,
)
from securefg.methods.gfl_appnp.settings import Settings
from securefg.models.appnp import graph_heterogeneity, propagation_matrix
from securefg.models.two_layer_mlp import (
    Layers,
    LocalSgd,
    MlpShape,
    Neighbourhood,
    Samples,
    compact_jacobian,
    each_by,
    mean_hidden,
    run_mlp,
)
from securefg.privacy.noise import SeededNoise
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings

# -------------------------------------------------------------------------------------- clients


def own_noise(
    settings: Settings, info: PublicInfo, seed: int, request: Message, turn: Turn
) -> dict[str, Tensor]:
    """Return V1's noise on the Jacobian, as every party can draw it again."""
    if not settings.jacobian_noise or not isinstance(request, Globals):
        return {}
    layers = MlpShape(info.num_features, settings.hidden, info.num_classes).split(request.weights)
    return {f"{Representation.kind}.jacobian": jacobian_noise(settings, seed, layers, turn)}


def jacobian_noise(settings: Settings, seed: int, layers: Layers, turn: Turn) -> Tensor:
    """Return the noise on the compact form that noise on every entry of the Jacobian leaves.

    The C entries that W2[:, a] M[a, i] fills, each with noise of its own, tell of M[a, i] as much
    as their projection on W2[:, a]: noise of 1 / |W2[:, a]|. The C copies of m tell as much as
    their mean.
    """
    second, (hidden, num_features) = layers.second, layers.first.shape
    shape = torch.Size((len(turn.clients), hidden, num_features + 1))
    drawn = SeededNoise(seed).normal(shape, turn.clients, ("jacobian", turn.round))
    noise = drawn.to(second) * settings.jacobian_noise
    smallest = torch.finfo(second.dtype).tiny
    noise[..., :-1] /= second.norm(dim=0).clamp_min(smallest)[:, None]
    noise[..., -1] /= len(second) ** 0.5
    return noise


class Users(Host):
    """A host of some of the clients, as one tensor. Row i of everything is the i-th client of this
    host."""

    def __init__(self, site: Site[Settings]) -> None:
        self._settings: Settings = site.method
        self._training, self._seed, self._device = site.training, site.seed, site.device
        data = [shard.graph for shard in site.shards]
        self._clients = clients_of(site.shards)
        features = torch.cat([graph.features for graph in data]).to(site.device)
        self._x = features.to(torch.get_default_dtype()).reshape(len(data), -1, features.shape[-1])
        self._labels = torch.cat([graph.labels for graph in data]).to(site.device)
        self._split = _split_of(data).to(site.device)
        self._shape = MlpShape(self._x.shape[2], self._settings.hidden, data[0].num_classes)
        self._trains = self._split.train.reshape(len(data), -1)
        self._represented = self._chosen_samples()
        self._own = self._x.new_zeros(len(data))
        self._context = self._x.new_zeros(len(data), self._shape.num_classes)
        self._told = torch.zeros(len(data), dtype=torch.bool)
        self._layers: Layers | None = None
        self._number = 0

    def handle(self, request: Message, turn: Turn) -> Message:
        """Send representations or parts of sums, note own sums, or train."""
        users = torch.from_numpy(np.searchsorted(self._clients, turn.clients.array()))
        users = users.to(self._device)
        match request:
            case Globals():
                return self._send_representations(request, users, turn)
            case Call():
                hidden = self._hidden_layer(self._begin_round(request, users))
                shares = request.shares.to(hidden)
                return Parts(parts=shares[:, :, None] * hidden[:, None])
            case Sums() | SealedSums():
                return self._note_sums(request, users, turn)
            case _:
                assert isinstance(request, Learn)
                return self._learn_locally(request, users, turn)

    def _chosen_samples(self) -> Tensor:
        if self._settings.represent == "all" or self._labels.dim() == 1:
            return self._x
        return _equal_rows(self._x, self._trains)

    def _send_representations(self, request: Globals, users: Tensor, turn: Turn) -> Representation:
        """Return the representations of every client, with labels or without (lines 8 to 10)."""
        samples = self._begin_round(request, users)
        assert self._layers is not None
        gates, mean = mean_hidden(self._layers.first, samples)
        jacobian = None
        if self._settings.jacobian == "full":
            jacobian = compact_jacobian(gates, mean, samples)
            if self._settings.jacobian_noise:
                jacobian += jacobian_noise(self._settings, self._seed, self._layers, turn)
            jacobian = jacobian.flatten(1)
        hidden = each_by(mean[:, None], self._layers.second.T)[:, 0]
        return Representation(hidden=hidden, jacobian=jacobian)

    def _begin_round(self, request: Globals | Call, users: Tensor) -> Tensor:
        """Take the round's model. Return the samples that these clients represent by it."""
        self._layers = self._shape.split(request.weights.to(self._device))
        self._number = request.number
        self._told[:] = False
        everyone = len(users) == len(self._x)
        return self._represented if everyone else self._represented[users]

    def _hidden_layer(self, samples: Tensor) -> Tensor:
        assert self._layers is not None
        _, mean = mean_hidden(self._layers.first, samples)
        return each_by(mean[:, None], self._layers.second.T)[:, 0]

    def _note_sums(self, request: Sums | SealedSums, users: Tensor, turn: Turn) -> Noted:
        self._context[users] = request.context.to(self._x)
        self._own[users] = request.own.to(self._x)
        self._told[users.cpu()] = True
        return Noted(number=turn.round)

    def _learn_locally(self, request: Learn, users: Tensor, turn: Turn) -> Update:
        """Take I steps of all clients with labels at once (lines 17 to 21), and return their
        models."""
        assert self._layers is not None
        slope = request.slope
        if slope is not None:
            slope = slope.to(self._x).view(len(users), self._shape.hidden, -1)
        inputs = _equal_rows(self._x[users], self._trains_on(users))
        around = Neighbourhood(self._own[users], self._context[users], slope)
        samples = Samples(inputs, self._make_targets(users))
        rate, decay = self._training.lr, self._training.weight_decay
        sgd = LocalSgd(self._layers, samples, around, rate, decay)
        trained = sgd.run(self._draw_batches(turn, inputs.shape[1]))
        if self._settings.upload == "update":
            trained -= torch.cat([layer.flatten() for layer in self._layers])
        return Update(weights=trained)

    def _trains_on(self, users: Tensor) -> Tensor:
        """Return which samples train: a labelled node's all, or those labelled for it."""
        return self._trains[users].expand(-1, self._x.shape[1])

    def _make_targets(self, users: Tensor) -> Tensor:
        labels = self._labels[users].reshape(len(users), -1).expand(-1, self._x.shape[1])
        chosen = _equal_rows(labels[..., None], self._trains_on(users))[..., 0]
        return one_hot(chosen, self._shape.num_classes).to(self._x.dtype)

    def _draw_batches(self, turn: Turn, num_samples: int) -> Iterator[Tensor | None]:
        """Yield for every local step which samples each client takes, drawn without replacement."""
        size = self._settings.batch_size
        places = turn.clients.array()[:, None] * num_samples + np.arange(num_samples)
        for step in range(self._training.local_epochs):
            if size is None or size >= num_samples:
                yield None
            else:
                drawn = uniform_at(places, self._seed, "batch", turn.round, step)
                order = np.argsort(drawn, axis=1, kind="stable")[:, :size]
                yield torch.from_numpy(order).to(self._device)

    @torch.no_grad()
    def measure(self, release: Message) -> list[LocalScore]:
        """Return the scores of softmax(A_kk h_k + C_k) with the C_k that the client was sent.

        A node is scored by the mean of its samples, or by each sample if these are labelled apart
        or `scored` says so. Only the round's own model can be scored: the sums for another model
        are gone.
        """
        assert isinstance(release, Globals)
        if release.number != self._number or not bool(self._told.any()):
            return []
        users = self._told.nonzero().flatten().to(self._device)
        layers = self._shape.split(release.weights.to(self._device))
        hidden = run_mlp(layers, self._x[users])
        if self._labels.dim() == 1 and self._settings.scored == "nodes":
            hidden = hidden.mean(1, keepdim=True)
        logits = self._own[users, None, None] * hidden + self._context[users, None]
        scored = logits.shape[:2]
        labels = self._labels[users].reshape(len(users), -1).expand(scored)
        split = Split(*(mask.expand(scored) for mask in vars(self._split[users]).values()))
        numbers = self._clients[self._told.numpy()].tolist()
        return score_clients(numbers, logits, labels, split)


def _split_of(data: list[Any]) -> Split:
    """Return the clients' masks, (n, 1), or (n, S) where samples are labelled apart."""
    parts = [[getattr(graph.split, name) for graph in data] for name in ("train", "val", "test")]
    return Split(*(torch.cat(part).reshape(len(data), -1) for part in parts))


def _equal_rows(values: Tensor, chosen: Tensor) -> Tensor:
    """Return the chosen of every client's samples, (n, T, ...): all must have chosen as many."""
    counts = chosen.sum(1)
    if len(counts) and int(counts.min()) != int(counts.max()):
        raise ConfigError("gfl_appnp: clients with different numbers of training samples")
    return values[chosen].reshape(len(values), -1, values.shape[-1])


# --------------------------------------------------------------------------------------- server


class GflServer(Server):
    """A server that averages models and forms, for every client, its own sums over the graph."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        assert info.edge_index is not None
        assert info.trainers is not None
        self._info, self._settings, self._cohort = info, settings, cohort
        whole = propagation_matrix(
            info.edge_index, info.num_nodes, settings.teleport, settings.steps
        )
        matrix = whole.to(info.device, torch.get_default_dtype())  # "Compute A_tilde"
        self._own = matrix.diagonal().clone()
        self._others = matrix.fill_diagonal_(0)
        self._trainers = info.trainers.numpy()
        shape = MlpShape(info.num_features, settings.hidden, info.num_classes)
        self._weights = shape.initial(torch_stream(info.seed, "weights"))

    def round(self, number: int) -> Globals:
        """Run one communication. A client that does not reply is left out of this round's sums.

        The model released is the one that the sums belong to, which clients can predict with.
        """
        model = Globals(weights=self._weights, number=number)  # line 6
        if self._settings.sums == "recipients":
            told, slope = self._pass_on(number), None
        else:
            told, slope = self._form_sums(model)
        trainers = Clients.of(np.intersect1d(told.array(), self._trainers))
        updates = self._cohort.ask(Learn(slope=slope, number=number), Update, trainers)
        if updates.count:
            mean = updates.mean("weights").to(self._weights)  # lines 4 to 6 of the next round
            self._weights = mean + (self._weights if self._settings.upload == "update" else 0)
        return model

    def _form_sums(self, model: Globals) -> tuple[Clients, Tensor | None]:
        """Form the sums of all clients (lines 10 to 14). Return who took its own, and dC_k of those
        among them that train."""
        replies = require_replies(self._cohort.ask(model, Representation), model.number)
        present = torch.from_numpy(replies.clients.array()).to(self._info.device)
        informed_clients = self._send_sums(replies.each("hidden"), present, replies.clients)
        if self._settings.jacobian == "none":
            return informed_clients, None
        rows = torch.from_numpy(np.intersect1d(informed_clients.array(), self._trainers))
        rows = rows.to(self._info.device)
        return informed_clients, self.summed_values(
            replies.each("jacobian"), rows, present
        )  # line 13

    def _pass_on(self, number: int) -> Clients:
        """Return the same sums, formed under masks and opened by their recipients alone."""
        call = Call(weights=self._weights, number=number, shares=self._others.T.cpu())
        replies = require_replies(self._cohort.ask(call, Parts), number)
        present = torch.from_numpy(replies.clients.array())
        sums = SealedSums(context=replies.forward("parts")[present], own=self._own.cpu()[present])
        return self._cohort.ask(sums, Noted, replies.clients).clients

    def _send_sums(self, hidden: Tensor, present: Tensor, clients: Clients) -> Clients:
        """Send the sums (lines 12 and 14). Return who took its sum."""
        context = self.summed_values(hidden, present, present)
        sums = Sums(context=context, own=self._own[present].cpu())
        return self._cohort.ask(sums, Noted, clients).clients

    def summed_values(self, values: Tensor, recipients: Tensor, present: Tensor) -> Tensor:
        """Return sum_{j != k} A_tilde_kj values_j for every recipient k, over those that
        replied."""
        weights = self._others[recipients][:, present]
        return (weights @ values.to(weights)).cpu()

    def facts(self) -> dict[str, float]:
        """Return how badly the graph is connected, lambda_max(B L^+)."""
        assert self._info.edge_index is not None
        return {"lambda_max_BL": graph_heterogeneity(self._info.edge_index, self._info.num_nodes)}

    def state(self) -> State:
        """Return the averaged weights."""
        return {"weights": self._weights.clone()}

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._weights = state["weights"]


METHOD = Method(
    name="gfl_appnp",
    summary="every client is a node; representations and Jacobians are shared over the graph",
    settings=Settings,
    messages=(Globals, Representation, Call, Parts, Sums, SealedSums, Noted, Learn, Update),
    replies={
        Globals: Representation,
        Call: Parts,
        Sums: Noted,
        SealedSums: Noted,
        Learn: Update,
    },
    check=check_request,
    release=Globals,
    planned=plan_releases,
    networks=list_networks,
    own_noise=own_noise,
    make_host=Users,
    make_server=GflServer,
    batched=True,
    server_knows=frozenset({"graph", "trainers"}),
)
