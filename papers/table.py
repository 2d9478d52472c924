"""The table: ours beside the paper's, cell by cell, as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from papers.entry import Cell, Entry
from papers.ours import Ours
from papers.statistics import Estimate, verdict
from securefg.sweep import Failure

COLUMNS = (
    "entry",
    "row",
    "column",
    "unit",
    "paper",
    "paper_half_width",
    "ours",
    "ours_half_width",
    "seeds",
    "difference",
    "verdict",
)


@dataclass(frozen=True)
class Line:
    """One cell with what was measured; `verdict` is empty where nothing may be said."""

    cell: Cell
    ours: Estimate | None
    verdict: str
    wanted: int
    quick: bool = False
    stored: bool = False

    @property
    def difference(self) -> float | None:
        if self.ours is None or self.cell.paper is None or self.quick:
            return None
        return self.ours.mean - self.cell.paper

    @property
    def complete(self) -> bool:
        return self.ours is not None and self.ours.count == self.wanted

    @property
    def ours_text(self) -> str:
        if self.ours is None:
            return "missing"
        decimals = self.cell.unit.decimals
        text = f"{self.ours.mean:.{decimals}f}"
        text += "" if self.ours.half_width is None else f" ± {self.ours.half_width:.{decimals}f}"
        if self.complete:
            return text
        seeds = f"{self.ours.count} seed{'s' if self.ours.count > 1 else ''}"
        return f"{text} ({seeds if self.stored else f'{self.ours.count} of {self.wanted} seeds'})"

    @property
    def paper_text(self) -> str:
        if self.cell.paper is None:
            return ""
        decimals = self.cell.unit.decimals
        half = self.cell.interval
        width = "" if half is None else f" ± {half:.{max(decimals, 2)}f}"
        return f"{self.cell.paper:.{decimals}f}{width}"

    @property
    def difference_text(self) -> str:
        if self.difference is None:
            return ""
        decimals = self.cell.unit.decimals
        rounded = round(self.difference, decimals) or 0.0  # no minus before a zero
        return f"{rounded:+.{decimals}f}".replace("-", "−")

    @property
    def text(self) -> str:
        """`82.1 ± 1.2 (83.0; −0.9; within 1.5 points)`."""
        beside = "; ".join(filter(None, (self.paper_text, self.difference_text, self.verdict)))
        return f"{self.ours_text} ({beside})" if beside else self.ours_text


@dataclass(frozen=True)
class Reproduction:
    """An entry with its lines, and the points that failed."""

    entry: Entry
    lines: tuple[Line, ...]
    failed: tuple[Failure, ...]
    num_seeds: int
    quick: bool
    command: str
    notes: tuple[str, ...] = ()

    def line(self, row: str, column: str) -> Line | None:
        found = (x for x in self.lines if (x.cell.row, x.cell.column) == (row, column))
        return next(found, None)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.entry.columns

    @property
    def unit(self) -> str:
        """The unit where all cells have the same."""
        names = {line.cell.unit.name for line in self.lines}
        return names.pop() if len(names) == 1 else ""

    @property
    def key(self) -> str:
        """How a cell is to be read."""
        has_paper = any(line.cell.paper is not None for line in self.lines)
        judged = "" if self.quick else ", the difference, the verdict"
        beside = f" (the paper's{judged})" if has_paper else ""
        unit = f", in {self.unit}" if self.unit else ""
        seeds = f"{self.num_seeds} seeds" if self.num_seeds > 1 else "one seed"
        spread = " with its 95 % t-interval" if self.num_seeds > 1 else ""
        stored = any(line.stored and not line.complete for line in self.lines)
        unless = " or as many as the cell says" if stored else ""
        return f"Ours, mean over {seeds}{unless}{spread}{beside}{unit}."

    @property
    def tally(self) -> str:
        """`20 cells of the paper: 12 within 1.5 points, 8 above.`"""
        judged = Counter(line.verdict for line in self.lines if line.verdict)
        if not judged:
            return ""
        parts = ", ".join(f"{count} {word}" for word, count in judged.most_common())
        return f"{sum(judged.values())} cells of the paper: {parts}."


def reproduction(ours: Ours, failed: Sequence[Failure], command: str) -> Reproduction:
    plan = ours.plan
    lines = tuple(_line(ours, cell) for cell in plan.cells)
    return Reproduction(
        plan.entry, lines, tuple(failed), plan.num_seeds, plan.options.quick, command
    )


def _line(ours: Ours, cell: Cell) -> Line:
    """Quick and unfinished cells are never judged."""
    found, wanted, quick = ours.estimate(cell), ours.plan.num_seeds, ours.plan.options.quick
    judged = found is not None and found.count == wanted and not quick
    return Line(cell, found, judge(cell, found) if found and judged else "", wanted, quick)


def judge(cell: Cell, ours: Estimate) -> str:
    if cell.paper is None:
        return ""
    return verdict(ours, cell.paper, cell.interval, cell.unit.tolerance, cell.unit.close)


def as_markdown(result: Reproduction, level: int = 1) -> str:
    """The whole section: title, table, how to read it, what failed, the command."""
    parts = [f"{'#' * level} {result.entry.title}", result.entry.paper]
    if result.quick:
        parts.append("**Quick**: fewer rounds, seeds and rows. These figures judge nothing.")
    parts.append(markdown_table(result))
    parts.append(" ".join(filter(None, (result.key, result.tally, result.entry.about))))
    if result.notes:
        notes = [f"- {note}" for note in result.notes]
        parts.append("\n".join(["Off by more than 5 points:", "", *notes]))
    if result.failed:
        parts.append("\n".join(["Failed:", "", *(f"- {f.key}: {f.reason}" for f in result.failed)]))
    parts.append(f"    {result.command}")
    return "\n\n".join(parts) + "\n"


def markdown_table(result: Reproduction) -> str:
    head = f"| | {' | '.join(result.columns)} |"
    rule = "|---" * (len(result.columns) + 1) + "|"
    body = []
    for row in result.entry.rows:
        lines = (result.line(row, column) for column in result.columns)
        texts = " | ".join("" if line is None else line.text for line in lines)
        body.append(f"| {row} | {texts} |")
    return "\n".join([head, rule, *body])


def as_csv(result: Reproduction) -> str:
    """One line per cell, numbers unrounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in result.lines:
        cell, ours = line.cell, line.ours
        writer.writerow(
            [
                result.entry.name,
                cell.row,
                cell.column,
                cell.unit.name,
                cell.paper,
                cell.interval,
                ours and ours.mean,
                ours and ours.half_width,
                ours.count if ours else 0,
                line.difference,
                "quick" if result.quick else line.verdict,
            ]
        )
    return out.getvalue()
