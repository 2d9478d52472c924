"""The null control: the same attack on the same targets, with everything it saw made meaningless.

A gain over the prior that remains is not learnt from the run: the truth is in the targets, in their
order, or in what the adversary was declared to know, or the prior is too weak. Permuting the truth
under a fixed guess cannot show that: it is at chance even where the guess is the truth.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from attacks.base import Place, View
from securefg.foundation.interval import Interval, interval
from securefg.protocol.transcript import Seen

SURE = 3.29 / 1.96
"""From half the width of a 95 % interval to one of 99.9 %: one honest audit in a thousand fails."""

NOTHING = 1e-3


def at_chance(gain: Interval) -> bool:
    """Return whether a blind guess gains nothing over the prior, at 99.9 %. An attack that falls
    back to its prior has a gain without spread. A gain below `NOTHING` counts as none."""
    return sure_end(gain) <= NOTHING


def sure_end(gain: Interval) -> float:
    """Return the lower end at 99.9 % of a gain with an interval at 95 %."""
    return gain.value - SURE * (gain.value - gain.low)


def over_draws(gains: Sequence[Interval]) -> Interval:
    """Return the mean of blind gains on the same targets, each from messages drawn anew.

    Targets may share the luck of one draw, so the interval is over the draws where that is wider
    than over the targets.
    """
    mean = statistics.fmean(gain.value for gain in gains)
    spread = interval([gain.value for gain in gains])
    below = statistics.fmean(gain.value - gain.low for gain in gains)
    above = statistics.fmean(gain.high - gain.value for gain in gains)
    return Interval(
        value=mean, low=min(spread.low, mean - below), high=max(spread.high, mean + above)
    )


def blind_view(view: View, rng: np.random.Generator) -> View:
    """Return the view, with every number drawn anew from the numbers of the same field in any
    message.

    Whole numbers, which count and point, change places within their own message.
    """
    pools: dict[Place, list[Tensor]] = defaultdict(list)
    for seen in view.seen:
        for name, value in (seen.fields or {}).items():
            if isinstance(value, Tensor) and value.numel():
                pools[seen.header.kind, name].append(value)

    def drawn(value: Tensor, pool: list[Tensor]) -> Tensor:
        if not value.is_floating_point():  # counts and indices fit other fields as they stand
            order = rng.permutation(value.numel())
            return value.flatten()[torch.from_numpy(order)].reshape(value.shape)
        source = pool[int(rng.integers(len(pool)))].flatten()
        place = rng.integers(len(source), size=value.numel())
        return source[torch.from_numpy(place)].reshape(value.shape)

    def hidden(seen: Seen) -> Seen:
        if seen.fields is None:
            return seen
        fields = {
            name: drawn(value, pools[seen.header.kind, name])
            if isinstance(value, Tensor) and value.numel()
            else value
            for name, value in seen.fields.items()
        }
        return replace(seen, fields=fields)

    answers = None if view.answers is None else drawn(view.answers, [view.answers])
    return replace(
        view,
        seen=tuple(hidden(seen) for seen in view.seen),
        released={name: drawn(value, [value]) for name, value in view.released.items()},
        answers=answers,
        query=None
        if view.query is None or answers is None
        else lambda nodes, features: drawn(answers, [answers]),
    )
