"""What rows a client's first layer was moved by: the span of its uploaded change.

Plain gradient descent moves a first matrix by sum_v d_v x_v^T, however many local steps there are,
so every row of the change lies in the span of the inputs x_v of nodes that a label reaches; weight
decay is taken off exactly. Where fewer nodes are reached than the layer has units and
inputs, the span is small, and a record either lies in it or does not (GRAIN, Drencheva et al. 2025,
for graphs; Petrov et al. 2024 for text). Adam scales every weight by itself and leaves no span.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.base import Array, CannotAttack, View
from attacks.client_models import MODEL, layout_of, sent_models
from attacks.first_layers import first_layers, without_decay

TRACE = 1e-3
"""Singular values below this share of the largest are rounding."""
INSIDE = 0.02
"""Of a record's length, what may lie outside the span if it is in it."""


@dataclass(frozen=True)
class Moved:
    """The change of one matrix over features, (units, inputs), without decay."""

    change: Array

    @property
    def rank(self) -> int:
        sizes = np.linalg.svd(self.change, compute_uv=False)
        return int((sizes > TRACE * sizes[0]).sum()) if sizes[0] > 0 else 0

    @property
    def tells(self) -> bool:
        """Whether lying in the span means anything: it is neither nothing nor everything."""
        return 0 < self.rank < min(int(size) for size in self.change.shape)

    def outside(self, rows: Array) -> Array:
        """The share of every row's length that lies outside the span."""
        _, sizes, right = np.linalg.svd(self.change, full_matrices=False)
        basis = right[: int((sizes > TRACE * max(sizes[0], 1e-300)).sum())]
        left = rows - (rows @ basis.T) @ basis
        length = np.linalg.norm(rows, axis=1)
        found: Array = np.where(
            length > 0, np.linalg.norm(left, axis=1) / np.maximum(length, 1e-12), 1.0
        )
        return found


def moved_by(view: View, clients: set[int]) -> dict[int, list[Moved]]:
    """A client's first change, matrix by matrix; everybody's mean where it was masked."""
    layout, sent = layout_of(view), sent_models(view)
    found: dict[int, list[Moved]] = {}
    for number, client, change, _ in first_layers(view):
        if client not in clients or client in found or number not in sent:
            continue
        units = [layout.part(sent[number], matrix).shape[-1] for matrix in layout.inputs]
        bare = without_decay(view, number, change)
        found[client] = [Moved(part) for part in np.split(bare, np.cumsum(units)[:-1])]
    if missing := sorted(clients - found.keys()):
        raise CannotAttack(f"client {missing[0]} uploaded nothing that can be read")
    return found


def reads_a_span(view: View) -> str | None:
    """For `applies_to`: None where some client's change has a span that says something."""
    layout = layout_of(view)
    if not layout.inputs:
        return "which of the weights multiply features is not known"
    if layout.optimizer != "sgd":
        return (
            "records are in the span of a change by plain gradient descent; here local training "
            f"is by {layout.optimizer or 'an unknown optimizer'}, which scales every weight alone"
        )
    if view.best_rows(MODEL)[0].noise is not None:
        return "noise on the update fills the span: every record lies as far outside as any other"
    clients = {k for m in view.best_rows(MODEL) for k in m.clients.numbers()}
    changes = [part for parts in moved_by(view, clients).values() for part in parts]
    if not any(part.tells for part in changes):
        units, inputs = changes[0].change.shape
        return (
            f"every client's change has full rank: labels reach as many nodes as the layer has "
            f"units ({units}) or inputs ({inputs}), or masks have added clients up"
        )
    return None
