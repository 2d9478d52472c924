"""The label that a client of one sample trained on, from the signs of its model's change.

A local step changes row c of W2 by -lr (y_hat_c - y_c) (A_kk m_k + sum_j A_kj m_j), and the means
of ReLUs are not negative: the row of the client's own class alone moves up. It holds for any number
of local steps, as long as samples of a client share a label. iDLG (Zhao, Mopuri and Bilen 2020).
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.client_models import MODEL, first_changes, layout_of
from attacks.questions import ClientLabels


def run(view: View, question: ClientLabels, rng: np.random.Generator) -> Array:
    """The class whose column moved up most in the first recorded round."""
    layout = layout_of(view)
    assert layout.output is not None
    _, changes = first_changes(view, question.ids)
    found: Array = layout.part(changes, layout.output).sum(1).argmax(1).double().numpy()
    return found


def _has_an_output(view: View) -> str | None:
    return None if layout_of(view).output else "which of the weights give classes is not known"


ATTACK = Attack(
    name="gradient_labels",
    summary="a labelled client's class, from the rows of W2 that its training moved up",
    source="iDLG, Zhao et al. 2020",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one round's uploaded models and the model sent before",
    adversaries=frozenset({"server"}),
    question=ClientLabels,
    floor=0.2,
    expected="every label, for any number of local steps",
    exposes="which class a client's people belong to: a diagnosis, a party, a fraud",
    stopped_by="masks; noise on the update",
    run=run,
    rounds=1,
    applies_to=_has_an_output,
)
