"""The server by itself: it spreads the labels that it knows over the graph that it knows.

The baseline of methods whose server is given the graph and the training labels (nFedGNN): no client
is asked for anything, so nothing leaks, and what clients upload is worth what it adds to this.

    Z = sum_i a (1 - a)^i A_hat^i Y,    A_hat = D^-1/2 (A + I) D^-1/2

With `coordinates`, a regression of the known labels on spectral coordinates multiplies the shares.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import one_hot

from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State
from securefg.foundation.errors import ProtocolError
from securefg.methods.alone.algorithm import plan_releases
from securefg.methods.base import Method
from securefg.methods.label_propagation.settings import Settings
from securefg.methods.nfedgnn.algorithm import NodeGoal
from securefg.methods.nfedgnn.messages import Predictions
from securefg.models.appnp import propagate_hidden
from securefg.models.gcn import normalized_adjacency
from securefg.models.graph_coordinates import (
    multiply_shares,
    regress_classes,
    spectral_coordinates,
)
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings

LEAST = 1e-12
"""Scores are released as logarithms; a node that no label reaches is at this level everywhere."""


class Silent(Host):
    """A host of clients who are asked for nothing."""

    def __init__(self, site: Site[Settings]) -> None:
        """Keep nothing of the site."""

    def handle(self, request: Message, turn: Turn) -> Message:
        """Refuse: no client is asked for anything."""
        raise ProtocolError(f"label_propagation asks clients for nothing; asked {request.kind}")


class Propagator(Server):
    """A server that solves in one round."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        assert info.edge_index is not None
        assert info.known_labels is not None
        known = known_rows(info.known_labels, info.num_classes).to(info.device)
        adjacency = normalized_adjacency(info.edge_index, info.num_nodes).to(info.device)
        scores = propagate_hidden(adjacency, known, settings.teleport, settings.steps)
        self._scores = sharpen_scores(scores, info, settings) if settings.coordinates else scores

    def round(self, number: int) -> Predictions:
        """Release the scores, which follow from the graph and the known labels."""
        return Predictions(logits=self._scores.clamp_min(LEAST).log().cpu())

    def state(self) -> State:
        """Return nothing: the scores follow from what the server was given."""
        return {}

    def restore(self, state: State) -> None:
        """Do nothing, because the scores follow from what the server was given."""


def sharpen_scores(scores: Tensor, info: PublicInfo, settings: Settings) -> Tensor:
    """Return the product of propagated shares and those of a regression on coordinates."""
    assert info.edge_index is not None
    assert info.known_labels is not None
    rows = spectral_coordinates(
        info.edge_index, info.num_nodes, settings.coordinates, settings.teleport
    )
    regressed = regress_classes(rows, info.known_labels, info.num_classes)
    total = scores.sum(1, keepdim=True).clamp_min(LEAST)
    product = multiply_shares((scores / total).double().cpu(), regressed)
    return product.to(scores)


def known_rows(classes: Tensor, num_classes: int) -> Tensor:
    """Return Y: a row per node, 1 at its class, or zero if the class is not known (-1)."""
    known = classes >= 0
    return one_hot(classes.clamp_min(0), num_classes).float() * known[:, None]


METHOD = Method(
    name="label_propagation",
    summary="the server by itself spreads known labels over the known graph; clients send nothing",
    settings=Settings,
    messages=(Predictions,),
    release=Predictions,
    planned=plan_releases,
    make_host=Silent,
    make_server=Propagator,
    make_evaluator=NodeGoal,
    batched=True,
    server_knows=frozenset({"graph", "labels"}),
)
