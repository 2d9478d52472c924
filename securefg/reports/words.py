"""The words of a curve's page: defences, adversaries, attacks, figures with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable

from audits.findings.record import Finding
from securefg.foundation.errors import ConfigError
from securefg.foundation.interval import Interval
from securefg.foundation.units import percent
from securefg.privacy.defence import Defence, find_defence
from securefg.reports.curve_data import CurvePoint, Leak

_WITHOUT_NOISE = {
    "none": ("No defence", "every upload arrives as it is"),
    "secagg": ("Masked sums", "secure aggregation: the server learns sums alone; no epsilon"),
}

_ADVERSARIES = {
    "server": "the server",
    "wire": "an eavesdropper",
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

UNMET_WORDS = {"does_not_apply": "does not fit", "not_asked": "not asked"}


def verdict_words(finding: Finding) -> str:
    """Return the verdict in words. An attack that was not mounted says why, since nothing was left
    unknown by a try."""
    return UNMET_WORDS.get(finding.unmet) or VERDICT_WORDS.get(finding.verdict, finding.verdict)


def named_defence(name: str) -> type[Defence] | None:
    """Return the defence that a curve names, or None for a word of the curve, or if it cannot be
    imported."""
    try:
        return None if name in _WITHOUT_NOISE else find_defence(name)
    except ConfigError:
        return None


def defence_words(name: str) -> str:
    """Return a few words for a legend."""
    found = named_defence(name)
    return found.label if found else _WITHOUT_NOISE.get(name, (name.replace("_", " "), ""))[0]


def defence_note(name: str) -> str:
    """Return one line about a defence, or an empty text if it is not known."""
    found = named_defence(name)
    return found.about if found else _WITHOUT_NOISE.get(name, ("", ""))[1]


def adversary_words(name: str) -> str:
    """Return the adversary in words. `client:3` is client 3. `client:3,5` are two that put together
    what they see."""
    if name in _ADVERSARIES:
        return _ADVERSARIES[name]
    kind, _, who = name.partition(":")
    if kind in ("client", "clients") and who:
        return f"client {who}" if "," not in who else f"clients {who.replace(',', ', ')} together"
    return name.replace("_", " ")


def attack_words(name: str) -> str:
    """Return what the page calls an attack."""
    return name.replace("_", " ")


def setting_words(point: CurvePoint) -> str:
    """Return a defence at its strength."""
    return defence_words(point.defence) + strength_words(point)


def strength_words(point: CurvePoint) -> str:
    """Return the promised epsilon and its unit, or empty if nothing is promised."""
    if point.epsilon is None:
        return ""
    per = f" per\N{NO-BREAK SPACE}{point.unit}" if point.unit else ""
    return f", ε\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{strength_text(point.epsilon)}{per}"


def strength_text(epsilon: float | None) -> str:
    """Return a target that was set in words. It is no bound that was reached, so nothing is rounded
    up."""
    return "∞" if epsilon is None else f"{epsilon:,.10g}"


def cut_interval(interval: Interval, low: float = 0.0, high: float = 1.0) -> Interval:
    """Return the interval cut to [0, 1]. A share lies there, and Student's interval does not know
    that."""
    return Interval(
        value=interval.value,
        low=min(max(interval.low, low), high),
        high=min(max(interval.high, low), high),
    )


def accuracy_words(interval: Interval) -> str:
    """Return the share and, in brackets, its interval."""
    return _with_spread(percent(interval.value), accuracy_spread(interval))


def accuracy_spread(interval: Interval) -> str:
    """Return the interval of a share, or empty if it is a single value."""
    inside = cut_interval(interval)
    return f"{percent(inside.low)} to {percent(inside.high)}" if inside.low < inside.high else ""


def _with_spread(value: str, spread: str) -> str:
    return f"{value} ({spread})" if spread else value


def score_words(points: Iterable[CurvePoint]) -> str:
    """Return the name of the score that the runs of these points monitor."""
    names = {point.score for point in points if point.accuracy is not None}
    return names.pop() if len(names) == 1 else "score" if names else "accuracy"


def capitalise_words(words: str) -> str:
    """Return the words with a capital at the start."""
    return words[:1].upper() + words[1:]


def signed(value: float) -> str:
    """Return a number with its sign, three decimals at most, and a real minus."""
    text = f"{value:+.3f}" if abs(value) < 10 else f"{value:+,.0f}"
    return text.replace("-", "−")


def short_signed(value: float) -> str:
    """Return a signed number for an axis."""
    text = f"{value:+.2f}" if abs(value) < 10 else f"{value:+,.0f}"
    return "0" if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def gain_words(leak: Leak) -> str:
    """Return the gain and, in brackets, its interval."""
    if leak.gain is None:
        return "not measured"
    return _with_spread(signed(leak.gain.value), gain_spread(leak.gain))


def gain_spread(gain: Interval) -> str:
    """Return the interval of a gain, or empty if it is a single value."""
    return f"{signed(gain.low)} to {signed(gain.high)}" if gain.high > gain.low else ""


def largest_leak(point: CurvePoint) -> Leak | None:
    """Return the largest gain, as far as it was measured."""
    known = [leak for leak in point.leaks if leak.gain is not None]
    return max(known, key=lambda leak: leak.gain.value if leak.gain else -math.inf, default=None)


def measured_whole(point: CurvePoint) -> bool:
    """Return whether every measurement on this point held. Otherwise a small gain may be that of a
    weak attack, or not measured."""
    held = (leak.sound if leak.gain else leak.verdict != "INCONCLUSIVE" for leak in point.leaks)
    return bool(point.leaks) and all(held)


def by_whom(leak: Leak) -> str:
    """Return the attack and its adversary."""
    return f"{attack_words(leak.attack)} by {adversary_words(leak.adversary)}"


def axis_percent(share: float) -> str:
    """Return a percentage for an axis, with a digit only if its ticks lie closer than a point."""
    return f"{100 * share:.1f}".removesuffix(".0") + "%"
