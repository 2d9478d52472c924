"""The first screen of a curve: which setting may be used, by which conditions, at which price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from audits.curves.conditions import Condition, State, check_conditions, state_of
from audits.curves.doubts import list_doubts, unknown_sentence
from audits.curves.marks import Marks, report_link
from audits.curves.recommend import nearest_point
from securefg.foundation.interval import Interval, interval
from securefg.foundation.units import epsilon_text, percent, plural
from securefg.reports.curve_data import Choice, CurveData, CurvePoint, Limits, Series
from securefg.reports.words import (
    attack_words,
    defence_words,
    largest_leak,
    measured_whole,
    setting_words,
    signed,
    strength_text,
)
from securefg.settings.privacy import Unit

UNITS: dict[str, str] = {
    "client": "one client's whole participation",
    "row": "one row of an upload, which is no person",
    "node": "one node with its features, label and links",
    "edge": "one link",
}
MOST_ROWS = 12
"""More settings than these are left to the table of all points."""


@dataclass(frozen=True)
class Row:
    """A setting in the table of the first screen."""

    setting: str
    anchor: str
    score: str
    gain: str
    promise: str
    state: State
    is_shown: bool


@dataclass(frozen=True)
class Card:
    """An answer for one series.

    tone        met if a setting is recommended, unmet if none is, free if there are no limits
    badge       the answer in one to three words
    head        the setting that the conditions are about, with its score
    words       why no setting is recommended, empty if one is
    conditions  of that setting
    price       the cost of protection, in words
    unit        the unit of the promise, and the promise per other units
    missing     measurements that are missing, each with its command
    unknown     the sentence on everything that is not known
    doubts      the details of it
    promised    the head of the column of promises
    """

    series: str
    about: str
    tone: str
    badge: str
    head: str
    words: str = ""
    conditions: tuple[Condition, ...] = ()
    price: str = ""
    unit: str = ""
    missing: tuple[str, ...] = ()
    unknown: str = ""
    doubts: tuple[str, ...] = ()
    promised: str = ""
    rows: tuple[Row, ...] = ()
    left_out: int = 0
    anchor: str = ""
    runs: tuple[tuple[str, str], ...] = ()


def make_cards(data: CurveData, marks: Marks) -> tuple[Card, ...]:
    """Return one card per series."""
    series = {one.name: one for one in data.series}
    return tuple(_make_card(data, series[choice.series], choice, marks) for choice in data.choices)


def limit_words(limits: Limits) -> str:
    """Return the limits as a sentence."""
    limit_parts = []
    if limits.epsilon is not None:
        per = f" per {limits.unit}" if limits.unit else ", per the unit that each setting names"
        limit_parts.append(f"a promised epsilon of at most {strength_text(limits.epsilon)}{per}")
    if limits.leak_gain is not None:
        limit_parts.append(f"no attack that may gain more than {limits.leak_gain:g} over its prior")
    if limits.accuracy is not None:
        limit_parts.append(f"a score of at least {percent(limits.accuracy)}")
    if not limit_parts:
        return "No limits were set: the best setting is named, and none is recommended."
    return f"Limits: {' and '.join(limit_parts)}. A measurement that is missing counts as failed."


def _make_card(data: CurveData, series: Series, choice: Choice, marks: Marks) -> Card:
    clients = f", {plural(series.clients, 'client')}" if series.clients else ""
    about = f"{series.method} on {series.dataset}{clients}"
    series_points = [p for p in data.points if p.series == series.name and p.accuracy is not None]
    if not series_points:
        words = _readable_words(choice.words, data)
        return Card(series.name, about, "unmet", "NONE YET", "No setting was run to its end", words)
    chosen = next(
        (p for p in series_points if p.key == choice.point and _may_stand(p, data.limits)), None
    )
    point = chosen or nearest_point(series_points, data.limits)
    tone, badge = _choice_answer(data.limits, choice, chosen)
    unit = _promised_unit(data.limits, series_points)
    shown = series_points if len(series_points) <= MOST_ROWS else [point]
    return Card(
        series.name,
        about,
        tone,
        badge,
        f"{'' if chosen else 'Closest: '}{setting_words(point)}: {_score_text(point)}",
        "" if chosen else _missing_reason(choice, data),
        check_conditions(point, data.limits),
        _price_text(data, series, point),
        _unit_words(point),
        choice.missing,
        unknown_sentence(point),
        list_doubts(data, series, point),
        f"Promised ε per {unit}" if unit else "Promised ε",
        tuple(_make_row(one, data.limits, unit, marks, one is point) for one in shown),
        len(series_points) - len(shown),
        marks.row_anchor(point),
        tuple((f"seed {run.seed}", report_link(run)) for run in point.runs),
    )


def _may_stand(point: CurvePoint, limits: Limits) -> bool:
    """Return whether a chosen point meets every condition. Without limits no point is
    recommended."""
    return not limits.any or state_of(check_conditions(point, limits)) == "met"


def _choice_answer(limits: Limits, choice: Choice, chosen: CurvePoint | None) -> tuple[str, str]:
    if chosen is None:
        return "unmet", "NONE" if choice.concluded else "NONE YET"
    return ("met", "THIS ONE") if limits.any else ("free", "NO LIMITS SET")


def _missing_reason(choice: Choice, data: CurveData) -> str:
    """Return why no setting is recommended. The conditions of the nearest setting tell what it
    lacks."""
    words = choice.words.removeprefix("no setting is recommended").lstrip(":; ")
    if not choice.concluded and " comes nearest" in words:
        return ""
    return _readable_words(words, data)


def _score_text(point: CurvePoint) -> str:
    return f"{percent(point.accuracy.value if point.accuracy else None)} {point.score}"


def _price_text(data: CurveData, series: Series, point: CurvePoint) -> str:
    """Return the cost in points, and the levels that it compares with."""
    plain = next((p for p in data.points if p.series == point.series and p.defence == "none"), None)
    levels = [
        ("the most frequent class", interval(point.no_skill) if point.no_skill else None),
        ("each client alone", series.alone),
        ("all data in one place", series.centralised),
    ]
    beside = ", ".join(f"{name} {percent(found.value)}" for name, found in levels if found)
    cost = _cost_text(plain, point)
    return " ".join(filter(None, (cost, f"To compare: {beside}." if beside else "")))


def _cost_text(plain: CurvePoint | None, point: CurvePoint) -> str:
    if plain is None or plain.accuracy is None:
        return "The same training without a defence was not run, so the price is not known."
    if plain is point:
        return "This setting has no defence, so it costs nothing and protects nothing."
    pairs = zip(point.accuracies, plain.accuracies, strict=False)
    changes = [100 * (defended - open_) for defended, open_ in pairs]
    if not changes:
        return "No seed was run with and without the defence, so the price is not known."
    change_interval = interval(changes)
    spread = (
        f" ({_tenths_text(change_interval.low)} to {_tenths_text(change_interval.high)} at 95%, "
        "paired by seed)"
        if len(changes) > 1
        else " (one seed)"
    )
    reached = f"{percent(plain.accuracy.value)} without a defence, {_score_text(point)} with it"
    return f"{reached}: {_tenths_text(change_interval.value)} points{spread}."


def _tenths_text(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _unit_words(point: CurvePoint) -> str:
    """Return what the promise covers, and the promise per every other unit."""
    if point.epsilon is None:
        return "Nothing is promised: this setting has no epsilon."
    covers = UNITS.get(point.unit, point.unit)
    cover_text = f"Epsilon {strength_text(point.epsilon)} covers {covers}."
    others = [
        _other_unit(unit, claim.epsilon)
        for unit, claim in point.claims.items()
        if unit != point.unit
    ]
    if not others:
        return cover_text
    return f"{cover_text} The same noise gives {' and '.join(others)}."


def _other_unit(unit: Unit, epsilon: float | None) -> str:
    return f"{epsilon_text(epsilon)} per {unit}"


def _make_row(point: CurvePoint, limits: Limits, unit: str, marks: Marks, is_shown: bool) -> Row:
    leak = largest_leak(point)
    return Row(
        _short_setting(point),
        marks.row_anchor(point),
        percent(point.accuracy.value if point.accuracy else None),
        "not measured" if leak is None or leak.gain is None else _gain_reach(leak.gain, point),
        _promise_text(point, unit),
        state_of(check_conditions(point, limits)),
        is_shown,
    )


def _short_setting(point: CurvePoint) -> str:
    """Return a setting without the unit, which the column of promises names."""
    strength = "" if point.epsilon is None else f", ε = {strength_text(point.epsilon)}"
    return defence_words(point.defence) + strength.replace(
        " = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
    )


def _gain_reach(gain: Interval, point: CurvePoint) -> str:
    """Return the largest gain. For a point with a weak measurement, return only the gain that was
    found."""
    if not measured_whole(point):
        return f"{signed(gain.value)} found"
    is_wide = signed(gain.high) != signed(gain.value)
    return signed(gain.value) + (f", up to {signed(gain.high)}" if is_wide else "")


def _promise_text(point: CurvePoint, unit: str) -> str:
    """Return the promised epsilon per the unit of the column, or with the setting's own."""
    if point.epsilon is None:
        return "none"
    if not unit:
        return f"{strength_text(point.epsilon)} per {point.unit}"
    if unit == point.unit:
        return strength_text(point.epsilon)
    claim = point.claims.get(cast(Unit, unit))
    return "none" if claim is None else epsilon_text(claim.epsilon)


def _promised_unit(limits: Limits, points: Sequence[CurvePoint]) -> str:
    """Return the one unit of the column of promises, or an empty text if settings have several
    units."""
    units = {point.unit for point in points if point.epsilon is not None}
    return limits.unit or (units.pop() if len(units) == 1 else "")


def _readable_words(words: str, data: CurveData) -> str:
    """Return the sweep's words, with defences and attacks as they are called on the page."""
    for name in {point.defence for point in data.points} - {"none"}:
        called = defence_words(name)
        inside = called if called[1:2].isupper() else called[:1].lower() + called[1:]
        words = words.replace(name, inside)
    attacks = {leak.attack for point in data.points for leak in point.leaks}
    for name in attacks | {name for point in data.points for name in point.not_asked}:
        words = words.replace(name, attack_words(name))
    return words[:1].upper() + words[1:].rstrip(".") + "."
