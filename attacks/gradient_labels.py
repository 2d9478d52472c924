"""The label that a GFL-APPNP client trained on, from the signs of its model's change.

A local step changes row c of W2 by -lr (y_hat_c - y_c) (A_kk m_k + sum_j A_kj m_j), and the means
of ReLUs are not negative: the row of the client's own class alone moves up. It holds for any number
of local steps, as long as samples of a client share a label. iDLG (Zhao, Mopuri and Bilen 2020).
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, Targets, View
from securefg.models.two_layer_mlp import MlpShape

SENT, UPLOADED = "gfl_appnp.Globals", "gfl_appnp.Update"


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    """The class whose row moved up most in the first recorded round."""
    uploads = view.best_rows(UPLOADED, "weights")
    number = uploads[0].round
    sent = [m.value for m in view.downloads(SENT, "weights") if m.round == number]
    if not sent:
        raise CannotAttack(f"the model sent in round {number} is not in the view")
    shape = MlpShape(view.public.num_features, view.settings.hidden, view.public.num_classes)
    before = 0.0 if view.settings.upload == "update" else sent[0].double()
    found = {}
    for message in (m for m in uploads if m.round == number):
        for client, weights in zip(message.clients.numbers(), message.value.double(), strict=True):
            found[client] = int(shape.split(weights - before).second.sum(1).argmax())
    if missing := [k for k in targets.ids.tolist() if k not in found]:
        raise CannotAttack(f"client {missing[0]} uploaded no model in round {number}")
    return np.array([found[k] for k in targets.ids.tolist()], np.float64)


ATTACK = Attack(
    name="gradient_labels",
    summary="a labelled client's class, from the rows of W2 that its training moved up",
    source="iDLG, Zhao et al. 2020",
    needs="one round's uploaded models and the model sent before",
    methods=frozenset({"gfl_appnp"}),
    adversaries=frozenset({"server"}),
    game="client_labels",
    floor=0.2,
    expected="every label, for any number of local steps",
    run=run,
    rounds=1,
)
