"""The verdict on every series, in words: the setting to take within the limits, or that none is."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.reports.curve.marks import Marks, report_link
from securefg.reports.curve.words import (
    accuracy_words,
    attack_words,
    by_whom,
    gain_words,
    largest_leak,
    setting_words,
)
from securefg.reports.curve_data import Choice, CurveData, CurvePoint, Limits, Series
from securefg.reports.units import epsilon_text, percent, plural, significant


@dataclass(frozen=True)
class Card:
    """What is said of one series.

    tone    met: a setting meets the limits; unmet: none does; free: there are no limits
    facts   (name, value, note) of the setting chosen
    doubts  what speaks against it all the same
    """

    series: str
    about: str
    tone: str
    head: str
    words: str
    facts: tuple[tuple[str, str, str], ...] = ()
    doubts: tuple[str, ...] = ()
    anchor: str = ""
    runs: tuple[tuple[str, str], ...] = ()


def cards(data: CurveData, marks: Marks) -> tuple[Card, ...]:
    series = {one.name: one for one in data.series}
    return tuple(_card(data, series[choice.series], choice, marks) for choice in data.choices)


def limit_words(limits: Limits) -> str:
    """The limits as a sentence."""
    said = []
    if limits.epsilon is not None:
        said.append(f"a promised epsilon of at most {epsilon_text(limits.epsilon)}")
    if limits.leak_gain is not None:
        said.append(f"no attack that gains more than {limits.leak_gain:g} over its prior")
    if not said:
        return "No limits were set, so the most accurate setting is named."
    return f"Limits: {' and '.join(said)}. What could not be measured does not meet them."


def _card(data: CurveData, series: Series, choice: Choice, marks: Marks) -> Card:
    clients = f", {plural(series.clients, 'client')}" if series.clients else ""
    about = f"{series.method} on {series.dataset}{clients}"
    point = next((p for p in data.points if p.key == choice.point), None)
    if point is None:
        words = choice.words[:1].upper() + choice.words[1:].rstrip(".") + "."
        return Card(series.name, about, "unmet", "No setting meets the limits", words)
    free = data.limits.epsilon is None and data.limits.leak_gain is None
    return Card(
        series.name,
        about,
        "free" if free else "met",
        setting_words(point),
        "The most accurate of all settings."
        if free
        else "The most accurate of the settings that meet the limits.",
        _facts(data, point),
        _doubts(series, point),
        marks.anchor(point),
        tuple((f"seed {run.seed}", report_link(run)) for run in point.runs),
    )


def _facts(data: CurveData, point: CurvePoint) -> tuple[tuple[str, str, str], ...]:
    facts = []
    if point.accuracy is not None:
        facts.append(("Accuracy", percent(point.accuracy.value), _spread(point, data.seeds)))
    plain = next((p for p in data.points if p.series == point.series and p.defence == "none"), None)
    if plain and plain.accuracy and point.accuracy and plain is not point:
        lost = 100 * (plain.accuracy.value - point.accuracy.value)
        sign = "−" if lost >= 0 else "+"
        note = f"no defence has {percent(plain.accuracy.value)}"
        facts.append(("Price", f"{sign}{abs(lost):.1f} points", note))
    leak = largest_leak(point)
    if leak is not None:
        facts.append(("Largest gain of an attack", gain_words(leak).split(" (")[0], by_whom(leak)))
    if point.epsilon_lower is not None and point.epsilon_claimed is not None:
        note = f"of the {significant(point.epsilon_claimed)} claimed for the mechanism"
        facts.append(("Measured epsilon, at least", significant(point.epsilon_lower), note))
    return tuple(facts)


def _spread(point: CurvePoint, seeds: int) -> str:
    if point.accuracy is None or seeds < 2:
        return "one seed"
    inside = accuracy_words(point.accuracy).partition(" (")[2].rstrip(")")
    return f"{inside}, {seeds} seeds" if inside else f"{seeds} seeds"


def _doubts(series: Series, point: CurvePoint) -> tuple[str, ...]:
    found = []
    if series.alone and point.accuracy and point.accuracy.value <= series.alone.value:
        found.append(
            f"Parties that train alone reach {percent(series.alone.value)} and send nothing: "
            "this setting is not worth taking part in."
        )
    leaks = [leak for leak in point.leaks if leak.verdict == "LEAK"]
    if leaks:
        names = ", ".join(dict.fromkeys(attack_words(leak.attack) for leak in leaks))
        found.append(f"Still measurable here: {names}.")
    unknown = [leak for leak in point.leaks if leak.verdict == "INCONCLUSIVE"]
    if unknown:
        names = ", ".join(dict.fromkeys(attack_words(leak.attack) for leak in unknown))
        found.append(f"Not known, since the measurement did not hold: {names}.")
    return tuple(found)
