"""Reasons against every setting of a curve that more measurements would not change.

A setting is ruled out if it promises no epsilon within the limits, if a promise was broken, if its
score is less than `WORTH` above those who send nothing, or if an attack gains more than the limit.
Of fewer seeds than a recommendation needs, the score is judged as it is. Of more, the upper end of
its difference is.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import cast

from securefg.foundation.interval import Interval, interval
from securefg.reports.curve.data import CurvePoint, Leak, Limits
from securefg.settings.privacy import Unit

FEW_SEEDS = 2
WORTH = 0.01
"""A common model that is less than a point better than training alone is not worth its risk."""


def reason_against(own: Sequence[CurvePoint], limits: Limits) -> str:
    """Return why no setting can be recommended; empty where one still could be."""
    promised = [point for point in own if not epsilon_objection(point, limits)]
    if not promised:
        return "; ".join(filter(None, (_no_promise(own, limits), _strongest(own))))
    reasons = {point.key: list(_refutations(point, limits)) for point in promised}
    if not all(reasons.values()):
        return ""
    worthless = [point for point in promised if _worthless(point)]
    if len(worthless) == len(promised):
        best = max(promised, key=reached_score)
        found = "no setting within the limits leaves a model worth having; the best has"
        return f"{found} {_worthless(best)}"
    return "; ".join(f"{_strength(point)}: {reasons[point.key][0]}" for point in promised)


def _refutations(point: CurvePoint, limits: Limits) -> Iterator[str]:
    yield from point.violations
    if worthless := _worthless(point):
        yield worthless
    limit = math.inf if limits.leak_gain is None else limits.leak_gain
    for leak in sorted(point.leaks, key=_surely, reverse=True):
        if _surely(leak) > limit:
            yield f"{leak.attack} by {leak.adversary} gains at least {_surely(leak):+.3f}"
        elif leak.sound and (leak.most_exposed or 0.0) > limit:
            yield (
                f"{leak.attack} by {leak.adversary} gains {leak.most_exposed:+.3f} on the most "
                "exposed target"
            )


def _surely(leak: Leak) -> float:
    """Return the least gain that is known, on average over the targets."""
    return 0.0 if leak.gain is None or not leak.sound else leak.gain.low


def _worthless(point: CurvePoint) -> str:
    """Return how the score compares with those who send nothing, if it is no better; else empty."""
    levels = {"training alone": point.alone_accuracies, "the most frequent class": point.no_skill}
    for name, level in levels.items():
        if level and len(level) == len(point.accuracies):
            gain, few = paired(point.accuracies, level), len(level) <= FEW_SEEDS
            if (gain.value if few else gain.high) < WORTH:
                spread = "" if few else f", {gain.low:+.3f} to {gain.high:+.3f}"
                reached = f"{point.score} {reached_score(point):.3f} at {_strength(point)}"
                other = f"{statistics.fmean(level):.3f} by {name}"
                return f"{reached}, {other} (difference {gain.value:+.3f}{spread})"
    return ""


def _no_promise(own: Sequence[CurvePoint], limits: Limits) -> str:
    found = [(epsilon, point) for point in own if (epsilon := _promised(point, limits)) is not None]
    if not found:
        return next(text for point in own for text in epsilon_objection(point, limits))
    least, point = min(found, key=lambda one: one[0])
    unit = limits.unit or point.unit
    return (
        f"no setting promises an epsilon of at most {limits.epsilon:g}: the smallest is "
        f"{least:.4g} per {unit}"
    )


def _strongest(own: Sequence[CurvePoint]) -> str:
    """Return the attack that gains most at the setting where attacks gain least."""
    if not all(point.leaks for point in own):
        return ""
    least = min((max(point.leaks, key=_surely) for point in own), key=_surely)
    if _surely(least) <= 0:
        return ""
    if len(own) > 1:
        return f"an attack gains at least {_surely(least):+.3f} at every setting"
    return f"{least.attack} by {least.adversary} gains at least {_surely(least):+.3f}"


def epsilon_objection(point: CurvePoint, limits: Limits) -> list[str]:
    """An epsilon per row speaks of no person: it is held to a limit that asks for rows alone."""
    if limits.epsilon is None:
        return []
    if point.epsilon is None:
        return ["no epsilon is promised"]
    unit = limits.unit or cast(Unit, point.unit)
    if unit == "row" and limits.unit is None:
        return ["epsilon is promised per row, which is no person (limits.unit)"]
    found = _promised(point, limits)
    if found is None:
        return [f"no epsilon is promised per {unit}"]
    return [] if found <= limits.epsilon else [f"epsilon is too large ({found:.4g} per {unit})"]


def _promised(point: CurvePoint, limits: Limits) -> float | None:
    """Return the epsilon that a setting promises per the unit of the limits."""
    unit = limits.unit or cast(Unit, point.unit)
    if point.epsilon is None or unit == point.unit:
        return point.epsilon
    claim = point.claims.get(unit)
    return claim.epsilon if claim else None


def paired(values: Sequence[float], others: Sequence[float]) -> Interval:
    """The mean difference, seed by seed, with its interval."""
    return interval([a - b for a, b in zip(values, others, strict=False)])


def reached_score(point: CurvePoint) -> float:
    return point.accuracy.value if point.accuracy else 0.0


def _strength(point: CurvePoint) -> str:
    return "no epsilon" if point.epsilon is None else f"epsilon {point.epsilon:g}"
