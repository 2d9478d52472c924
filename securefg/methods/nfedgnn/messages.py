"""The messages of nFedGNN, their meanings, and how often each leaves at most."""

from __future__ import annotations

from torch import Tensor

from securefg.federation.roles import PublicInfo
from securefg.methods.nfedgnn.settings import Settings
from securefg.models.neighbourhoods import Neighbourhoods
from securefg.models.user_init import shared_weights
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import exactly, reals, require_same, whole_numbers
from securefg.protocol.meanings import (
    Answers,
    Gradient,
    GraphOperator,
    GraphSums,
    Layer,
    Layout,
    Matrix,
    Networks,
    NodeRows,
    Public,
    Weights,
)
from securefg.protocol.messages import Message, personal, private, public, round_number
from securefg.secagg.recipient_sums import MIN_CONTRIBUTORS
from securefg.settings.execution import TrainingSettings


class Call(Message, kind="nfedgnn.Call"):
    """A request for latents."""

    number: int = round_number()
    weights: Tensor | None = public(
        "CNFGNN: the mean of the users' weights",
        means=Weights("encoder", change=False),
        bounds=lambda s, p: reals((p.num_features, s.width)),
    )


class Latents(Message, kind="nfedgnn.Latents"):
    """A set of the latents of users."""

    latent: Tensor = private(
        "each",
        "features times the user's own weights",
        means=NodeRows("latent", "client", "encoder"),
        summed_by="method: {upload: neighbourhood_sums, network: gcn, smoothness: 0, "
        "missing: zero, average: false}",
    )


class Neighbours(Message, kind="nfedgnn.Neighbours"):
    """A message, once before sums are asked for: whose sums a user is in."""

    whose: Tensor = personal(
        "the nodes of whose sums the user is a part; -1 fills up",
        means=Public("the graph"),
        bounds=lambda s, p: whole_numbers((None,), -1, p.num_nodes - 1),
    )
    weight: Tensor = personal(
        "what the user's latent is multiplied by in each",
        means=Public("the graph"),
        bounds=lambda s, p: reals((None,)),
    )


class Noted(Message, kind="nfedgnn.Noted"):
    """A receipt: nothing leaves."""

    number: int = round_number()


class CallParts(Message, kind="nfedgnn.CallParts"):
    """A request for parts of sums."""

    number: int = round_number()
    num_nodes: int = public("how many sums there are", bounds=lambda s, p: exactly(p.num_nodes))


class Parts(Message, kind="nfedgnn.Parts"):
    """A user's part of every sum that it is in."""

    parts: Tensor = private(
        "sum",
        "weighted latent, at every node whose sum the user is in",
        means=GraphSums(
            NodeRows("latent", "client", "encoder"), GraphOperator("gcn", least=MIN_CONTRIBUTORS)
        ),
    )


class Learn(Message, kind="nfedgnn.Learn"):
    """A set of the gradients by which users learn."""

    gradient: Tensor = personal(
        "derivative of the loss by the user's latent",
        means=Gradient("latent"),
        bounds=lambda s, p: reals((s.width,)),
    )


class Learnt(Message, kind="nfedgnn.Learnt"):
    """A set of the weights after a step, if they are averaged."""

    number: int = round_number()
    weights: Tensor | None = private(
        "sum",
        "CNFGNN: the user's own weights after its step",
        means=Weights("encoder", change=False),
    )


class Predictions(Message, kind="nfedgnn.Predictions"):
    """A release of the server: its view of every node."""

    logits: Tensor = public(
        "class scores per node",
        means=Answers(),
        bounds=lambda s, p: reals((p.num_nodes, p.num_classes)),
    )


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the private fields that leave, and how often at most."""
    width, rounds = settings.width, training.rounds
    if settings.upload == "neighbourhood_sums":
        return [PlannedRelease(Parts, "parts", rounds, info.num_nodes * width, steered=True)]
    latents = PlannedRelease(Latents, "latent", rounds, width)
    if not settings.average:
        return [latents]
    numbers = info.num_features * width
    return [latents, PlannedRelease(Learnt, "weights", rounds, numbers, steered=True)]


def check_request(settings: Settings, public: PublicInfo, message: Message) -> None:
    """Raise where nodes and weights of a user's sums are not as many."""
    if isinstance(message, Neighbours):
        lengths = {"whose": message.whose.shape[1], "weight": message.weight.shape[1]}
        require_same(message.kind, lengths)


def list_networks(settings: Settings, info: PublicInfo, seed: int) -> Networks:
    """Return the layout of the users' own layer x W, which is alike for all at first if `init` is
    shared."""
    layer, width = "weight", settings.width

    def initial() -> Tensor:
        return shared_weights(info.num_features, width, seed).flatten()

    return {
        "encoder": Layout(
            layers=(Layer(layer, (info.num_features, width)),),
            inputs=(Matrix(layer),),
            form="linear",
            optimizer="adam",
            initial=initial if settings.init == "shared" else None,
            hidden=settings.hidden,
            dropout=settings.dropout,
        )
    }


def exposed_uploads(settings: Settings, info: PublicInfo, survivors: list[int]) -> int:
    """Return how many uploads follow from one sum over all users. It is a sum for every
    neighbourhood, and these are linear equations."""
    if settings.upload != "neighbourhood_sums":
        return int(len(survivors) == 1)
    assert info.edge_index is not None
    sums = Neighbourhoods(info.edge_index, info.num_nodes, MIN_CONTRIBUTORS)
    return sums.num_exposed(survivors)
