"""The conditions that a setting must meet to be recommended, each with the figure that decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from audits.curves.recommend import (
    LEAST_SEEDS,
    WORTH,
    certain_gain,
    claim_objection,
    epsilon_objection,
    is_unsound,
    paired_difference,
)
from audits.findings.record import COVERAGE
from securefg.foundation.interval import Interval
from securefg.foundation.units import percent, plural
from securefg.reports.curve_data import CurvePoint, Leak, Limits
from securefg.reports.words import attack_words, by_whom, signed, strength_text

UNREAD = "fields or places that no attack read"
State = Literal["met", "failed", "unknown"]


@dataclass(frozen=True)
class Condition:
    """A condition of a recommendation.

    state   failed if a measurement speaks against the setting, unknown if no measurement decides
    found   the figure that decides, in words
    """

    state: State
    name: str
    found: str


def check_conditions(point: CurvePoint, limits: Limits) -> tuple[Condition, ...]:
    """Return every condition of a recommendation with its state at a point."""
    if point.accuracy is None:
        return (Condition("unknown", "Run to the end", point.failed or "not run"),)
    return (
        *_check_promises(point),
        *_check_epsilon(point, limits),
        _check_leaks(point, limits),
        *_check_default_audit(point, limits),
        _check_worth(point, "training alone", point.alone_accuracies),
        _check_worth(point, "naming one class", point.no_skill),
        *_check_score(point, limits),
        _check_seeds(point),
        *_check_versions(point),
    )


def state_of(conditions: Sequence[Condition]) -> State:
    """Return the worst state: failed before unknown before met."""
    states = {condition.state for condition in conditions}
    return "failed" if "failed" in states else "unknown" if "unknown" in states else "met"


def _check_promises(point: CurvePoint) -> Iterator[Condition]:
    if point.violations:
        yield Condition("failed", "No promise is broken", "; ".join(point.violations))


def _check_epsilon(point: CurvePoint, limits: Limits) -> Iterator[Condition]:
    against = [*epsilon_objection(point, limits), *claim_objection(point)]
    if limits.epsilon is None:
        name = "The runs came to the epsilon that was asked for"
    else:
        per = f" per {limits.unit or point.unit}" if limits.unit or point.unit else ""
        name = f"Epsilon of at most {strength_text(limits.epsilon)}{per}"
    if against:
        yield Condition("failed", name, "; ".join(against))
    elif point.epsilon is not None:
        promised = f"{strength_text(point.epsilon)} per {point.unit}"
        yield Condition("met", name, f"promised: {promised}")


def _check_leaks(point: CurvePoint, limits: Limits) -> Condition:
    limit, name = limits.leak_gain, _name_leaks(limits)
    measured = [leak for leak in point.leaks if leak.gain is not None]
    if not measured:
        return Condition("unknown", name, "no attack was run")
    if leaking := [leak for leak in measured if _is_over(leak, limits)]:
        worst = max(leaking, key=certain_gain)
        return Condition("failed", name, _with_more(_gain_reach(worst), leaking))
    unsure = [leak for leak in point.leaks if is_unsound(leak)]
    if wide := [leak for leak in measured if not is_unsound(leak) and _may_exceed(leak, limit)]:
        worst = max(wide, key=_upper_end)
        return Condition("unknown", name, _with_more(_gain_reach(worst), wide + unsure))
    if unsure:
        return Condition("unknown", name, describe_unsure(unsure))
    largest = max(measured, key=_upper_end)
    return Condition("met", name, f"largest of {len(measured)}: {_gain_reach(largest)}")


def describe_unsure(leaks: Sequence[Leak]) -> str:
    """Return which measurements did not hold, and whether anything is read by no attack."""
    names = dict.fromkeys(attack_words(one.attack) for one in leaks if one.attack not in COVERAGE)
    gaps = [UNREAD] if any(leak.attack in COVERAGE for leak in leaks) else []
    held = [f"the measurement did not hold: {', '.join(names)}"] if names else []
    return "; ".join(held + gaps)


def _name_leaks(limits: Limits) -> str:
    if limits.leak_gain is not None:
        return f"No attack gains more than {signed(limits.leak_gain)}"
    return "No attack leaks" if limits.any else "Every measurement of an attack held"


def _is_over(leak: Leak, limits: Limits) -> bool:
    """Return whether an attack leaks for certain. Without any limit nothing is too much."""
    if is_unsound(leak) or not limits.any:
        return False
    if leak.leaking or leak.verdict == "LEAK":
        return True
    return limits.leak_gain is not None and (
        certain_gain(leak) > limits.leak_gain or (leak.most_exposed or 0.0) > limits.leak_gain
    )


def _may_exceed(leak: Leak, limit: float | None) -> bool:
    return limit is not None and _upper_end(leak) > limit


def _upper_end(leak: Leak) -> float:
    return leak.gain.high if leak.gain else 0.0


def _gain_reach(leak: Leak) -> str:
    assert leak.gain is not None
    exposed = leak.most_exposed
    beside = "" if exposed is None else f"; {signed(exposed)} for the most exposed target"
    reach = f", may be {signed(leak.gain.high)}" if leak.gain.high > leak.gain.low else ""
    return f"{by_whom(leak)} {signed(leak.gain.value)}{reach}{beside}"


def _with_more(text: str, leaks: Sequence[Leak]) -> str:
    return text if len(leaks) == 1 else f"{text}; {plural(len(leaks) - 1, 'other attack')} too"


def _check_default_audit(point: CurvePoint, limits: Limits) -> Iterator[Condition]:
    name = "Every attack that fits was run"
    if not limits.any:
        return
    if point.default_leaks is None:
        yield Condition("unknown", name, _describe_unasked(point))
    elif point.default_leaks:
        yield Condition("failed", name, "; ".join(point.default_leaks))
    else:
        yield Condition("met", name, "none of them leaks")


def _describe_unasked(point: CurvePoint) -> str:
    left = len(point.not_asked)
    return f"{plural(left, 'attack')} not asked for" if left else "not in every seed"


def _check_worth(point: CurvePoint, other: str, level: Sequence[float]) -> Condition:
    name = f"Better than {other}"
    if not level or len(level) < len(point.accuracies):
        return Condition("unknown", name, "not measured in every seed on the same data")
    gain = paired_difference(point.accuracies, level)
    reached = f"{percent(_mean_value(point.accuracies))} against {percent(_mean_value(level))}"
    if len(level) < 2:
        if gain.value < WORTH:
            return Condition("failed", name, f"{reached} (one seed)")
        return Condition("unknown", name, f"{reached}; one seed cannot tell")
    spread = f"{_points_text(gain.low)} to {_points_text(gain.high)} points"
    if gain.low > 0:
        return Condition("met", name, f"{reached} ({spread})")
    return Condition("failed" if gain.high < WORTH else "unknown", name, f"{reached} ({spread})")


def _points_text(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


def _mean_value(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _check_score(point: CurvePoint, limits: Limits) -> Iterator[Condition]:
    if limits.accuracy is None:
        return
    reached = point.accuracy or Interval(value=0.0, low=0.0, high=0.0)
    name = f"{point.score.capitalize()} of at least {percent(limits.accuracy)}"
    score_text = f"{percent(reached.value)}, may be {percent(max(reached.low, 0.0))}"
    if reached.low >= limits.accuracy:
        yield Condition("met", name, score_text)
    else:
        yield Condition("failed" if reached.high < limits.accuracy else "unknown", name, score_text)


def _check_seeds(point: CurvePoint) -> Condition:
    count = len(point.accuracies)
    state: State = "met" if count >= LEAST_SEEDS else "failed"
    return Condition(state, f"At least {LEAST_SEEDS} seeds", f"{count} of {LEAST_SEEDS}")


def _check_versions(point: CurvePoint) -> Iterator[Condition]:
    if len(point.made_by) != 1:
        found = ", ".join(point.made_by) or "not recorded"
        yield Condition("unknown", "Runs and audits of one version", found)
