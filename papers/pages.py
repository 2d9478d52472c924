"""The stored figures as pages: one command writes the tables, and a count of all cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from papers.catalogue import ENTRIES
from papers.entry import Entry
from papers.explanations import explain
from papers.output import section_of, write_text
from papers.store import RESULTS, StoredCells
from papers.table import Line, Reproduction, as_markdown, judge

PAGE = Path("docs/research/reproduction.md")
FAR = 5.0
ENOUGH_SEEDS = 3


@dataclass(frozen=True)
class Census:
    """How many published cells there are, were run, have enough seeds, and are far off."""

    published: int
    run: int
    with_seeds: int
    far: int
    never_run: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the count in sentences, with the cells that were never run."""
        published, extra = (", ".join(names) or "none" for names in (self.never_run, self.extra))
        return (
            f"{self.run} of {self.published} published cells are run. {self.with_seeds} have three "
            f"or more seeds, or need none. {self.far} are off by more than 5 points.\n\n"
            f"Published cells that were never run: {published}. "
            f"Cells without a published figure that were never run: {extra}."
        )


def count_cells(entries: Sequence[Entry] = ENTRIES, folder: Path = RESULTS) -> Census:
    """Count the published cells of some entries."""
    tables = [stored_table(entry, folder) for entry in entries]
    lines = [line for table in tables for line in table.lines if line.cell.paper is not None]
    run = [line for line in lines if line.ours is not None]
    enough = [line for line in run if has_enough_seeds(line)]
    never = tuple(name for table in tables for name in never_run(table))
    extra = tuple(name for table in tables for name in never_run_extra(table))
    return Census(len(lines), len(run), len(enough), sum(map(is_far, lines)), never, extra)


def never_run(table: Reproduction) -> list[str]:
    """Return the rows with published cells that were never run, and the columns of these cells."""
    columns: dict[str, list[str]] = {}
    for line in table.lines:
        if line.ours is None and line.cell.paper is not None:
            columns.setdefault(line.cell.row, []).append(line.cell.column)
    return [f"{table.entry.name} {row} ({', '.join(own)})" for row, own in columns.items()]


def never_run_extra(table: Reproduction) -> list[str]:
    """Return how many cells without a published figure a table lacks, if it lacks any."""
    lacks = [line for line in table.lines if line.ours is None and line.cell.paper is None]
    return [f"{len(lacks)} of {table.entry.name}"] if lacks else []


def has_enough_seeds(line: Line) -> bool:
    """Return whether a cell has three seeds, or is a count that no seed changes."""
    is_count = line.cell.unit.name == "MiB"
    return line.ours is not None and (is_count or line.ours.count >= ENOUGH_SEEDS)


def is_far(line: Line) -> bool:
    """Return whether a cell in percent or points is off by more than five."""
    in_points = line.cell.unit.name in ("%", "points")
    return in_points and line.difference is not None and abs(line.difference) > FAR


def stored_table(entry: Entry, folder: Path = RESULTS) -> Reproduction:
    """Return an entry's table as the store has it."""
    cells = StoredCells.of(entry, folder)
    estimates = [cells.estimate(cell) for cell in cells.cells]
    counts = Counter(found.count for found in estimates if found is not None)
    usual = counts.most_common(1)[0][0] if counts else 1
    lines = tuple(
        Line(cell, found, judge(cell, found) if found else "", usual, stored=True)
        for cell, found in zip(cells.cells, estimates, strict=True)
    )
    command = f"securefg reproduce {entry.name} --collect\n    securefg reproduce pages"
    table = Reproduction(entry, lines, (), usual, False, command)
    return replace(table, notes=_notes(table))


def _notes(table: Reproduction) -> tuple[str, ...]:
    """Return the explanations of cells that are far off, each with its cells."""
    reasons: dict[str, list[str]] = {}
    for line in table.lines:
        if is_far(line):
            reason = explain(table.entry.name, line.cell)
            reasons.setdefault(reason, []).append(line.cell.key)
    return tuple(f"{reason} ({'; '.join(cells)})" for reason, cells in reasons.items())


def write_pages(path: Path = PAGE, folder: Path = RESULTS) -> None:
    """Write every entry's section of the page from the store. Pictures of earlier runs stay."""
    text = path.read_text()
    for entry in ENTRIES:
        begin, end = (f"<!-- {word} {entry.name} -->" for word in ("begin", "end"))
        old = section_of(text, entry.name)
        new = section_text(entry, old, folder)
        if old is None:
            text = _before_the_end(text, f"{begin}\n{new}{end}\n\n")
        else:
            text = text.replace(f"{begin}\n{old}{end}", f"{begin}\n{new}{end}")
    write_text(path, _with_census(text, count_cells(folder=folder)))


def section_text(entry: Entry, old: str | None, folder: Path = RESULTS) -> str:
    """Return an entry's section, with the pictures that the old section links to."""
    pictures = [line for line in (old or "").splitlines() if line.startswith("![")]
    shown = "\n" + "\n".join(pictures) + "\n" if pictures else ""
    return as_markdown(stored_table(entry, folder), level=2) + shown


def _before_the_end(text: str, section: str) -> str:
    head, mark, tail = text.rpartition("Next: ")
    return f"{head}{section}{mark}{tail}" if mark else f"{text.rstrip()}\n\n{section}"


def _with_census(text: str, census: Census) -> str:
    begin, end = "<!-- begin census -->", "<!-- end census -->"
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n{census.text}\n{end}{rest.partition(end)[2]}"
