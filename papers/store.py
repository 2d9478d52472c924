"""Stored figures: a line per cell and seed in `papers/results`. Pages are written from them.

A line has the hash of the cell's resolved configs, without comments and seed, so a test finds every
figure whose config changed since. A line with `seeds` is a mean of an earlier page, over
the seeds from 0 on: its single seeds were not kept. A mean over one seed is seed 0's figure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from papers.entry import Cell, Entry
from papers.plan import Options, Plan
from papers.statistics import Estimate, estimate
from securefg.foundation.errors import InputError
from securefg.runs.folder import RunFolder

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class StoredFigure:
    """A figure of one cell: of one seed, or an earlier mean over `seeds` of them."""

    table: str
    row: str
    column: str
    figure: float
    config: str
    command: str
    seed: int | None = None
    seeds: int | None = None
    half_width: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Return the row and the column."""
        return self.row, self.column

    @property
    def single_seed(self) -> int | None:
        """Return the seed of a figure of one seed, or None for a mean over several."""
        return 0 if self.seeds == 1 else self.seed

    def line(self) -> str:
        """Return the figure as a line of its file, without the fields that are not given."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(given, ensure_ascii=False)


def results_path(entry: str, folder: Path = RESULTS) -> Path:
    """Return the file of an entry."""
    return folder / f"{entry}.jsonl"


def read_figures(entry: str, folder: Path = RESULTS) -> list[StoredFigure]:
    """Return every whole line of an entry's file. A line that a kill cut short is left out."""
    path = results_path(entry, folder)
    lines = path.read_text().split("\n")[:-1] if path.is_file() else []
    try:
        return [StoredFigure(**json.loads(line)) for line in lines if line]
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: found a line that is no figure ({error})") from error


def append_figures(figures: Iterable[StoredFigure], folder: Path = RESULTS) -> None:
    """Add figures to the files of their tables."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        path = results_path(figure.table, folder)
        text = path.read_text() if path.is_file() else ""
        whole = text[: text.rfind("\n") + 1]
        path.write_text(f"{whole}{figure.line()}\n")


def config_hash(plan: Plan, cell: Cell) -> str:
    """Return the hash of the configs that a cell is read from, at seed 0."""
    hashes = [config.hash for config in plan.configs(cell, 0)]  # none where nothing is trained
    return hashes[0] if len(hashes) == 1 else _digest(hashes)


def _digest(hashes: list[str]) -> str:
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class StoredCells:
    """An entry's cells as far as the store knows them: what tables and figures are made of."""

    plan: Plan
    folder: Path = RESULTS

    @classmethod
    def of(cls, entry: Entry, folder: Path = RESULTS) -> StoredCells:
        """Return the cells of a whole entry."""
        return cls(Plan(entry, Options(Path("runs"), seeds=1)), folder)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the entry's cells."""
        return self.plan.cells

    @cached_property
    def _figures(self) -> dict[tuple[str, str], list[StoredFigure]]:
        found: dict[tuple[str, str], list[StoredFigure]] = {}
        for figure in read_figures(self.plan.entry.name, self.folder):
            found.setdefault(figure.key, []).append(figure)
        return found

    def figures(self, cell: Cell) -> list[StoredFigure]:
        """Return all stored figures of a cell."""
        return self._figures.get((cell.row, cell.column), [])

    def runs(self, cell: Cell) -> list[tuple[RunFolder, ...]]:
        """Return nothing: a store has no runs."""
        return []

    def estimate(self, cell: Cell) -> Estimate | None:
        """Return the mean over seeds, or the earlier mean where it is of more seeds."""
        # An exact figure of seed 0 comes after the rounded one of an earlier page.
        known = sorted(self.figures(cell), key=lambda figure: figure.seed is not None)
        by_seed = {f.single_seed: f.figure for f in known if f.single_seed is not None}
        earlier = max((f for f in known if f.seeds), key=lambda f: f.seeds or 0, default=None)
        if earlier is not None and (earlier.seeds or 0) > len(by_seed):
            return Estimate(earlier.figure, earlier.half_width, earlier.seeds or 1)
        return estimate(list(by_seed.values())) if by_seed else None
