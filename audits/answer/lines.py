"""The lines of an answer that are not silent, for exports that list one result per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from audits.answer.model import Answer, Cell, Gap, Level, Promise
from audits.answer.sentences import attack_words
from audits.findings.record import Verdict

Line = Cell | Promise | Gap
Kind = Literal["leak", "unknown", "trace"]


class Told(NamedTuple):
    """A line with its title, its kind and its text."""

    line: Line
    title: str
    kind: Kind
    text: str


def told_lines(answer: Answer) -> Iterator[Told]:
    """Yield every line that is not silent."""
    for row in answer.rows:
        for cell in row.cells:
            kind = kind_of_cell(cell)
            if kind is not None:
                yield Told(cell, row.title, kind, cell_text(cell, row.title))
    for promise in answer.promises:
        if promise.state != "kept":
            broken: Kind = "leak" if promise.state == "broken" else "unknown"
            said = f"{promise.state}: {promise.because}"
            yield Told(promise, f"Promise: {promise.name}", broken, said)
    for gap in open_gaps(answer):
        if gap.kind == "unplaced":
            yield Told(gap, "A leak outside of the table", "leak", gap.because)
        else:
            yield Told(gap, f"Not measured: {attack_words(gap.kind)}", "unknown", gap.because)


def kind_of_cell(cell: Cell) -> Kind | None:
    """Return how loud a cell is, or None for a silent cell."""
    if cell.level.is_leak or cell.is_small_leak:
        return "leak"
    if cell.is_open:
        return "unknown"
    return "trace" if cell.level is Level.TRACE else None


def open_gaps(answer: Answer) -> list[Gap]:
    """Return the gaps that stand for themselves. Weak attacks are in their cells."""
    return [gap for gap in answer.gaps if gap.kind != "weak"]


def cell_text(cell: Cell, title: str) -> str:
    """Return the words of one cell: its best attack's sentence, or why it is not known."""
    if cell.level is Level.NOT_TRIED:
        return f"{title}: attacks fit this run, and nobody asked for them."
    if cell.is_small_leak:
        leaking = (Verdict.LEAK, Verdict.VIOLATION)
        return next(one.sentence for one in cell.evidence if one.verdict in leaking)
    return cell.best.sentence if cell.best else f"{title}: {cell.level.value}."


def acceptance_text(line: Line) -> str:
    """Return who accepted a line, until when and why. The text is empty if nobody did."""
    acceptance = line.acceptance
    if acceptance is None:
        return ""
    state = (
        f"no longer accepted: {acceptance.because}"
        if acceptance.expired
        else f"until {acceptance.until}"
    )
    return f" (accepted by {acceptance.owner}, {state}: {acceptance.reason})"
