"""The verdict on every series, in words: the setting to take within the limits, or that none is."""

from __future__ import annotations

from dataclasses import dataclass

from audits.curves.marks import Marks, report_link
from securefg.foundation.interval import interval
from securefg.foundation.units import percent, plural, significant
from securefg.reports.curve_data import Choice, CurveData, CurvePoint, Leak, Limits, Series
from securefg.reports.words import (
    accuracy_spread,
    attack_words,
    by_whom,
    defence_words,
    largest_leak,
    measured_whole,
    setting_words,
    signed,
    strength_text,
)

# An interval that reaches further than this is told of beside the verdict.
WIDE = 0.1
PLACES = {
    "server": "the server",
    "client": "other clients",
    "outsider": "whoever gets the model",
    "wire": "somebody who taps the wire",
}


@dataclass(frozen=True)
class Card:
    """What is said of one series.

    tone    met: a setting is recommended; unmet: none is; free: there are no limits
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


CHOICE = (
    "Epsilon is that of one run. A setting that is chosen by its score on the same private data "
    "costs more than that, which no epsilon here counts: choose on a stand-in graph or by a rule, "
    "then run once."
)


def cards(data: CurveData, marks: Marks) -> tuple[Card, ...]:
    """One card per series."""
    series = {one.name: one for one in data.series}
    return tuple(_card(data, series[choice.series], choice, marks) for choice in data.choices)


def limit_words(limits: Limits) -> str:
    """The limits as a sentence."""
    said = []
    if limits.epsilon is not None:
        per = f" per {limits.unit}" if limits.unit else ", per the unit that each setting names"
        said.append(f"a promised epsilon of at most {strength_text(limits.epsilon)}{per}")
    if limits.leak_gain is not None:
        said.append(f"no attack that may gain more than {limits.leak_gain:g} over its prior")
    if limits.accuracy is not None:
        said.append(f"a score of at least {percent(limits.accuracy)}")
    if not said:
        return "No limits were set: the best setting is named, and none is recommended."
    return f"Limits: {' and '.join(said)}. What could not be measured does not meet them."


def _card(data: CurveData, series: Series, choice: Choice, marks: Marks) -> Card:
    clients = f", {plural(series.clients, 'client')}" if series.clients else ""
    about = f"{series.method} on {series.dataset}{clients}"
    point = next((p for p in data.points if p.key == choice.point), None)
    if point is None:
        head = "No setting is recommended"
        words = _readable(choice.words.removeprefix(head.lower()).lstrip(":; "), data)
        lacking = (*(f"Missing: {one}." for one in choice.missing), *_excluded(series))
        return Card(series.name, about, "unmet", head, words, _extremes(data, series), lacking)
    free = not data.limits.any
    return Card(
        series.name,
        about,
        "free" if free else "met",
        setting_words(point),
        "The best of all settings that were measured whole; no limits were set."
        if free
        else "The best of the settings that meet the limits: every attack that fits the runs was "
        "run, and none leaks.",
        _facts(data, point),
        (*_excluded(series), *_not_asked(point), *_doubts(point)),
        marks.anchor(point),
        tuple((f"seed {run.seed}", report_link(run)) for run in point.runs),
    )


def _facts(data: CurveData, point: CurvePoint) -> tuple[tuple[str, str, str], ...]:
    facts = []
    if point.accuracy is not None:
        facts.append(
            (point.score.capitalize(), percent(point.accuracy.value), _spread(point, data.seeds))
        )
    for unit, claim in point.claims.items():
        value, _, about = claim.bound(unit).partition(": ")
        facts.append((f"Epsilon per {unit}", value, about))
    plain = next((p for p in data.points if p.series == point.series and p.defence == "none"), None)
    if plain and plain.accuracy and point.accuracy and plain is not point:
        facts.append(("Price", *_price(plain, point)))
    leak = largest_leak(point)
    if leak is not None:
        facts.append(("Largest gain of an attack", *_largest(leak)))
    if point.epsilon_lower is not None and point.epsilon_claimed is not None:
        note = f"of the {significant(point.epsilon_claimed)} claimed for the mechanism"
        facts.append(("Measured epsilon, at least", significant(point.epsilon_lower), note))
    return tuple(facts)


def _largest(leak: Leak) -> tuple[str, str]:
    """The mean gain, and by whom, how it is known and what it is for the most exposed target."""
    said = [f"{by_whom(leak)}, {leak.basis}" if leak.basis else by_whom(leak)]
    if leak.most_exposed is not None:
        said.append(f"{signed(leak.most_exposed)} for the most exposed target")
    return signed(leak.gain.value) if leak.gain else "", "; ".join(said)


def _price(plain: CurvePoint, point: CurvePoint) -> tuple[str, str]:
    """What the defence costs, seed by seed, with the interval of the mean."""
    pairs = list(zip(point.accuracies, plain.accuracies, strict=False))
    changes = [100 * (defended - open_) for defended, open_ in pairs]
    mean = sum(changes) / len(changes) if changes else 0.0
    sign = "−" if mean <= 0 else "+"
    said = f"{sign}{abs(mean):.1f} points"
    against = f"no defence has {percent(plain.accuracy.value)}" if plain.accuracy else ""
    if len(changes) < 2:
        return said, against
    found = interval(changes)
    return said, f"{found.low:+.1f} to {found.high:+.1f} (95%, paired by seed); {against}"


def _spread(point: CurvePoint, seeds: int) -> str:
    if point.accuracy is None or seeds < 2:
        return "one seed"
    inside = accuracy_spread(point.accuracy)
    return f"{inside}, {seeds} seeds" if inside else f"{seeds} seeds"


def _not_asked(point: CurvePoint) -> tuple[str, ...]:
    """A recommendation is about those whose places attacks took, by the attacks that were asked
    for, and about nobody and nothing else."""
    taken = {leak.adversary.partition(":")[0] for leak in point.leaks if leak.gain}
    left = [words for kind, words in PLACES.items() if kind not in taken]
    names = ", ".join(attack_words(name) for name in point.not_asked)
    said = [
        f"Nothing is said of what {' or '.join(left)} can learn: no attack took that place."
        if left
        else "",
        f"{len(point.not_asked)} attacks that fit these runs were not asked for: {names}."
        if names
        else "",
    ]
    return tuple(filter(None, said))


def not_covered(point: CurvePoint) -> str:
    """Return what no epsilon of the point covers, in words."""
    claims = point.claims.values()
    return "; ".join(dict.fromkeys(what for claim in claims for what in claim.not_covered))


def _excluded(series: Series) -> tuple[str, ...]:
    """Attacks that the config excludes, with its reasons."""
    return tuple(
        f"Excluded by the config, unless it leaks: {attack_words(name)} ({reason.rstrip('.')})."
        for name, reason in series.excluded.items()
    )


def _doubts(point: CurvePoint) -> tuple[str, ...]:
    found = []
    if point.accuracy and point.accuracy.high - point.accuracy.value > WIDE:
        reach = 100 * (point.accuracy.high - point.accuracy.value)
        seeds = plural(len(point.accuracies), "seed")
        found.append(
            f"{seeds} fix the {point.score} to ±{reach:.0f} points only: run more of them."
        )
    leaks = [leak for leak in point.leaks if leak.verdict == "LEAK"]
    if leaks:
        names = ", ".join(dict.fromkeys(attack_words(leak.attack) for leak in leaks))
        found.append(f"Still measurable here: {names}.")
    if point.epsilon is not None and not_covered(point):
        found.append(f"No epsilon covers: {not_covered(point)}.")
    if point.epsilon is not None:
        found.append(CHOICE)
    unknown = [leak for leak in point.leaks if leak.verdict == "INCONCLUSIVE"]
    names = ", ".join(dict.fromkeys(attack_words(leak.attack) for leak in unknown))
    if names:
        found.append(f"Not known, since the measurement did not hold: {names}.")
    return tuple(found)


def _readable(words: str, data: CurveData) -> str:
    """The sweep's words, with defences and attacks as they are called on the page."""
    for name in {point.defence for point in data.points} - {"none"}:
        called = defence_words(name)
        inside = called if called[1:2].isupper() else called[:1].lower() + called[1:]
        words = words.replace(name, inside)
    attacks = {leak.attack for point in data.points for leak in point.leaks}
    for name in attacks | {name for point in data.points for name in point.not_asked}:
        words = words.replace(name, attack_words(name))
    return words[:1].upper() + words[1:].rstrip(".") + "."


def _extremes(data: CurveData, series: Series) -> tuple[tuple[str, str, str], ...]:
    """What there is instead: the most accurate setting, and the one that leaks least of those that
    were measured whole."""
    own = [p for p in data.points if p.series == series.name and p.accuracy is not None]
    if not own:
        return ()
    best = max(own, key=lambda p: p.accuracy.value if p.accuracy else 0.0)
    assert best.accuracy is not None
    facts = [(f"Highest {best.score}", percent(best.accuracy.value), setting_words(best))]
    known = [p for p in own if measured_whole(p)]
    leaks = [(leak, p) for p in known if (leak := largest_leak(p)) is not None]
    if leaks:
        leak, at = min(leaks, key=lambda one: one[0].gain.value if one[0].gain else 0.0)
        facts.append(
            ("Least leakage", signed(leak.gain.value) if leak.gain else "", setting_words(at))
        )
    return tuple(facts)
