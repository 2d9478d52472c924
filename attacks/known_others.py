"""Is this secret in a sum, to somebody who knows all the others? The adversary of the definition.

Differential privacy is a promise against an adversary who knows everybody but the target. It takes
off the sum what all others put in, and looks along what the target would have put in: for Gaussian
noise that is the likelihood ratio, and no test is better.
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import Array, CannotAttack, Targets, View, not_seen
from securefg.protocol.meanings import Meaning


def fitted_shares(view: View, targets: Targets, need: Meaning) -> Array:
    """How much of every target is in the sum: about 1 for those that are, 0 for the others."""
    without, moves = known(targets)
    return shares(observed(view, need), without, moves)


def known(targets: Targets) -> tuple[Array, Array]:
    """A row per target: the sum without it, and what it adds."""
    if targets.sum_without is None or targets.moves is None:
        raise CannotAttack("the adversary does not know the other nodes")
    count = len(targets.ids)
    return targets.sum_without.reshape(count, -1), targets.moves.reshape(count, -1)


def observed(view: View, need: Meaning) -> Array:
    """The sum that was opened, that single uploads make, or that the release holds."""
    opened, released = view.sums(need), view.release(need)
    plain = [message for message in view.uploads(need) if not message.masked]
    if opened:
        value = opened[0].value.double()
    elif plain:
        value = torch.cat([message.value.double() for message in plain]).sum(0)
    elif released is not None:
        value = released.double()
    else:
        raise not_seen(need)
    found: Array = value.flatten().numpy()
    return found


def shares(seen: Array, without: Array, moves: Array) -> Array:
    """<seen - without, move> / |move|^2, row by row."""
    along = ((seen - without) * moves).sum(1)
    found: Array = along / np.square(moves).sum(1).clip(1e-12)
    return found
