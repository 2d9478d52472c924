"""A common classifier from two noisy sums, with epsilon per node. Predictions stay at home.

Every client holds a subgraph. Two sums over all training nodes are asked for, once each, under
masks, with noise for one node: its features, its label and its links. They determine the model, so
nothing else has to leave a client. docs/reference/private.md has the proof of what a node moves.

    1. M = sum x_v y_v^T                          from which P scores the classes of any features
    2. A = sum phi_v phi_v^T,  B = sum phi_v y_v^T    from which a linear head follows

with x_v of length at most 1, and phi_v = [a z_v, b H_v, g G_v, c] / sqrt(a^2 + b^2 + g^2 + c^2):

    z_v = cut(P^T x_v)                                own features
    H_v = cut(sum of y_u over training neighbours u / d0)    neighbours' labels
    G_v = cut(sum of z_u over neighbours u / d0)      neighbours' features

where cut(q) = q / max(1, |q|). A fixed divisor d0 in place of the degree bounds what one neighbour
moves: b/d0 and g/d0, whatever the others' degrees are.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Final

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.data.shard import Shard
from securefg.federation.evaluation import (
    Evaluator,
    LocalScore,
    Scores,
    area_under_curve,
    score_locally,
    score_logits,
)
from securefg.federation.roles import (
    Cohort,
    Host,
    PublicInfo,
    Server,
    Site,
    State,
    require_replies,
)
from securefg.foundation.errors import ConfigError, ProtocolError
from securefg.methods.at_home import predict_best
from securefg.methods.base import Method, Scene, Suit, require_all_clients
from securefg.methods.two_sums.features import (
    CONSTANT,
    class_sums,
    feature_length,
    feature_width,
    moments_of,
    moved_by_node,
    neighbour_moves,
    pack_moments,
    refuse_samples,
    rows_of,
    unpack_moments,
    with_divisor,
)
from securefg.methods.two_sums.settings import Settings
from securefg.models.discriminant import CLEAR, class_scores, is_clear, solve_head
from securefg.privacy.influence import NOTHING, Fixed, Influence
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import Bound, PublicSizes, reals
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Layer, Layout, Matrix, Networks, Statistic, Weights
from securefg.protocol.messages import Message, private, public, round_number
from securefg.settings.execution import TrainingSettings

BY_CLASS: Final = Statistic("both", "by_class")
MOMENTS: Final = Statistic("both", "moments")

FIRST_SHARE: Final = 0.25
"""The first sum takes this part of the budget. Parts of 1 / multiplier^2 add up."""

OWN_WEIGHTS: Final = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0)
CLEARLY: Final = 2.0


# ---------------------------------------------------------------------------------------- messages


def _projection_bound(settings: Settings, public: PublicSizes) -> Bound:
    return reals((public.num_features, public.num_classes))


def _products_bound(settings: Settings, public: PublicSizes) -> Bound:
    dim = feature_width(settings, public.num_features, public.num_classes)
    return reals((dim * (dim + 1) // 2 + dim * public.num_classes,))


class AskSums(Message, kind="two_sums.AskSums"):
    """A request for the first sum."""

    number: int = round_number()


class ClassSums(Message, kind="two_sums.ClassSums"):
    """A first sum, M."""

    sums: Tensor = private(
        "sum",
        "features of the training nodes, summed by class",
        means=BY_CLASS,
        constant=True,
    )


class AskMoments(Message, kind="two_sums.AskMoments"):
    """A request for the second sum, over features that P maps."""

    projection: Tensor | None = public(
        "P: features to class scores", means=BY_CLASS, bounds=_projection_bound
    )


class Products(Message, kind="two_sums.Products"):
    """A second sum, A and B in one vector."""

    products: Tensor = private(
        "sum",
        "second moments of phi, and its sums by class",
        means=lambda s: replace(MOMENTS, edges=s.link_columns > 0 or None),
    )


class Model(Message, kind="two_sums.Model"):
    """A released model. `noise` is the standard deviation on every entry of the products."""

    projection: Tensor | None = public(
        "P: features to class scores", means=BY_CLASS, bounds=_projection_bound
    )
    products: Tensor = public("noisy moments", means=MOMENTS, bounds=_products_bound)
    weights: Tensor = public("linear head", means=Weights("head", change=False))
    noise: float = public(
        "standard deviation of the noise on the moments", bounds=lambda s, p: reals((), 0.0)
    )


def check_request(settings: Settings, public: PublicInfo, message: Message) -> None:
    """Raise where a projection is missing, or none is wanted."""
    if isinstance(message, AskMoments | Model):
        has_one, needs_one = message.projection is not None, public.num_features > settings.narrow
        if has_one != needs_one:
            words = {True: "a projection", False: "none"}
            raise ProtocolError(
                f"{message.kind}.projection: found {words[has_one]}; expected {words[needs_one]} "
                f"for {public.num_features} features"
            )


def _refuse_link_columns(settings: Settings, info: PublicInfo) -> None:
    """Sums over links are covered beside own columns alone, and where edges have a holder."""
    count, key = settings.link_columns, "method.link_columns"
    if not count:
        return
    if settings.graph:
        raise ConfigError(f"{key}: found {count} with graph: true; expected graph: false")
    if not count < info.num_features <= settings.narrow:
        raise ConfigError(
            f"{key}: found {count} of {info.num_features} features; expected fewer than all, and "
            f"at most method.narrow ({settings.narrow}) features"
        )
    # A link moves the rows of its ends at all clients that hold them, whoever holds the edge.
    if info.edge_holders is not None and info.edge_holders < (info.node_holders or math.inf):
        raise ConfigError(
            f"{key}: found an edge with at most {info.edge_holders} clients and a node with "
            f"{info.node_holders}; expected as many clients for an edge as for a node"
        )


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the one or two sums that leave, each once."""
    if training.rounds != 1:
        raise ConfigError(
            f"training.rounds: {training.rounds}; allowed for two_sums: 1, since the two sums "
            "determine the model and a second round would only spend"
        )
    require_all_clients("two_sums", training)
    _refuse_link_columns(settings, info)
    dim = feature_width(settings, info.num_features, info.num_classes)
    products = PlannedRelease(
        Products,
        "products",
        count=1,
        dim=dim * (dim + 1) // 2 + dim * info.num_classes,
        norm=math.sqrt(2) * info.num_nodes,
        node=Influence(moved=partial(moved_by_node, settings), links=settings.links),
        edge=Influence(moved=Fixed(2 * neighbour_moves(settings)))
        if settings.reads_links
        else NOTHING,
    )
    if info.num_features <= settings.narrow:
        return [products]
    sums = PlannedRelease(
        ClassSums,
        "sums",
        count=1,
        dim=info.num_features * info.num_classes,
        norm=float(info.num_nodes),
        node=Influence(moved=Fixed(1.0), links=settings.links),
        edge=NOTHING,
        noisier=math.sqrt(1 / FIRST_SHARE - 1),
    )
    return [sums, products]


# ------------------------------------------------------------------------------------- client side


def best_of(shard: Shard, logits: list[Tensor]) -> LocalScore:
    """Return the first, unless another's loss on the client's own validation nodes is clearly
    lower: by `CLEARLY` in all, so that a handful of nodes does not choose by luck."""
    graph = shard.graph
    first, *others = [
        score_locally(shard.client, each, graph.labels, graph.split) for each in logits
    ]
    best = min(others, key=lambda score: score.val_loss)
    return best if first.val_count * (first.val_loss - best.val_loss) > CLEARLY else first


def apply_head(release: Model, rows: Tensor) -> Tensor:
    """Return the logits of rows under the released head, (n, C)."""
    dim, flat = rows.shape[1], release.weights.double()
    num_classes = len(flat) // (dim + 1)
    return rows @ flat[: dim * num_classes].reshape(dim, -1) + flat[dim * num_classes :]


class Client(Host):
    """A client with its subgraph. It answers two sums, and keeps nothing."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._settings = site.method
        self._graph = self._shard.graph
        refuse_samples(self._graph)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Return the sum that is asked for."""
        if isinstance(request, AskSums):
            return ClassSums(sums=class_sums(self._graph)[None])
        assert isinstance(request, AskMoments)
        rows = rows_of(self._graph, request.projection, self._settings)
        return Products(products=pack_moments(moments_of(self._graph, rows))[None])

    def measure(self, release: Message) -> list[LocalScore]:
        """Return the scores at home, where the client's own data correct the common model.

        With links, a regression around the common model's scores and averages over links do so.
        Without links, the client adds its clean sums to the common ones, as often as serves its own
        validation nodes best. Both stay at home, so they cost nothing.
        """
        assert isinstance(release, Model)
        rows = rows_of(self._graph, release.projection, self._settings)
        if self._settings.graph:
            logits = predict_best(self._graph, apply_head(release, rows))
            graph = self._graph
            return [score_locally(self._shard.client, logits, graph.labels, graph.split)]
        own_moments = moments_of(self._graph, rows)
        common = unpack_moments(release.products, rows.shape[1])
        constant = CONSTANT / feature_length()
        clear = is_clear(common, constant, release.noise)
        solved = (
            solve_head(common.plus(own_moments, weight), constant, release.noise, clear)
            for weight in OWN_WEIGHTS
        )
        return [best_of(self._shard, [rows @ weights + offsets for weights, offsets in solved])]


# ------------------------------------------------------------------------------------- server side


class Solver(Server):
    """A server that asks for two sums, and solves."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        self._info, self._settings, self._cohort = info, settings, cohort

    def round(self, number: int) -> Message:
        """Ask for the sums, and solve for the head."""
        projection = None
        if self._info.num_features > self._settings.narrow:
            first = require_replies(self._cohort.ask(AskSums(number=number), ClassSums), number)
            noise = self._cohort.noise_stddev(first, "sums")
            rates = self._settings.encoding == "rates"
            projection = class_scores(first.sum("sums").double(), noise, rates).float()
        asked = self._cohort.ask(AskMoments(projection=projection), Products)
        replies = require_replies(asked, number)
        noise = self._cohort.noise_stddev(replies, "products")
        products = replies.sum("products").float()
        dim = feature_width(self._settings, self._info.num_features, self._info.num_classes)
        moments = unpack_moments(products, dim)
        constant = CONSTANT / feature_length()
        weights, offsets = solve_head(moments, constant, noise, is_clear(moments, constant, noise))
        flat = torch.cat([weights.flatten(), offsets]).float()
        return Model(projection=projection, products=products, weights=flat, noise=noise)

    def state(self) -> State:
        """Return nothing: there is one round."""
        return {}

    def restore(self, state: State) -> None:
        """Do nothing, because a single round leaves nothing between rounds."""


class AtHome(Evaluator):
    """A goal: the common model, with every node scored by the links that its own client holds."""

    def __init__(self, union: Graph, settings: Settings, device: torch.device) -> None:
        self._graph, self._settings = union, settings

    def score(self, release: Message) -> Scores:
        """Score the common model. With two classes, also by the area under the curve."""
        logits, graph = self.answers(release), self._graph
        scores = score_logits(logits, graph.labels, graph.split)
        if graph.num_classes > 2 or not bool(graph.split.test.any()):
            return scores
        margins = (logits[:, 1] - logits[:, 0])[graph.split.test]
        return replace(
            scores, extra={"test_auc": area_under_curve(margins, graph.labels[graph.split.test])}
        )

    def answers(self, release: Message) -> Tensor:
        """Return the logits of all nodes, (N, C)."""
        assert isinstance(release, Model)
        return apply_head(release, rows_of(self._graph, release.projection, self._settings))


def list_networks(settings: Settings, info: PublicInfo, seed: int) -> Networks:
    """Return the layout of the linear head."""
    dim = feature_width(settings, info.num_features, info.num_classes)
    layers = (Layer("weights", (dim, info.num_classes)), Layer("offsets", (info.num_classes,)))
    return {"head": Layout(layers, output=Matrix("weights", bias="offsets"))}


def suits_scene(scene: Scene) -> Suit | None:
    """Suit silos that keep predictions at home, if both sums stand clear of their noise."""
    if scene.unit != "node" or scene.shown or scene.lowest_ratio < CLEAR:
        return None
    return Suit(2, f"both sums stand {scene.lowest_ratio:.1f} times above their noise, or more")


METHOD = Method(
    name="two_sums",
    summary="a common classifier from one or two noisy sums: epsilon per node, one round",
    settings=Settings,
    messages=(AskSums, ClassSums, AskMoments, Products, Model),
    replies={AskSums: ClassSums, AskMoments: Products},
    check=check_request,
    release=Model,
    planned=plan_releases,
    networks=list_networks,
    make_host=Client,
    make_server=Solver,
    make_evaluator=AtHome,
    answers_shown=lambda settings: settings.answers == "shown",
    choose=with_divisor,
    suits=suits_scene,
)
