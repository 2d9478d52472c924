"""The messages of FedGL, their meanings, and how often each leaves at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from torch import Tensor

from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import PrivacyError
from securefg.methods.base import one_step_of_adam
from securefg.methods.fedgl.settings import Settings
from securefg.models.gcn import GcnShape, gcn_layout
from securefg.models.pseudo_graph import PseudoGraph, received_graph, require_ascending
from securefg.privacy.influence import NOTHING, Influence
from securefg.privacy.releases import PlannedRelease
from securefg.protocol import meanings
from securefg.protocol.bounds import exactly, reals, whole_numbers
from securefg.protocol.messages import Message, private, public, summable_rows
from securefg.settings.execution import TrainingSettings


def _added_graph(
    part: Literal["counts", "columns", "values"],
) -> Callable[[Settings], meanings.AddedGraph]:
    return lambda s: meanings.AddedGraph(part, scale=s.beta, degree=s.degree)


class Globals(Message, kind="fedgl.Globals"):
    """A message that the server distributes (line 16), with the pseudo graph in CSR form."""

    weights: Tensor = public("global model", means=meanings.Weights("network", change=False))
    index_size: int = public(
        "number of nodes in the global index", bounds=lambda s, p: exactly(p.num_nodes)
    )
    pseudo_labels: Tensor | None = public(
        "fused label per node, -1 where not sure",
        means=meanings.PseudoLabels(),
        bounds=lambda s, p: whole_numbers((p.num_nodes,), -1, p.num_classes - 1),
    )
    graph_counts: Tensor | None = public(
        "number of every node's neighbours in the pseudo graph",
        means=_added_graph("counts"),
        bounds=lambda s, p: whole_numbers((p.num_nodes,), 0, p.num_nodes),
    )
    graph_columns: Tensor | None = public(
        "neighbours in the pseudo graph, node after node",
        means=_added_graph("columns"),
        bounds=lambda s, p: whole_numbers((None,), 0, p.num_nodes - 1),
    )
    graph_values: Tensor | None = public(
        "weights of the pseudo graph's edges",
        means=_added_graph("values"),
        bounds=lambda s, p: reals((None,), 0.0, 1.0),
    )
    released: Tensor | None = summable_rows()

    @property
    def graph(self) -> PseudoGraph | None:
        """Return the pseudo graph, if there is one. Raise an error if its parts do not fit."""
        return received_graph(self.kind, self.graph_counts, self.graph_columns, self.graph_values)


class Update(Message, kind="fedgl.Update"):
    """An upload of a client (line 8). Arrays per node run over the global index, zero if the client
    does not hold the node, so that a sum needs no list of who holds what."""

    weights: Tensor = private(
        "sum",
        "trained model, or its change",
        means=lambda s: meanings.Weights("network", change=s.upload == "update"),
        weight="num_nodes",
    )
    num_nodes: Tensor | None = private(
        "sum", "number of nodes, by which clients are weighted", means=meanings.Size()
    )
    predictions: Tensor | None = private(
        "sum",
        "softmax outputs per node",
        means=meanings.Predictions("nodes"),
        rows="node",
        weight="num_nodes",
        holders="holds",
        adds_up=True,
    )
    embeddings: Tensor | None = private(
        "sum",
        "embedding per node",
        means=lambda s: meanings.NodeRows(s.embedding, "nodes", "network"),
        rows="node",
        weight="num_nodes",
        holders="holds",
    )
    holds: Tensor | None = private(
        "sum",
        "1 for every node that the client holds",
        means=meanings.Holdings(),
        rows="node",
        weight="num_nodes",
    )


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the private fields that leave, and how often at most."""
    nodes, rounds, is_weighted = info.num_nodes, training.rounds, settings.is_weighted_by_nodes
    numbers = GcnShape(info.num_features, settings.hidden, info.num_classes).num_parameters
    width = info.num_classes if settings.embedding == "final" else settings.hidden
    size = PlannedRelease(Update, "num_nodes", rounds, bound=nodes, edge=NOTHING)
    weights = replace(
        PlannedRelease(Update, "weights", rounds, numbers),
        discloses=one_step_of_adam(training, "adam") if is_weighted else None,
        relative_to="weights" if settings.upload == "model" else None,
    )
    rows = PlannedRelease(Update, "predictions", rounds, nodes * info.num_classes, nodes, bound=1.0)
    embeddings = PlannedRelease(Update, "embeddings", rounds, nodes * width, nodes)
    holds = replace(rows, field="holds", dim=nodes, node=Influence(rows=1), edge=NOTHING)
    sent = (
        (weights, True),
        (size, is_weighted),
        (rows, settings.pseudo_labels),
        (embeddings, settings.pseudo_graph),
        (holds, settings.counts_holders),
    )
    return [release for release, is_sent in sent if is_sent]


def list_networks(settings: Settings, info: PublicInfo, seed: int) -> meanings.Networks:
    """Return the layout of the one network: a GCN of two layers."""
    shape = GcnShape(info.num_features, settings.hidden, info.num_classes)
    return {"network": gcn_layout(shape, settings.dropout)}


def check_request(settings: Settings, public: PublicInfo, message: Message) -> None:
    """Raise where a request holds what the settings leave out, or no whole pseudo graph."""
    assert isinstance(message, Globals)
    sent = {"pseudo_labels": message.pseudo_labels, "pseudo_graph": (graph := message.graph)}
    for name, value in sent.items():
        if value is not None and not getattr(settings, name):
            raise PrivacyError(f"fedgl: the server sent what method.{name}: false leaves out")
    require_ascending(message.kind, graph)
