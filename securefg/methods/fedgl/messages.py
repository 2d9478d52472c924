"""What FedGL sends, what it means, and how often it leaves at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from securefg.federation.roles import (
    PublicInfo,
)
from securefg.foundation.errors import PrivacyError, ProtocolError
from securefg.methods.base import refused_weighting
from securefg.models.gcn import GcnShape, gcn_layout
from securefg.privacy.influence import NOTHING, Influence
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import (
    Bound,
    PublicSizes,
    exactly,
    reals,
    truths,
    whole_numbers,
)
from securefg.protocol.meanings import (
    AddedGraph,
    Holdings,
    Networks,
    NodeRows,
    Predictions,
    PseudoLabels,
    Size,
    Weights,
)
from securefg.protocol.messages import Message, private, public
from securefg.settings.execution import TrainingSettings
from securefg.settings.methods.fedgl import Settings


def _all_nodes(settings: Settings, public: PublicSizes) -> Bound:
    return exactly(public.num_nodes)


def _added(part: Literal["counts", "columns", "values"]) -> Callable[[Settings], AddedGraph]:
    return lambda s: AddedGraph(part, scale=s.beta, degree=s.degree)


class Globals(Message, kind="fedgl.Globals"):
    """What the server distributes (line 16); the pseudo graph in CSR form."""

    weights: Tensor = public("global model", means=Weights("network", change=False))
    index_size: int = public("number of nodes in the global index", bounds=_all_nodes)
    pseudo_labels: Tensor | None = public(
        "fused label per node, -1 where not sure",
        means=PseudoLabels(),
        bounds=lambda s, p: whole_numbers((p.num_nodes,), -1, p.num_classes - 1),
    )
    graph_counts: Tensor | None = public(
        "number of every node's neighbours in the pseudo graph",
        means=_added("counts"),
        bounds=lambda s, p: whole_numbers((p.num_nodes,), 0, p.num_nodes),
    )
    graph_columns: Tensor | None = public(
        "neighbours in the pseudo graph, node after node",
        means=_added("columns"),
        bounds=lambda s, p: whole_numbers((None,), 0, p.num_nodes - 1),
    )
    graph_values: Tensor | None = public(
        "weights of the pseudo graph's edges",
        means=_added("values"),
        bounds=lambda s, p: reals((None,), 0.0, 1.0),
    )
    released: Tensor | None = public(
        "nodes with enough holders for their sums to be uploaded",
        means=Holdings(),
        constant=True,
        bounds=lambda s, p: truths((p.num_nodes,)),
    )


class Update(Message, kind="fedgl.Update"):
    """What a client uploads (line 8). Arrays per node run over the global index, zero where the
    client does not hold the node, so that a sum needs no list of who holds what."""

    weights: Tensor = private(
        "sum",
        "trained model, or its change",
        means=lambda s: Weights("network", change=s.upload == "update"),
        weight="num_nodes",
    )
    num_nodes: Tensor | None = private(
        "sum", "number of nodes, by which clients are weighted", means=Size(), constant=True
    )
    predictions: Tensor | None = private(
        "sum",
        "softmax outputs per node",
        means=Predictions("nodes"),
        rows="node",
        weight="num_nodes",
    )
    embeddings: Tensor | None = private(
        "sum",
        "embedding per node",
        means=lambda s: NodeRows(s.embedding, "nodes", "network"),
        rows="node",
        weight="num_nodes",
    )
    holds: Tensor | None = private(
        "sum",
        "1 for every node that the client holds",
        means=Holdings(),
        rows="node",
        weight="num_nodes",
    )


class Count(Message, kind="fedgl.Count"):
    """Asks who holds which node, before any sum over nodes is asked for under masks."""

    index_size: int = public("number of nodes in the global index", bounds=_all_nodes)


class Held(Message, kind="fedgl.Holdings"):
    """The sums that never change. They are opened once in a run.

    No field is a constant of the client at each node that it holds, other than 1. Subset sums
    of such constants show who holds the node.
    """

    holds: Tensor | None = private(
        "sum",
        "1 for every node that the client holds",
        means=Holdings(),
        rows="node",
        constant=True,
    )
    num_nodes: Tensor | None = private(
        "sum", "number of nodes, by which clients are weighted", means=Size(), constant=True
    )


def planned(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Which private fields leave, how often at most."""
    shape = GcnShape(info.num_features, settings.hidden, info.num_classes)
    nodes, rounds = info.num_nodes, training.rounds
    width = info.num_classes if settings.embedding == "final" else settings.hidden
    releases = {
        "weights": PlannedRelease(
            Update,
            "weights",
            rounds,
            shape.num_parameters,
            not_bare=refused_weighting(settings.is_weighted_by_nodes, training, "adam"),
        ),
        "num_nodes": PlannedRelease(
            Update, "num_nodes", rounds, bound=nodes, edge=NOTHING, bare=False
        ),
        "predictions": PlannedRelease(
            Update, "predictions", rounds, nodes * info.num_classes, nodes, bound=1.0, whole=True
        ),
        "embeddings": PlannedRelease(
            Update, "embeddings", rounds, nodes * width, nodes, whole=True
        ),
        "holds": PlannedRelease(
            Update,
            "holds",
            rounds,
            nodes,
            nodes,
            bound=1.0,
            node=Influence(rows=1),
            edge=NOTHING,
            bare=False,
        ),
    }
    sent = {
        "weights": True,
        "num_nodes": settings.is_weighted_by_nodes,
        "predictions": settings.pseudo_labels,
        "embeddings": settings.pseudo_graph,
        "holds": needs_holders(settings),
    }
    # The census is taken only where sums carry no noise, so no noise is planned for it.
    holds = PlannedRelease(
        Held,
        "holds",
        0,
        nodes,
        nodes,
        bound=1.0,
        node=Influence(rows=1),
        edge=NOTHING,
        bare=True,
        whole=True,
    )
    size = PlannedRelease(Held, "num_nodes", 0, bound=nodes, edge=NOTHING, bare=True)
    census = [holds] * settings.uploads_rows + [size] * settings.is_weighted_by_nodes
    return [release for name, release in releases.items() if sent[name]] + census


def networks(settings: Settings, info: PublicInfo, seed: int) -> Networks:
    shape = GcnShape(info.num_features, settings.hidden, info.num_classes)
    return {"network": gcn_layout(shape, settings.dropout)}


def check(settings: Settings, public: PublicInfo, bare: bool, message: Message) -> None:
    """Raise where a request holds what the settings leave out, asks for rows of nodes without a
    count of their holders, or has a pseudo graph that is no CSR matrix."""
    if not isinstance(message, Globals):
        return
    graph = (message.graph_counts, message.graph_columns, message.graph_values)
    sent = {
        "pseudo_labels": message.pseudo_labels is not None,
        "pseudo_graph": any(part is not None for part in graph),
    }
    for name, was_sent in sent.items():
        if was_sent and not getattr(settings, name):
            raise PrivacyError(f"fedgl: the server sent what method.{name}: false leaves out")
    if bare and (settings.pseudo_labels or settings.pseudo_graph) and message.released is None:
        raise PrivacyError("fedgl: rows of nodes were asked for without a count of holders")
    counts, columns, values = graph
    if counts is None and columns is None and values is None:
        return
    if counts is None or columns is None or values is None:
        raise ProtocolError("fedgl.Globals.graph_counts: found a part; expected the whole graph")
    check_rows_of_graph(counts, columns, values)


def check_rows_of_graph(counts: Tensor, columns: Tensor, values: Tensor) -> None:
    """Raise unless every row's neighbours ascend, and the counts add up to them."""
    if len(columns) != len(values) or int(counts.long().sum()) != len(columns):
        raise ProtocolError(
            f"fedgl.Globals.graph_counts: found a sum of {int(counts.long().sum())} for "
            f"{len(columns)} neighbours and {len(values)} weights; expected the same of all"
        )
    rises = columns[1:] > columns[:-1]
    starts = counts.long().cumsum(0)[:-1]
    rises[starts[(starts > 0) & (starts < len(columns))] - 1] = True  # from one row to the next
    if not bool(rises.all()):
        raise ProtocolError(
            "fedgl.Globals.graph_columns: found neighbours out of order; expected ascending ones"
        )


def has_census(settings: Settings) -> bool:
    """Whether masked sums need a census: of a node's holders, or of all clients' nodes."""
    return settings.uploads_rows or settings.is_weighted_by_nodes


def needs_holders(settings: Settings) -> bool:
    return settings.uploads_rows and settings.fusion == "renormalised"
