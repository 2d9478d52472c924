"""The messages of GFL-APPNP, their meanings, and how often each leaves at most."""

from __future__ import annotations

from torch import Tensor

from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import ConfigError, ProtocolError
from securefg.methods.gfl_appnp.settings import Settings
from securefg.models.appnp import propagation_matrix
from securefg.models.two_layer_mlp import (
    MlpShape,
    run_mlp,
)
from securefg.privacy.private_training import refuse_where_samples_share_neighbours
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import Bound, PublicSizes, reals
from securefg.protocol.meanings import (
    GraphOperator,
    GraphSums,
    Jacobian,
    Layer,
    Layout,
    Matrix,
    Meaning,
    Networks,
    NodeRows,
    Public,
    Weights,
)
from securefg.protocol.messages import Message, personal, private, public, round_number
from securefg.secagg.recipient_sums import MIN_CONTRIBUTORS
from securefg.settings.execution import TrainingSettings


def summed_over_graph(settings: Settings, of: Meaning) -> GraphSums:
    """Return the meaning of sums over the graph, by the operator of APPNP."""
    return GraphSums(of, GraphOperator("appnp", settings.teleport, settings.steps))


def _by_class(settings: Settings, public: PublicSizes) -> Bound:
    return reals((public.num_classes,))


class Globals(Message, kind="gfl_appnp.Globals"):
    """An averaged model, to everybody (line 6)."""

    weights: Tensor = public("global model", means=Weights("network", change=False))
    number: int = round_number()


_SUMMED_BY = "method.sums: recipients and method.jacobian: none"


class Representation(Message, kind="gfl_appnp.Representation"):
    """An upload of every client (line 10). The Jacobian is [M | m], see `two_layer_mlp`."""

    hidden: Tensor = private(
        "each",
        "hidden representation, mean over the client's samples",
        means=NodeRows("hidden", "client", "network"),
        summed_by=_SUMMED_BY,
    )
    jacobian: Tensor | None = private(
        "each",
        "its Jacobian by the model's weights, compact",
        means=lambda s: Jacobian(s.hidden, s.jacobian_noise),
        summed_by=_SUMMED_BY,
    )


class Call(Message, kind="gfl_appnp.Call"):
    """A request of lines 6 and 10 with `sums: recipients`: the model, and the factors of h_j by
    recipient."""

    weights: Tensor = public("global model", means=Weights("network", change=False))
    number: int = round_number()
    shares: Tensor = personal(
        "A_tilde_kj for every client k, zero for j itself",
        means=Public("the graph"),
        bounds=lambda s, p: reals((p.num_clients,), 0.0),
    )


class Parts(Message, kind="gfl_appnp.Parts"):
    """A reply in place of h_j. The server sees neither it nor any sum of it."""

    parts: Tensor = private(
        "recipients",
        "A_tilde_kj h_j for every client k",
        means=lambda s: summed_over_graph(s, NodeRows("hidden", "client", "network")),
    )


class SealedSums(Message, kind="gfl_appnp.SealedSums"):
    """A message to every client with its own sum (line 14), which the server cannot read."""

    context: Tensor = personal(
        "C_k, under the client's own pads",
        means=lambda s: summed_over_graph(s, NodeRows("hidden", "client", "network")),
        opens="Parts.parts",
        bounds=_by_class,
    )
    own: Tensor = personal(
        "A_tilde_kk: the weight of the client's own representation",
        means=Public("the graph"),
        bounds=lambda s, p: reals((), 0.0),
    )


class Sums(Message, kind="gfl_appnp.Sums"):
    """A message to every client with its own sum (line 14)."""

    context: Tensor = personal(
        "C_k: the neighbours' representations, weighted by the graph",
        means=lambda s: summed_over_graph(s, NodeRows("hidden", "client", "network")),
        bounds=_by_class,
    )
    own: Tensor = personal(
        "A_tilde_kk: the weight of the client's own representation",
        means=Public("the graph"),
        bounds=lambda s, p: reals((), 0.0),
    )


class Noted(Message, kind="gfl_appnp.Noted"):
    """A receipt: nothing leaves."""

    number: int = round_number()


class Learn(Message, kind="gfl_appnp.Learn"):
    """A request to clients with labels: train, with this compensation (line 14)."""

    slope: Tensor | None = personal(
        "dC_k: the neighbours' Jacobians, weighted by the graph",
        means=lambda s: summed_over_graph(s, Jacobian(s.hidden)),
        bounds=lambda s, p: reals(
            (MlpShape(p.num_features, s.hidden, p.num_classes).compact_size,)
        ),
    )
    number: int = round_number()


class Update(Message, kind="gfl_appnp.Update"):
    """A set of the trained models, or their changes."""

    weights: Tensor = private(
        "sum",
        "trained model, or its change",
        means=lambda s: Weights("network", change=s.upload == "update"),
    )


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return which private fields leave, and how often at most. Raise ConfigError for data that do
    not fit the method."""
    if info.num_clients != info.num_nodes:
        raise ConfigError(
            f"partition: {info.num_clients} clients for {info.num_nodes} nodes; "
            "gfl_appnp wants one client per node (partition.name: one_node, centralised: false)"
        )
    if training.participation != 1:
        raise ConfigError(
            f"training.participation is {training.participation}; allowed for gfl_appnp: 1, "
            "since a sum over some of the neighbours is another model"
        )
    shape = MlpShape(info.num_features, settings.hidden, info.num_classes)
    asked = training.noise_in_training
    if asked is not None and info.edge_index is not None:
        _refuse_private_training(f"training.{asked[0]}", settings, info, shape)
    update = PlannedRelease(
        Update,
        "weights",
        training.rounds,
        shape.num_parameters,
        senders=info.num_trainers,
        steered=True,
    )
    if settings.sums == "recipients":
        _refuse_open_sums(settings, info, shape)
        numbers = info.num_clients * info.num_classes
        return [PlannedRelease(Parts, "parts", training.rounds, numbers, steered=True), update]
    releases = [PlannedRelease(Representation, "hidden", training.rounds, info.num_classes)]
    if settings.jacobian == "full":
        releases.append(
            PlannedRelease(Representation, "jacobian", training.rounds, shape.compact_size)
        )
    return [*releases, update]


def check_request(settings: Settings, public: PublicInfo, message: Message) -> None:
    """Raise where a request to train lacks the compensation, or has one that is not used."""
    if isinstance(message, Learn) and (message.slope is None) != (settings.jacobian == "none"):
        raise ProtocolError(
            f"gfl_appnp.Learn.slope: found {'none' if message.slope is None else 'one'}; expected "
            f"what method.jacobian: {settings.jacobian} says"
        )


def list_networks(settings: Settings, info: PublicInfo, seed: int) -> Networks:
    """Return the layout of h = W2 ReLU(W1 x). The loss sees it mixed with the neighbours'."""
    hidden = settings.hidden
    first, second = (hidden, info.num_features), (info.num_classes, hidden)
    return {
        "network": Layout(
            layers=(Layer("first", first), Layer("second", second)),
            inputs=(Matrix("first", transposed=True),),
            output=Matrix("second", transposed=True),
            optimizer="sgd",
            hidden=hidden,
            dropout=0.0,
        )
    }


def _refuse_private_training(
    key: str, settings: Settings, info: PublicInfo, shape: MlpShape
) -> None:
    """Raise ConfigError for private training: a client's samples are in its neighbours' gradients
    through C_k and dC_k."""
    assert info.edge_index is not None
    matrix = propagation_matrix(info.edge_index, info.num_nodes, settings.teleport, settings.steps)
    layers = shape.split(matrix.new_zeros(shape.num_parameters))

    def logits(inputs: Tensor) -> Tensor:
        return matrix @ run_mlp(layers, inputs[:, None])[:, 0]

    inputs = matrix.new_zeros(info.num_nodes, info.num_features)
    refuse_where_samples_share_neighbours(f"{key}: gfl_appnp", logits, inputs)


def _refuse_open_sums(settings: Settings, info: PublicInfo, shape: MlpShape) -> None:
    """Raise ConfigError if Jacobians for every recipient weigh too much, or a sum of one or two
    hides nobody."""
    if settings.jacobian == "full":
        trainers = info.num_trainers or info.num_clients
        mib = info.num_clients * trainers * shape.compact_size * 4 / 2**20
        raise ConfigError(
            f"method.sums: recipients, with a Jacobian for each of {trainers} labelled "
            f"clients from each of {info.num_clients}, is {mib:.0f} MiB a round, and as much "
            "keystream for every pair that masks; allowed: jacobian: none (the paper's V2)"
        )
    if info.edge_index is None:
        return  # a site: the one who has the graph settles it, which the site's floor must allow
    matrix = propagation_matrix(info.edge_index, info.num_nodes, settings.teleport, settings.steps)
    contributors = (matrix.fill_diagonal_(0) != 0).sum(1)
    few = ((contributors > 0) & (contributors < MIN_CONTRIBUTORS)).nonzero().flatten().tolist()
    if few:
        raise ConfigError(
            f"method.sums: recipients: the sums of {len(few)} clients (the first is {few[0]}) have "
            f"fewer than {MIN_CONTRIBUTORS} contributors and would show them; take a graph without "
            "components of two or three nodes, or sums: server"
        )
