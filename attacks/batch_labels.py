"""Which classes a client's samples have, from the output layer of one recorded update."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.labels import has_an_output
from attacks.models import MODEL, first_changes, layout_of
from attacks.questions import TrainedClasses


def batch_labels(view: View, question: TrainedClasses, rng: np.random.Generator) -> Array:
    """Return scores of pairs k C + c: has a sample of client k the class c?

    A step moves the weights into class c by sum_i (y_ic - p_ic) h_i, and rectified h are not
    negative. A class that a sample has is pulled up, and all other classes are pushed down
    (Yin et al. 2021, Wainakh et al. 2022). The bias tells it too, where there is one.
    """
    layout, classes = layout_of(view), view.public.num_classes
    assert layout.output is not None
    clients = np.unique(question.ids // classes)
    _, changes = first_changes(view, clients)
    moved = layout.part(changes, layout.output).sum(-2).numpy()
    if layout.output.bias is not None:
        moved = _in_units(moved) + _in_units(layout.layer(changes, layout.output.bias).numpy())
    rows = np.searchsorted(clients, question.ids // classes)
    found: Array = _in_units(moved)[rows, question.ids % classes]
    return found + 1e-9 * rng.normal(size=len(found))


def _in_units(moved: Array) -> Array:
    """Return every client's moves over their length, so that clients can be compared."""
    lengths = np.linalg.norm(moved, axis=1, keepdims=True)
    found: Array = moved / np.maximum(lengths, 1e-300)
    return found


def is_recorded_elsewhere(view: View) -> str | None:
    """Return None (for `applies_to`) for a recording of another framework's run."""
    if view.public.num_nodes:
        return "the question is about recordings of other frameworks"
    return has_an_output(view)


BATCH_LABELS = Attack(
    name="batch_labels",
    summary="which classes a client's samples have, from the output layer of its first update",
    source="Yin et al. 2021; Wainakh et al. 2022",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one round's uploaded models and the model sent before",
    adversaries=frozenset({"server"}),
    question=TrainedClasses,
    floor=0.1,
    expected="AUC 0.95 and more for one step on a batch with fewer samples than classes",
    exposes="which classes are among the samples of one client",
    stopped_by="masks; noise on the update; batches with every class",
    run=batch_labels,
    rounds=1,
    applies_to=is_recorded_elsewhere,
)

ATTACKS = (BATCH_LABELS,)
