"""The global model on a graph, a client's or the union, complemented by the released one."""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.federation.evaluation import Evaluator, Scores, score_logits
from securefg.foundation.errors import ProtocolError
from securefg.methods.fedgl.messages import Globals
from securefg.models.gcn import Operator, SumOf, gcn, gcn_inputs
from securefg.models.pseudo_graph import PseudoGraph, projected
from securefg.models.sparse import SparseMatrix
from securefg.protocol.messages import Message
from securefg.settings.methods.fedgl import Settings


def complemented(
    adjacency: SparseMatrix, request: Globals, node_ids: Tensor, settings: Settings
) -> Operator:
    """The client's own operator, plus the pseudo graph projected to its nodes where one came."""
    parts = (request.graph_counts, request.graph_columns, request.graph_values)
    counts, columns, values = (part if part is None else part.to(node_ids.device) for part in parts)
    if counts is None or columns is None or values is None:
        return adjacency
    # A few large counts would be written out as that many entries.
    fit = len(columns) == len(values) and bool(((counts >= 0) & (counts <= len(columns))).all())
    if not fit or int(counts.long().sum()) != len(columns):
        raise ProtocolError(
            f"fedgl: a pseudo graph of {len(columns)} neighbours whose counts do not add up to them"
        )
    # PyTorch takes bytes for a mask, and repeats by no short integers.
    pseudo = PseudoGraph(counts.long(), columns.long(), values)
    return SumOf((adjacency, projected(pseudo, node_ids, settings.beta, settings.degree)))


class GlobalGoal(Evaluator):
    """The global model on the union graph, complemented as a client would complement its own."""

    def __init__(self, union: Graph, settings: Settings, device: torch.device) -> None:
        self._graph, self._settings, self._device = union, settings, device
        inputs = gcn_inputs(union, settings.hidden, device)
        self._shape, self._adjacency, self._features = inputs
        self._nodes = torch.arange(union.num_nodes, device=device)

    def score(self, release: Message) -> Scores:
        return score_logits(self.answers(release), self._graph.labels, self._graph.split)

    @torch.no_grad()
    def answers(self, release: Message) -> Tensor:
        assert isinstance(release, Globals)
        weights = self._shape.split(release.weights.to(self._device))
        adjacency = complemented(self._adjacency, release, self._nodes, self._settings)
        return gcn(weights, adjacency, self._features)[1].cpu()
