"""Is this label in a sum, to somebody who knows all the others? The adversary of the definition.

Differential privacy is a promise against an adversary who knows everybody but the target. It takes
off the sum what all others put in, and looks along what the target would have put in: for Gaussian
noise that is the likelihood ratio, and no test is better.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, CannotAttack, Targets, View
from securefg.protocol.meanings import Meaning


def fitted_shares(view: View, targets: Targets, need: Meaning) -> Array:
    """How much of every target is in the sum: about 1 for those that are, 0 for the others."""
    if targets.sum_without is None or targets.moves is None:
        raise CannotAttack("the adversary does not know the other nodes")
    opened = view.sums(need)
    if opened:
        observed = opened[0].value.double()
    else:
        parts = view.readable(need)
        observed = sum(
            (message.value.double().sum(0) for message in parts), parts[0].value.new_zeros(())
        )
    moves = targets.moves.reshape(len(targets.ids), -1)
    left = observed.flatten().numpy() - targets.sum_without.reshape(moves.shape)
    return np.asarray((left * moves).sum(1) / np.square(moves).sum(1).clip(1e-12), np.float64)
