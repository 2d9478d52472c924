"""The words of a curve's page: defences, adversaries, attacks, figures with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable

from securefg.foundation.interval import Interval
from securefg.foundation.units import percent
from securefg.reports.curve.data import CurvePoint, Leak

_DEFENCES = {
    "none": "No defence",
    "secagg": "Masked sums",
    "local_gaussian": "Noise at each client",
    "distributed_discrete": "Noise under masks",
    "dp_sgd": "DP-SGD",
}

DEFENCE_NOTES = {
    "none": "every upload arrives as it is",
    "secagg": "secure aggregation: the server learns sums alone; no epsilon",
    "local_gaussian": "every client adds Gaussian noise to its own upload",
    "distributed_discrete": "discrete Gaussian noise of all clients together, under masks",
    "dp_sgd": "gradients are clipped and noised in training",
}

_ADVERSARIES = {
    "server": "the server",
    "wire": "whoever taps the wire",
    "outsider": "whoever gets the model",
    "-": "anybody",
}

VERDICT_WORDS = {
    "VIOLATION": "promise broken",
    "LEAK": "leak",
    "TRACE": "a trace",
    "NOT_DETECTED": "not detected",
    "INCONCLUSIVE": "not known",
}


def defence_words(name: str) -> str:
    return _DEFENCES.get(name, name.replace("_", " "))


def adversary_words(name: str) -> str:
    """`client:3` is client 3; `client:3,5` are two that put together what they see."""
    if name in _ADVERSARIES:
        return _ADVERSARIES[name]
    kind, _, who = name.partition(":")
    if kind in ("client", "clients") and who:
        return f"client {who}" if "," not in who else f"clients {who.replace(',', ', ')} together"
    return name.replace("_", " ")


def attack_words(name: str) -> str:
    return name.replace("_", " ")


def setting_words(point: CurvePoint) -> str:
    """A defence at its strength."""
    return defence_words(point.defence) + strength_words(point)


def strength_words(point: CurvePoint) -> str:
    if point.epsilon is None:
        return ""
    per = f" per\N{NO-BREAK SPACE}{point.unit}" if point.unit else ""
    return f", ε\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{strength_text(point.epsilon)}{per}"


def strength_text(epsilon: float | None) -> str:
    """A target that was set, not a bound that was reached: nothing to round up."""
    return "∞" if epsilon is None else f"{epsilon:,.10g}"


def within(interval: Interval, low: float = 0.0, high: float = 1.0) -> Interval:
    """A share lies between 0 and 1; Student's interval does not know that."""
    return Interval(
        value=interval.value,
        low=min(max(interval.low, low), high),
        high=min(max(interval.high, low), high),
    )


def accuracy_words(interval: Interval) -> str:
    inside = within(interval)
    if inside.low >= inside.high:
        return percent(interval.value)
    return f"{percent(interval.value)} ({percent(inside.low)} to {percent(inside.high)})"


def score_words(points: Iterable[CurvePoint]) -> str:
    """Return the name of the score that the runs of these points monitor."""
    names = {point.score for point in points if point.accuracy is not None}
    return names.pop() if len(names) == 1 else "score" if names else "accuracy"


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def signed(value: float) -> str:
    """With its sign, three decimals at most; a real minus."""
    text = f"{value:+.3f}" if abs(value) < 10 else f"{value:+,.0f}"
    return text.replace("-", "−")


def short_signed(value: float) -> str:
    """For an axis."""
    text = f"{value:+.2f}" if abs(value) < 10 else f"{value:+,.0f}"
    return "0" if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def gain_value(leak: Leak) -> str:
    """Return the mean gain of an attack in words, without its interval."""
    return "not measured" if leak.gain is None else signed(leak.gain.value)


def gain_words(leak: Leak) -> str:
    """Return the mean gain of an attack in words, with its interval where it has one."""
    if leak.gain is None or leak.gain.high <= leak.gain.low:
        return gain_value(leak)
    return f"{gain_value(leak)} ({signed(leak.gain.low)} to {signed(leak.gain.high)})"


def largest_leak(point: CurvePoint) -> Leak | None:
    """The largest gain, as far as it was measured."""
    known = [leak for leak in point.leaks if leak.gain is not None]
    return max(known, key=lambda leak: leak.gain.value if leak.gain else -math.inf, default=None)


def measured_whole(point: CurvePoint) -> bool:
    """Whether every measurement on this point held: else a small gain may be that of a weak attack,
    or what nobody measured."""
    held = (leak.sound if leak.gain else leak.verdict != "INCONCLUSIVE" for leak in point.leaks)
    return bool(point.leaks) and all(held)


def by_whom(leak: Leak) -> str:
    return f"{attack_words(leak.attack)} by {adversary_words(leak.adversary)}"


def axis_percent(share: float) -> str:
    """For an axis: with a digit only where its ticks lie closer than a point."""
    return f"{100 * share:.1f}".removesuffix(".0") + "%"
