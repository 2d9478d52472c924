"""Influence: how far one node, or one edge, moves what its holders send.

A node is its features, its label and its links, wherever it is held; an edge, both of its ends'
knowledge of it. A method declares, for every release it plans, what one of them moves in ONE
holder's message; where it declares nothing, the whole message. Over all holders the moves add up:
noise that every holder draws for itself is met once per holder, so h of them compose; noise that
only the sum carries meets h moves in one vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from securefg.privacy.discrete_gaussian import rho_of_sum
from securefg.privacy.ledger import Reach
from securefg.privacy.rules import DistributedDiscrete, LocalGaussian, Plain, Rule, TrainedWithNoise


@dataclass(frozen=True)
class Influence:
    """What one node, or one edge, moves of one holder's message.

    rows    how many rows (samples, where the noise is in the training) it can change; 0 for
            nothing, None for all of them
    moved   where the method proves it: the L2 distance, in the value's own units, by which the
            message moves when a node with at most k links is removed (or one edge); grows with k
    links   the k for which the claim is made and noise is sized
    """

    rows: int | None = None
    moved: Callable[[int], float] | None = None
    links: int = 0

    @property
    def moved_l2(self) -> float | None:
        return None if self.moved is None else self.moved(self.links)


@dataclass(frozen=True)
class Fixed:
    """The same distance for any number of links."""

    distance: float

    def __call__(self, links: int) -> float:
        return self.distance


WHOLE_MESSAGE: Final = Influence()
NOTHING: Final = Influence(rows=0)


def reach(rule: Rule, influence: Influence, holders: int, dim: int, num_rows: int) -> Reach:
    """The noise that a node or an edge meets in one release, over all its holders.

    dim, num_rows  of one client's message

    A clipped message, or row, lies in a ball of radius C before and after, so whatever changes at
    the client moves it by at most 2C; r rows by 2C sqrt(r).
    """
    if influence.rows == 0 or holders == 0:
        return Reach(None, 0)
    if isinstance(rule, Plain):
        return Reach(None)
    if isinstance(rule, TrainedWithNoise):
        return _trained(rule, influence, holders)
    rows = 1
    if rule.per == "row":
        rows = num_rows if influence.rows is None else min(influence.rows, num_rows)
    removal = influence.moved is not None
    if isinstance(rule, LocalGaussian):
        distance = rule.widest * math.sqrt(rows)
        if influence.moved_l2 is not None:
            distance = min(distance, influence.moved_l2)
        return Reach(rule.stddev / distance, holders, removal=removal)
    plan = rule.plan_for(dim if rule.per == "message" else dim // num_rows)
    steps = rule.widest(plan) * math.sqrt(rows)
    if influence.moved_l2 is not None:
        whole = replace(plan, dim=rows * plan.dim)
        steps = min(steps, rule.moved_steps(influence.moved_l2, whole))
    rho = rho_of_sum(holders * steps, rule.local_stddev(plan), rule.least_noises, rows * plan.dim)
    return Reach(1 / math.sqrt(2 * rho), removal=removal)


def planned_reach(rule: Rule, influence: Influence, holders: int, num_rows: int) -> Reach:
    """As `reach`, before a grid is chosen: what rounding adds to the distance it adds to the noise
    that is sized for it."""
    if not isinstance(rule, DistributedDiscrete):
        return reach(rule, influence, holders, num_rows, num_rows)
    smooth = LocalGaussian(
        rule.clip_l2, rule.noise_multiplier, rule.per, rule.adjacency, rule.moved_l2
    )
    found = reach(smooth, influence, holders, num_rows, num_rows)
    if found.noise_multiplier is None:
        return found
    return replace(found, noise_multiplier=found.noise_multiplier / holders, times=1)


def _trained(rule: TrainedWithNoise, influence: Influence, holders: int) -> Reach:
    """One sample's gradient moves a step by C, r samples' by r C, whichever are drawn."""
    rows = rule.num_samples if influence.rows is None else min(influence.rows, rule.num_samples)
    if not rule.noise_multiplier:
        return Reach(None)
    sampling = rule.plan.sampling if rows == 1 else 1.0
    return Reach(rule.noise_multiplier / rows, holders, sampling, removal=True)
