"""Predictions that may be published: label counts are released once, and all else follows.

Every silo holds a subgraph. Three sums leave it, once each:

    1. M = sum x_v y_v^T over training nodes           from which P scores the classes of features
    2. c_v of every node v: the labels of its training neighbours, counted
    3. A = sum phi_v phi_v^T, B = sum phi_v y_v^T       with phi_v from P^T x_v and the released c_v

A linear head follows from A and B. The released counts carry the links, so a prediction computed
from them tells no more of anybody's links or of any neighbour's label.

One node moves M by 1, the counts of all others by sqrt(k) with k links, and A and B by sqrt 2:
phi_v reads the counts as they were released. This is GAP's convention: a node is covered in all
rows but its own. `features.py` also has the stricter distance, and
docs/reference/private_published.md the proof of both.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.federation.evaluation import (
    Evaluator,
    LocalScore,
    Scores,
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
from securefg.foundation.errors import ConfigError
from securefg.methods.base import Method, Scene, Suit, require_all_clients
from securefg.methods.noisy_counts.features import (
    CONSTANT,
    OwnRowToo,
    choose_share,
    describe_nodes,
    feature_length,
    feature_width,
    label_counts,
    moved_counts,
    place_rows,
    sum_moments,
)
from securefg.methods.noisy_counts.settings import Settings
from securefg.methods.two_sums.features import (
    class_sums,
    pack_moments,
    refuse_samples,
    unpack_moments,
)
from securefg.models.discriminant import class_scores, solve_discriminant
from securefg.privacy.influence import NOTHING, Fixed, Influence
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import Bound, PublicSizes, exactly, reals
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Layer, Layout, Matrix, Networks, Statistic, Weights
from securefg.protocol.messages import Message, private, public, round_number
from securefg.settings.execution import TrainingSettings

BY_CLASS: Final = Statistic("both", "by_class")
COUNTS: Final = Statistic("labels", "counts")
MOMENTS: Final = Statistic("both", "moments")

LEAST_RATIO: Final = 3.0
"""Signal over noise of the sums over training nodes, below which plans advise against a run."""

OWN_ROW: Final = "a node's own row of the counts, and its own features in its own prediction (GAP)"


# ---------------------------------------------------------------------------------------- messages


def _projection_bound(settings: Settings, public: PublicSizes) -> Bound:
    return reals((public.num_features, public.num_classes))


def _counts_bound(settings: Settings, public: PublicSizes) -> Bound:
    return reals((public.num_nodes, public.num_classes))


def _stddev_bound(settings: Settings, public: PublicSizes) -> Bound:
    return reals((), 0.0)


class AskSums(Message, kind="noisy_counts.AskSums"):
    """Asks for the first sum."""

    number: int = round_number()


class ClassSums(Message, kind="noisy_counts.ClassSums"):
    """The first sum, M."""

    sums: Tensor = private(
        "sum", "features of the training nodes, summed by class", means=BY_CLASS, constant=True
    )


class AskCounts(Message, kind="noisy_counts.AskCounts"):
    """Asks for the counts of all nodes."""

    index_size: int = public("size of the index of nodes", bounds=lambda s, p: exactly(p.num_nodes))


class LabelCounts(Message, kind="noisy_counts.LabelCounts"):
    """The second sum: a row per node of the federation, zeros for nodes of other silos."""

    counts: Tensor = private("sum", "labels of every node's training neighbours", means=COUNTS)


class AskMoments(Message, kind="noisy_counts.AskMoments"):
    """Asks for the third sum, with what was released so far."""

    projection: Tensor = public(
        "P: features to class scores", means=BY_CLASS, bounds=_projection_bound
    )
    counts: Tensor = public("released counts", means=COUNTS, bounds=_counts_bound)
    stddev: float = public("standard deviation of each released count", bounds=_stddev_bound)


class Products(Message, kind="noisy_counts.Products"):
    """The third sum, A and B in one vector."""

    products: Tensor = private("sum", "second moments of phi, and its sums by class", means=MOMENTS)


class Model(Message, kind="noisy_counts.Model"):
    """All that a silo needs for predictions of its own nodes, which it may publish."""

    projection: Tensor = public(
        "P: features to class scores", means=BY_CLASS, bounds=_projection_bound
    )
    counts: Tensor = public("released counts", means=COUNTS, bounds=_counts_bound)
    stddev: float = public("standard deviation of each released count", bounds=_stddev_bound)
    weights: Tensor = public("linear head", means=Weights("head", change=False))


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the three sums, each once."""
    if training.rounds != 1:
        raise ConfigError(
            f"training.rounds: found {training.rounds}; expected 1 for noisy_counts. Three sums "
            "determine the model, and a second round would only spend epsilon"
        )
    require_all_clients("noisy_counts", training)
    dim, k = feature_width(info.num_classes), settings.links
    first, second, third = (1 / math.sqrt(share) for share in settings.shares)
    counts = Influence(
        moved=moved_counts,
        links=k,
        own_row=info.num_classes,
        stricter=OwnRowToo(k),
        left_out=OWN_ROW,
    )
    return [
        PlannedRelease(
            ClassSums,
            "sums",
            count=1,
            dim=info.num_features * info.num_classes,
            norm=float(info.num_nodes),
            node=Influence(moved=Fixed(1.0), links=k),
            edge=NOTHING,
            noisier=first / third,
        ),
        PlannedRelease(
            LabelCounts,
            "counts",
            count=1,
            dim=info.num_nodes * info.num_classes,
            norm=k * math.sqrt(info.num_nodes),
            node=counts,
            edge=Influence(moved=Fixed(math.sqrt(2))),
            noisier=second / third,
        ),
        PlannedRelease(
            Products,
            "products",
            count=1,
            dim=dim * (dim + 1) // 2 + dim * info.num_classes,
            norm=math.sqrt(2) * info.num_nodes,
            node=Influence(moved=Fixed(math.sqrt(2)), links=k),
            edge=NOTHING,
        ),
    ]


# ------------------------------------------------------------------------------------- client side


class Silo(Host):
    """One silo with its subgraph; it answers three sums, and keeps nothing."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._settings, self._graph = site.method, self._shard.graph
        refuse_samples(self._graph)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Return the sum that is asked for."""
        if isinstance(request, AskSums):
            return ClassSums(sums=class_sums(self._graph)[None])
        if isinstance(request, AskCounts):
            counts = label_counts(self._graph, self._settings.links)
            whole = place_rows(counts, self._shard.node_ids, request.index_size)
            return LabelCounts(counts=whole[None])
        assert isinstance(request, AskMoments)
        own = request.counts[self._shard.node_ids]
        rows = self._node_rows(request.projection, own, request.stddev)
        return Products(products=pack_moments(sum_moments(self._graph, rows))[None])

    def _node_rows(self, projection: Tensor, counts: Tensor, stddev: float) -> Tensor:
        own = self._settings.own_features
        return describe_nodes(self._graph, projection, counts, stddev, own)

    def measure(self, release: Message) -> list[LocalScore]:
        """Score the predictions that the silo may publish."""
        assert isinstance(release, Model)
        own = release.counts[self._shard.node_ids]
        rows = self._node_rows(release.projection, own, release.stddev)
        logits = apply_head(rows, release.weights, self._graph.num_classes)
        graph = self._graph
        return [score_locally(self._shard.client, logits, graph.labels, graph.split)]


def apply_head(rows: Tensor, weights: Tensor, num_classes: int) -> Tensor:
    """Return the logits of rows under a flat linear head."""
    flat, split = weights.double(), rows.shape[1] * num_classes
    return rows @ flat[:split].reshape(rows.shape[1], -1) + flat[split:]


# ------------------------------------------------------------------------------------- server side


class Solver(Server):
    """Asks for three sums, and solves."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        self._info, self._settings, self._cohort = info, settings, cohort

    def round(self, number: int) -> Message:
        """Ask for the sums, and solve for the head."""
        first = require_replies(self._cohort.ask(AskSums(number=number), ClassSums), number)
        stddev = self._cohort.noise_stddev(first, "sums")
        rates = self._settings.encoding == "rates"
        projection = class_scores(first.sum("sums").double(), stddev, rates).float()
        ask = AskCounts(index_size=self._info.num_nodes)
        second = require_replies(self._cohort.ask(ask, LabelCounts), number)
        spread = self._cohort.noise_stddev(second, "counts")
        counts = second.sum("counts").float()
        request = AskMoments(projection=projection, counts=counts, stddev=spread)
        third = require_replies(self._cohort.ask(request, Products), number)
        stddev = self._cohort.noise_stddev(third, "products")
        moments = unpack_moments(third.sum("products"), feature_width(self._info.num_classes))
        constant = CONSTANT / feature_length()
        weights, offsets = solve_discriminant(moments, constant, stddev)
        flat = torch.cat([weights.flatten(), offsets]).float()
        return Model(projection=projection, counts=counts, stddev=spread, weights=flat)

    def state(self) -> State:
        """Return nothing: there is one round."""
        return {}

    def restore(self, state: State) -> None:
        """One round: there is nothing between rounds."""


class Published(Evaluator):
    """The predictions for all nodes, from the released counts."""

    def __init__(self, union: Graph, settings: Settings, device: torch.device) -> None:
        self._graph, self._settings = union, settings

    def score(self, release: Message) -> Scores:
        """Score the published predictions."""
        logits = self.answers(release)
        return score_logits(logits, self._graph.labels, self._graph.split)

    def answers(self, release: Message) -> Tensor:
        """Return the logits of all nodes, (N, C)."""
        assert isinstance(release, Model)
        graph, own = self._graph, self._settings.own_features
        rows = describe_nodes(graph, release.projection, release.counts, release.stddev, own)
        return apply_head(rows, release.weights, graph.num_classes)


def list_networks(settings: Settings, info: PublicInfo, seed: int) -> Networks:
    """Return the layout of the linear head."""
    shape = (feature_width(info.num_classes), info.num_classes)
    layers = (Layer("weights", shape), Layer("offsets", (info.num_classes,)))
    return {"head": Layout(layers, output=Matrix("weights", bias="offsets"))}


def suits_scene(scene: Scene) -> Suit | None:
    """Suit silos whose predictions others see."""
    if scene.unit != "node" or not scene.shown or not scene.ratios:
        return None
    if min(scene.ratios[0], scene.ratios[-1]) < LEAST_RATIO:
        return None
    return Suit(1, "predictions follow from released counts, so others may see them")


METHOD = Method(
    name="noisy_counts",
    summary="published predictions from released label counts: epsilon per node, one round",
    settings=Settings,
    messages=(AskSums, ClassSums, AskCounts, LabelCounts, AskMoments, Products, Model),
    replies={AskSums: ClassSums, AskCounts: LabelCounts, AskMoments: Products},
    release=Model,
    planned=plan_releases,
    networks=list_networks,
    make_host=Silo,
    make_server=Solver,
    make_evaluator=Published,
    answers_shown=lambda settings: settings.own_features,
    choose=choose_share,
    suits=suits_scene,
)
