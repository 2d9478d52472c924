"""The first screen of a run: may we do this, who learns what, what is promised, what must change.

Everything about attacks comes from the run's answer, everything else from its stored results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from audits.answer.model import Answer, Cell, Outcome, Remedy, Row
from audits.answer.remedies import state_after
from securefg.foundation.units import percent, plural
from securefg.reports.cell_plots import CellPlot, plot_cell
from securefg.reports.fields import find_declaration
from securefg.reports.results import Results
from securefg.reports.verdicts import list_verdicts
from securefg.reports.words import capitalise_words
from securefg.runs.scores import monitored_name, no_skill, score_of

VERDICTS: dict[Outcome, tuple[str, str]] = {
    Outcome.BROKEN_PROMISE: ("no", "NO, not as it is"),
    Outcome.NOT_PRIVATE: ("no", "NO, not as it is"),
    Outcome.NOT_ENOUGH_MEASURED: ("open", "NOT YET: too little is known"),
    Outcome.LEAKS_A_LITTLE: ("weigh", "TO BE WEIGHED: it leaks a little"),
    Outcome.NOTHING_FOUND: ("calm", "NOTHING FOUND against it"),
}
OTHERS = ("still leaks", "not known")
"""The states of a cell in a twin beside stopped."""
LEGEND = (
    ("EXACT", "read off with certainty, by algebra"),
    ("ALL", "at least 90 % of what guessing leaves open"),
    ("MOST", "at least 50 %"),
    ("SOME", "at least 10 %"),
    ("FEW", "single targets stand out"),
    ("trace", "less than 10 %"),
    ("nothing", "attacks that work without the defence found nothing"),
    ("-", "this party gets nothing that an attack of ours reads"),
    ("no test", "nobody has written an attack, so this is not known"),
    ("not known", "an attack ran and could not tell"),
    ("NOT TRIED", "nobody asked"),
)


@dataclass(frozen=True)
class CellView:
    """A cell with its row, its place on the page and its plot."""

    cell: Cell
    title: str
    subject: str
    anchor: str
    plot: CellPlot | None

    @property
    def is_open(self) -> bool:
        """Return whether there is something to open: an attack, a lack, an acceptance."""
        return bool(self.cell.evidence or self.cell.lack or self.cell.acceptance)


@dataclass(frozen=True)
class RowView:
    """A row of the table."""

    title: str
    cells: tuple[CellView, ...]


@dataclass(frozen=True)
class RemedyLine:
    """A thing that must change: which leaks it stops, its setting, and what a trial showed."""

    numbers: str
    words: str
    setting: str
    tried: str


@dataclass(frozen=True)
class Screen:
    """A first screen.

    tone     no, open, weigh, calm
    hidden   titles of secrets of which no party is given anything
    legend   the words that the table uses, with their meaning
    """

    answer: Answer
    tone: str
    verdict: str
    beside: str
    rows: tuple[RowView, ...]
    hidden: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]
    promises: tuple[str, ...]
    checks: str
    remedies: tuple[RemedyLine, ...]
    unstopped: str
    worth: str
    unknown: str


def make_screen(results: Results, answer: Answer) -> Screen:
    """Return the first screen of a finished run."""
    tone, verdict = VERDICTS[answer.outcome]
    if results.findings is None:
        tone, verdict = "open", "NOT YET: nothing was measured"
    rows = tuple(_row_view(answer, row) for row in answer.rows if row.has_view)
    used = {view.cell.level.value for row in rows for view in row.cells}
    return Screen(
        answer=answer,
        tone=tone,
        verdict=verdict,
        beside=_scores_beside(results),
        rows=rows,
        hidden=tuple(row.title for row in answer.rows if not row.has_view),
        legend=tuple(line for line in LEGEND if line[0] in used),
        promises=tuple(promise_lines(results)),
        checks=_check_words(answer),
        remedies=tuple(map(_remedy_line, answer.remedies)),
        unstopped=_unstopped_words(answer),
        worth=describe_worth(results),
        unknown=_unknown_words(answer),
    )


def cell_anchor(cell: Cell) -> str:
    """Return the place of a cell's plot on the page."""
    return f"cell-{cell.code.lower()}"


def _row_view(answer: Answer, row: Row) -> RowView:
    pairs = zip(answer.columns, row.cells, strict=True)
    views = [
        CellView(cell, row.title, column.subject, cell_anchor(cell), plot_cell(cell))
        for column, cell in pairs
    ]
    return RowView(row.title, tuple(views))


def _scores_beside(results: Results) -> str:
    days = sorted({one.made for one in results.findings or () if one.made})
    parts = [
        results.method.name,
        results.summary.dataset,
        plural(results.partition.num_clients, "client"),
        f"audited {days[-1]}" if days else "not audited",
        f"record {results.summary.transcript_chain[:8]}",
    ]
    return " · ".join(parts)


def promise_lines(results: Results) -> Iterator[str]:
    """Yield what the run promises, in words. The first line says it if that is nothing."""
    claims = results.summary.epsilon
    finite = {unit: claim for unit, claim in claims.items() if claim.epsilon is not None}
    if not finite:
        fields = dict.fromkeys(field for claim in claims.values() for field in claim.because)
        named = ", ".join(_field_words(results, field) for field in fields)
        yield f"Nothing. No noise is on: {named}." if named else "Nothing: no epsilon is stored."
        return
    for verdict in list_verdicts(results):
        if verdict.tone == "open":
            yield f"Per {verdict.unit}: nothing is promised (epsilon is infinite)."
        else:
            yield " ".join(filter(None, (verdict.sentence, verdict.meaning)))


def _field_words(results: Results, field: str) -> str:
    declared = find_declaration(results, field)
    return f"{declared.about} ({field})" if declared and declared.about else field


def _check_words(answer: Answer) -> str:
    check_texts = []
    for state in ("broken", "not known", "kept"):
        names = dict.fromkeys(one.name for one in answer.promises if one.state == state)
        check_texts += [f"{state}: {', '.join(names)}"] if names else []
    return f"Checks of the run's own claims: {'; '.join(check_texts)}." if check_texts else ""


def _unknown_words(answer: Answer) -> str:
    found = answer.unknown.removeprefix("Not known: ")
    return capitalise_words(found) if found else "Nothing that was asked is left open."


def _remedy_line(remedy: Remedy) -> RemedyLine:
    states = Counter(map(state_after, remedy.tried.values()))
    others = [f", {states[state]} {state}" for state in OTHERS if states[state]]
    said = f"tried: {states['stopped']} of {states.total()} stopped{''.join(others)}"
    tried = said if remedy.is_tried else "not tried on this run"
    numbers = f"[{', '.join(map(str, remedy.numbers))}]"
    return RemedyLine(numbers, remedy.words, remedy.setting, tried)


def _unstopped_words(answer: Answer) -> str:
    """Return the leaks for which no setting is named."""
    named = {number for remedy in answer.remedies for number in remedy.numbers}
    left = sorted(cell.number for cell in answer.leaks if cell.number not in named)
    if not left:
        return ""
    return f"[{', '.join(map(str, left))}] The attack names no setting that stops it."


def describe_worth(results: Results) -> str:
    """Return the monitored score beside one class, and the command for training alone."""
    summary, score = results.summary, monitored_name(results.config, results.summary)
    reached = score_of(summary, score)
    if reached is None:
        return "Not known: the run has no score on test nodes."
    name = score.replace("_", " ")
    chance = no_skill(summary.test_scores, score)
    parts = [f"Test {name} {percent(reached)}"]
    if chance is not None:
        worse = "" if reached > chance else ", so the model is no better"
        parts.append(f"always naming one class {percent(chance)}{worse}")
    return " · ".join(parts)


def alone_command(results: Results) -> str:
    """Return the command that trains every client alone, or empty for such a run itself."""
    if results.method.name.endswith("alone"):
        return ""
    settings = "--set name=alone --set 'method={name: best_alone}' --set 'privacy={}'"
    return f"securefg run {results.config.name}.yaml {settings}"
