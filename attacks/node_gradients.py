"""What one node's label would do to a model: its gradient, for networks whose equations are known.

For Z = A ReLU(A X W0) W1 and e = softmax(z_v) - y_v, with N the rows of A X at v's neighbours u:
dL/dW1 = (A H)_v^T e and dL/dW0 = sum_u A_vu (A X)_u^T ((e W1^T) * [H_u > 0]). A perceptron is the
same with A = I.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import View
from attacks.client_models import layout_of
from securefg.models.gcn import normalized_adjacency
from securefg.protocol.meanings import Layout


@dataclass(frozen=True)
class Known:
    """The graph as somebody knows it: global features, and edges among the nodes of a client."""

    features: Tensor
    edges: Tensor

    def within(self, nodes: Tensor) -> Known:
        """The same, without edges that leave these nodes."""
        inside = torch.zeros(len(self.features), dtype=torch.bool)
        inside[nodes] = True
        return Known(self.features, self.edges[:, inside[self.edges].all(0)])


@dataclass(frozen=True)
class Around:
    """Question and what a two-layer network reads around them.

    mixed    (A X) of the targets and their neighbours
    weights  A between the targets and these
    """

    mixed: Tensor
    weights: Tensor

    @classmethod
    def of(cls, layout: Layout, known: Known, targets: NDArray[np.int64]) -> Around:
        ids = torch.from_numpy(targets)
        if layout.form == "mlp2":
            return cls(known.features[ids], torch.eye(len(ids)))
        size = len(known.features)
        operator = normalized_adjacency(known.edges, size)
        chosen = torch.zeros(size, len(ids))
        chosen[ids, torch.arange(len(ids))] = 1
        columns = operator @ chosen  # A is symmetric
        near = columns.abs().sum(1).nonzero().flatten()
        reached = torch.zeros(size, len(near))
        reached[near, torch.arange(len(near))] = 1
        second = (operator @ reached).T.to_sparse_csr()
        return cls(second @ known.features, columns[near].T.contiguous())


def gradients(layout: Layout, vector: Tensor, around: Around, labels: Tensor) -> Tensor:
    """(targets, parameters): of every target's cross-entropy, at these weights."""
    assert layout.output is not None
    first, second = layout.part(vector, layout.inputs[0]), layout.part(vector, layout.output)
    before = around.mixed @ first
    gate, hidden = (before > 0).to(before.dtype), around.weights @ before.relu()
    error = (hidden @ second).softmax(-1)
    error[torch.arange(len(labels)), labels] -= 1
    back = error @ second.T
    found = torch.empty(len(labels), layout.size)
    cut = first.numel()
    for row, weights, own in zip(found, around.weights, back, strict=True):
        near = weights.nonzero().flatten()
        passed = weights[near, None] * gate[near] * own
        torch.mm(around.mixed[near].T, passed, out=row[:cut].view(first.shape))
    found[:, cut:] = (hidden[:, :, None] * error[:, None, :]).flatten(1)
    return found


def has_equations(view: View) -> str | None:
    """For `applies_to`: None where gradients of single nodes can be written down."""
    form = layout_of(view).form
    known = ("gcn2", "mlp2")
    return None if form in known else f"the equations are of {' or '.join(known)}, not of {form}"
