"""The one place that turns a finding into words. No sentence says more than its game measured.

`exposes` is the attack's own noun phrase and follows the verb "learns". The figures beside it are
those of the finding, with the name of the metric.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from audits.answer.model import Cell, Column, Gap, Level, Outcome, Promise, Row
from audits.findings.record import Finding, Verdict
from securefg.foundation.units import plural
from securefg.protocol.secrets import MODEL, find_secret

COLUMNS = {
    "server": Column(kind="server", title="server", subject="the server"),
    "client": Column(kind="client", title="other client", subject="another client"),
    "outsider": Column(
        kind="outsider", title="who gets model", subject="anyone who gets the model"
    ),
    "wire": Column(kind="wire", title="eavesdropper", subject="an eavesdropper"),
}
VERBS = {
    Level.EXACT: "works out",
    Level.ALL: "learns",
    Level.MOST: "mostly learns",
    Level.SOME: "partly learns",
    Level.FEW: "learns, for the most exposed targets,",
}


TOO_LITTLE = "a trace, too little to matter"
SHOWN = 0.005
"""A smaller gain is 0.00 in print."""


def kind_of(adversary: str) -> str:
    """Return the column of an adversary: `client:3,5` and `any 3 of 60 clients` are clients."""
    first = adversary.partition(":")[0].partition(" ")[0]
    if first in COLUMNS:
        return first
    return "client" if "client" in adversary else "server"


def subject_of(adversary: str) -> str:
    """Return the subject of a sentence about an adversary."""
    kind, _, who = adversary.partition(":")
    if kind == "client" and "," in who:
        return f"clients {who.replace(',', ', ')} together"
    if kind == "client" and who:
        return f"client {who}"
    return COLUMNS[kind].subject if kind in COLUMNS else adversary


def condition_of(exposes: str) -> str:
    """Return the condition that an attack's `exposes` ends with, such as "if all else is known"."""
    found = re.search(r", ((?:if|once) .+)$", exposes)
    return found.group(1) if found else ""


def attack_words(name: str) -> str:
    """Return the name of an attack as people write it."""
    return name.replace("_", " ")


def rate_text(value: float) -> str:
    """Return a figure between 0 and 1 with two digits, and with three next to 1: .57, .998, 1.0."""
    text = f"{value:.2f}" if abs(value) < 0.995 or value >= 0.9995 else f"{value:.3f}"
    return "1.0" if text == "1.00" else text.replace("0.", ".", 1)


def figures_text(prior: float, value: float) -> str:
    """Return the step from guessing to the attack."""
    return f"guessing {rate_text(prior)} -> {rate_text(value)}"


def finding_sentence(finding: Finding, level: Level) -> str:
    """Return what one mounted attack found, as a complete sentence."""
    who, name = subject_of(finding.adversary), attack_words(finding.attack)
    if level in VERBS:
        what = finding.exposes or f"what the attack `{name}` asks for"
        sentence = f"{who} {VERBS[level]} {what} ({_measured_figures(finding)})"
    elif level is Level.TRACE:
        is_leak = finding.verdict in (Verdict.LEAK, Verdict.VIOLATION)
        much = "little, and enough to count as a leak" if is_leak else TOO_LITTLE
        sentence = f"{name} by {who} gains {much} ({_measured_figures(finding)})"
    elif level is Level.NOTHING:
        sentence = f"{name} by {who} found nothing: {finding.words}"
    else:
        sentence = f"{name} by {who} cannot tell: {finding.words}"
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _measured_figures(finding: Finding) -> str:
    """Return the figures of a finding, named by its metric."""
    parts = [f"{attack_words(finding.attack)}: {finding.metric}"]
    if finding.prior is not None and finding.value is not None:
        parts.append(figures_text(finding.prior.value, finding.value.value))
    elif finding.value is not None:
        parts.append(f"{finding.value.value:.3g}")
    if picked := picked_text(finding.details):
        parts.append(picked)
    return "; ".join(parts)


def picked_text(details: dict[str, float]) -> str:
    """Return how many targets an attack picks out and at how many false alarms, or an empty
    text."""
    if details.get("picked", 0) <= 0:
        return ""
    rate = details.get("picked_false_alarms", 0.0)
    alarms = f"1 false alarm in {1 / rate:.0f}" if rate > 0 else "no false alarm"
    return f"{details['picked']:.0f} of {details['picked_of']:.0f} at {alarms}"


def lack_text(finding: Finding) -> str:
    """Return for lack of what an attack cannot tell, in a few words."""
    if finding.failed:
        return "the attack failed"
    if finding.gain is None:
        return finding.because
    if finding.null_at_chance is False:
        return "its control is off chance"
    targets = plural(finding.targets, "target")
    if finding.gain.high < SHOWN:
        return f"no power was shown ({targets})"
    return f"may gain {finding.gain.high:+.2f} ({targets})"


def worst_sentence(
    outcome: Outcome, rows: Sequence[Row], promises: Sequence[Promise], gaps: Sequence[Gap] = ()
) -> str:
    """Return the worst thing about the run, for the head of every page."""
    if outcome is Outcome.BROKEN_PROMISE:
        broken = next(promise for promise in promises if promise.state == "broken")
        return f"A privacy promise of this run is broken: {broken.because}."
    if outcome is Outcome.NOT_PRIVATE:
        unplaced = [gap.because for gap in gaps if gap.kind == "unplaced"]
        beside = f"An attack leaks outside of this table: {'; '.join(unplaced)}."
        return " ".join(filter(None, (_leaks_sentence(rows), beside if unplaced else "")))
    if outcome is Outcome.LEAKS_A_LITTLE:
        return "Attacks gain a trace, and each is too small to matter."
    if outcome is Outcome.NOTHING_FOUND:
        return (
            "No attack found anything, and each of them works where the defence is off. A stronger "
            "attack may find what these miss."
        )
    return "No leak that matters was found, but too much is not known to say that there is none."


def _leaks_sentence(rows: Sequence[Row]) -> str:
    """Return who learns what: for every adversary its worst level, and the secrets at it.

    Leaks that the sentence does not name are counted, so that silence about a cell is not read as
    safety. Secrets that leak under a condition have a clause of their own.
    """
    subjects: dict[tuple[Level, str], list[str]] = {}
    cells = [(row, cell) for row in rows for cell in row.cells]
    unnamed = sum(cell.level.is_leak for _, cell in cells)
    for kind, column in COLUMNS.items():
        named = _worst_of([(row, cell) for row, cell in cells if cell.column == kind])
        unnamed -= len(named)
        for what in _by_condition(named):
            subjects.setdefault((named[0][1].level, what), []).append(column.subject)
    level_texts = [
        f"{join_words(who)} {_level_verb(level, len(who))} {what}"
        for (level, what), who in subjects.items()
    ]
    text = "; ".join(level_texts)
    small = sum(cell.is_small_leak for _, cell in cells)
    if not text:
        return _cells_text(small, "", " little, and enough to count as a leak")
    more = _cells_text(unnamed + small, " more", "")
    return " ".join(filter(None, (f"{text[:1].upper()}{text[1:]}.", more)))


def _cells_text(count: int, more: str, how: str) -> str:
    """Return how many cells leak, or an empty text for none."""
    verb = "leaks" if count == 1 else "leak"
    return f"{count}{more} {'cell' if count == 1 else 'cells'} {verb}{how}." if count else ""


def _worst_of(found: list[tuple[Row, Cell]]) -> list[tuple[Row, Cell]]:
    """Return the leaking cells of the worst level."""
    leaking = [(row, cell) for row, cell in found if cell.level.is_leak]
    worst = min((cell.level.rank for _, cell in leaking), default=0)
    return _about_people([(row, cell) for row, cell in leaking if cell.level.rank == worst])


def _by_condition(named: Sequence[tuple[Row, Cell]]) -> list[str]:
    """Return the secrets in words, one text for every condition. Secrets without a condition come
    first."""
    found: dict[str, list[str]] = {}
    for row, cell in sorted(named, key=lambda pair: bool(_cell_condition(pair[1]))):
        found.setdefault(_cell_condition(cell), []).append(_learnt_object(row, cell))
    return [", ".join(filter(None, (join_words(what), when))) for when, what in found.items()]


def _cell_condition(cell: Cell) -> str:
    return cell.best.condition if cell.best else ""


def _about_people(found: list[tuple[Row, Cell]]) -> list[tuple[Row, Cell]]:
    """Return the secrets of people. A copy of the model is named only if nothing else is."""
    return [(row, cell) for row, cell in found if row.code != MODEL.code] or found


def _level_verb(level: Level, subjects: int) -> str:
    """Return the verb of a level, in the plural for several subjects."""
    verb = VERBS[level]
    return verb if subjects == 1 else re.sub(r"\b(learn|work)s\b", r"\1", verb)


def _learnt_object(row: Row, cell: Cell) -> str:
    """Return a secret as the object of a sentence, without the condition of its attack."""
    secret = find_secret(row.code)
    exposes = cell.best.exposes.removesuffix(f", {_cell_condition(cell)}") if cell.best else ""
    return secret.learns if secret else exposes or row.title


def join_words(words: Sequence[str]) -> str:
    """Return a list as a sentence has it: a, b and c."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
