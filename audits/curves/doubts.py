"""Everything that a curve does not know about a setting, in words."""

from __future__ import annotations

from audits.curves.conditions import UNREAD, describe_unsure
from audits.findings.record import COVERAGE
from securefg.foundation.units import plural
from securefg.reports.curve_data import CurveData, CurvePoint, Series
from securefg.reports.words import attack_words, capitalise_words, strength_text

WIDE = 0.1
"""An interval of a score that reaches further than this is a doubt."""
PLACES = {
    "server": "the server",
    "client": "other clients",
    "outsider": "whoever gets the model",
    "wire": "an eavesdropper",
}


def unknown_sentence(point: CurvePoint) -> str:
    """Return one sentence on the places that no attack took and the attacks not asked for."""
    taken = {leak.adversary.partition(":")[0] for leak in point.leaks if leak.gain}
    left = [words for kind, words in PLACES.items() if kind not in taken]
    parts = [f"what {' or '.join(left)} can learn (no attack took that place)"] if left else []
    if point.not_asked:
        parts.append(f"{plural(len(point.not_asked), 'attack')} that fit and were not asked for")
    unsure = {leak.attack for leak in point.leaks if leak.verdict == "INCONCLUSIVE"}
    if unsure & COVERAGE:
        parts.append(UNREAD)
    if unsure := unsure - COVERAGE:
        parts.append(f"{plural(len(unsure), 'attack')} whose measurement did not hold")
    if not parts:
        return "A better attack than those that were run may find more."
    return capitalise_words("; ".join(parts)) + "."


def not_covered(point: CurvePoint) -> str:
    """Return what no epsilon of the point covers, in words."""
    claims = point.claims.values()
    return "; ".join(dict.fromkeys(what for claim in claims for what in claim.not_covered))


def list_doubts(data: CurveData, series: Series, point: CurvePoint) -> tuple[str, ...]:
    """Return the details of what is not known, a sentence each."""
    doubts = [
        f"Excluded by the config, unless it leaks: {attack_words(name)} ({reason.rstrip('.')})."
        for name, reason in series.excluded.items()
    ]
    doubts += _wide_score(point)
    if point.not_asked:
        names = ", ".join(attack_words(name) for name in point.not_asked)
        doubts.append(f"Attacks that fit these runs and were not asked for: {names}.")
    unknown = [leak for leak in point.leaks if leak.verdict == "INCONCLUSIVE"]
    if unknown:
        doubts.append(f"{capitalise_words(describe_unsure(unknown))}.")
    if point.epsilon is not None and not_covered(point):
        doubts.append(f"No epsilon covers: {not_covered(point)}.")
    return (*doubts, *_doubt_choice(data, series))


def _wide_score(point: CurvePoint) -> list[str]:
    if point.accuracy is None or point.accuracy.high - point.accuracy.value <= WIDE:
        return []
    reach = 100 * (point.accuracy.high - point.accuracy.value)
    seeds = plural(len(point.accuracies), "seed")
    return [f"{seeds} fix the {point.score} to ±{reach:.0f} points only: run more of them."]


def _doubt_choice(data: CurveData, series: Series) -> tuple[str, ...]:
    """Say that a choice by private scores is a release, and what the runs would add up to."""
    promised = [p for p in data.points if p.series == series.name and p.epsilon is not None]
    if not promised:
        return ()
    units = {point.unit for point in promised}
    runs = sum(len(point.runs) for point in promised)
    total = sum((point.epsilon or 0.0) * len(point.runs) for point in promised)
    added = (
        f" The {plural(runs, 'run')} that promise an epsilon add up to {strength_text(total)} per "
        f"{units.pop()}, by simple addition."
        if len(units) == 1
        else ""
    )
    return (
        "Choosing a setting by its score on private data is itself a release. Scores carry no "
        f"noise, so no epsilon covers the choice.{added} Choose on a stand-in graph or by a rule, "
        "then run once.",
    )
