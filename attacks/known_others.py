"""Is this secret in a sum, to somebody who knows all the others? The adversary of the definition.

Differential privacy is a promise against an adversary who knows everybody but the target. It takes
off the sum what all others put in; under Gaussian noise of standard deviation s the log likelihood
ratio of "the target is in it" is (<rest, move> - |move|^2 / 2) / s^2, and no test, nor any order of
several targets, is better (Neyman and Pearson).
"""

from __future__ import annotations

import torch

from attacks.base import Array, View, not_seen
from attacks.questions import SumQuestion
from securefg.protocol.meanings import Meaning


def likelihoods(view: View, question: SumQuestion, need: Meaning) -> Array:
    """By target, how much likelier the sum is with it than without."""
    without, moves = known(question)
    return ratios(observed(view, need), without, moves)


def known(question: SumQuestion) -> tuple[Array, Array]:
    """A row per target: the sum without it, and what it adds."""
    count = len(question.ids)
    return question.sum_without.reshape(count, -1), question.moves.reshape(count, -1)


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


def ratios(seen: Array, without: Array, moves: Array) -> Array:
    """<seen - without, move> - |move|^2 / 2, row by row: the log likelihood ratio, times s^2."""
    found: Array = ((seen - without - moves / 2) * moves).sum(1)
    return found
