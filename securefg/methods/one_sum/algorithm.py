"""Class scores of features from one noisy sum, for few labels. Links are used at home alone.

Every client holds a subgraph. One sum over all training nodes is asked for, once, under masks:

    1. M = sum x_v y_v^T                   |x_v| <= 1, |y_v| = 1
    2. P = class scores of features from M, times a weight that grows with signal over noise
    3. at home a client predicts its own nodes from P^T x_v, its own links and its own labels

One node moves M by at most 1, however many links it has: links are not in the sum. Epsilon per node
therefore covers a node's features and label whatever its degree, and an edge moves nothing. The
second sum of `two_sums` would carry links, but where few nodes train it drowns in its noise. The
whole budget is better spent here then.
"""

from __future__ import annotations

import math
from typing import Final

from torch import Tensor

from securefg.federation.evaluation import LocalScore, score_locally
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State, require_replies
from securefg.foundation.errors import ConfigError
from securefg.methods.at_home import predict_best
from securefg.methods.base import Method, Scene, Suit, require_all_clients
from securefg.methods.one_sum.settings import Settings
from securefg.methods.two_sums.features import class_sums, own_rows, refuse_samples
from securefg.models.discriminant import class_scores
from securefg.privacy.influence import NOTHING, Fixed, Influence
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import Bound, PublicSizes, reals
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Statistic
from securefg.protocol.messages import Message, private, public, round_number
from securefg.settings.execution import TrainingSettings

BY_CLASS: Final = Statistic("both", "by_class")

MOST: Final = 2.0
"""Weight of P where M stands far above its noise. It is half of this where both are level."""

LEAST_RATIO: Final = 3.0
"""From this signal over noise on the sum was above training alone on Johns Hopkins and Amherst."""


class AskSum(Message, kind="one_sum.AskSum"):
    """A request for the sum."""

    number: int = round_number()


class ClassSums(Message, kind="one_sum.ClassSums"):
    """A client's part of M."""

    sums: Tensor = private(
        "sum",
        "features of the training nodes, summed by class",
        means=BY_CLASS,
        constant=True,
    )


def _projection_bound(settings: Settings, public: PublicSizes) -> Bound:
    return reals((public.num_features, public.num_classes))


class Model(Message, kind="one_sum.Model"):
    """A released model: P, with its weight in it."""

    projection: Tensor = public(
        "P: features to class scores", means=BY_CLASS, bounds=_projection_bound
    )


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the sum, which leaves once."""
    if training.rounds != 1:
        raise ConfigError(
            f"training.rounds: found {training.rounds}; expected 1 for one_sum. One sum determines "
            "the model, and a second round would only spend epsilon"
        )
    require_all_clients("one_sum", training)
    return [
        PlannedRelease(
            ClassSums,
            "sums",
            count=1,
            dim=info.num_features * info.num_classes,
            norm=float(info.num_nodes),
            node=Influence(moved=Fixed(1.0)),
            edge=NOTHING,
        )
    ]


class Client(Host):
    """A client with its subgraph. It answers one sum, and predicts at home."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._graph = self._shard.graph
        refuse_samples(self._graph)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Return the client's part of the sum."""
        assert isinstance(request, AskSum)
        return ClassSums(sums=class_sums(self._graph)[None])

    def measure(self, release: Message) -> list[LocalScore]:
        """Return the scores of predictions at home."""
        assert isinstance(release, Model)
        graph = self._graph
        logits = predict_best(graph, own_rows(graph) @ release.projection.double())
        return [score_locally(self._shard.client, logits, graph.labels, graph.split)]


class SumServer(Server):
    """A server that asks for one sum, and releases class scores of features."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        self._settings, self._cohort = settings, cohort

    def round(self, number: int) -> Message:
        """Ask for the sum, and compute P."""
        replies = require_replies(self._cohort.ask(AskSum(number=number), ClassSums), number)
        noise = self._cohort.noise_stddev(replies, "sums")
        sums = replies.sum("sums").double()
        scores = class_scores(sums, noise, self._settings.encoding == "rates")
        return Model(projection=(weigh_scores(sums, noise) * scores).float())

    def state(self) -> State:
        """Return nothing: there is one round."""
        return {}

    def restore(self, state: State) -> None:
        """Do nothing, because a single round leaves nothing between rounds."""


def weigh_scores(sums: Tensor, noise: float) -> float:
    """Return the weight of class scores from M = sum x y^T: MOST r / (r + 1).

    r^2 is the energy of the centred rows beyond that of the noise, over that of the noise.
    """
    if noise == 0:
        return MOST
    prior = sums.sum(0).clamp_min(1e-9)
    prior = prior / prior.sum()
    centred = sums - sums.sum(1, keepdim=True) * prior
    num_classes = sums.shape[1]
    spread = num_classes - 2 + num_classes * float(prior.square().sum())
    expected = noise**2 * len(sums) * spread
    ratio = math.sqrt(max(float(centred.square().sum()) / expected - 1, 0.0))
    return MOST * ratio / (ratio + 1)


def suits_scene(scene: Scene) -> Suit | None:
    """Suit silos that keep predictions at home, if labels are too few for a sum over links."""
    if scene.unit != "node" or scene.shown or scene.lowest_ratio < LEAST_RATIO:
        return None
    why = f"the sum stands {scene.lowest_ratio:.1f} times above its noise, for any number of links"
    return Suit(1, why)


METHOD = Method(
    name="one_sum",
    summary="class scores from one noisy sum, links at home: epsilon per node, for few labels",
    settings=Settings,
    messages=(AskSum, ClassSums, Model),
    replies={AskSum: ClassSums},
    release=Model,
    planned=plan_releases,
    make_host=Client,
    make_server=SumServer,
    answers_shown=lambda settings: False,
    suits=suits_scene,
)
