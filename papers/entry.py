"""An entry: one of a paper's tables or figures as data, with the runs that give our side of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from papers.statistics import Estimate
from securefg.reports.figures.canvas import Figure
from securefg.runs.folder import RunFolder


@dataclass(frozen=True)
class Unit:
    """What a table counts in. `tolerance` is what the verdict calls close, `close` its words."""

    name: str
    decimals: int
    tolerance: float
    close: str


PERCENT = Unit("%", 1, 1.5, "within 1.5 points")
POINTS = Unit("points", 1, 1.5, "within 1.5 points")
MEBIBYTES = Unit("MiB", 2, 0.005, "equal as printed")
SCORE = Unit("", 3, 0.0, "equal")


@dataclass(frozen=True)
class Source:
    """A run: a file of `configs/` and what is set otherwise. The seed comes on top."""

    config: str
    overrides: tuple[str, ...] = ()


# From the runs of one seed, in the order of a cell's sources, to its value in the entry's unit.
Reader = Callable[[Sequence[RunFolder]], float]
# From the same runs to the one whose curve is drawn.
Shown = Callable[[Sequence[RunFolder]], RunFolder]


def first_run(runs: Sequence[RunFolder]) -> RunFolder:
    return runs[0]


@dataclass(frozen=True)
class Cell:
    """One number. `paper` is None where the paper prints none, `interval` is half its width."""

    row: str
    column: str
    sources: tuple[Source, ...]
    read: Reader
    paper: float | None = None
    interval: float | None = None
    unit: Unit = PERCENT
    shown: Shown = first_run

    @property
    def key(self) -> str:
        return f"{self.row} / {self.column}"


class Measured(Protocol):
    """What figures are drawn from: our side of an entry, as far as it was run."""

    @property
    def cells(self) -> tuple[Cell, ...]: ...
    def estimate(self, cell: Cell) -> Estimate | None: ...
    def runs(self, cell: Cell) -> list[tuple[RunFolder, ...]]: ...


Drawing = Callable[[Measured], Sequence[Figure]]


@dataclass(frozen=True)
class Entry:
    """A table or figure of a paper.

    seeds   repeats of every run; the paper's own number unless `about` says otherwise
    quick   what `--quick` sets on top, so that the whole takes seconds
    """

    name: str
    title: str
    paper: str
    cells: tuple[Cell, ...]
    seeds: int
    quick: tuple[str, ...]
    about: str = ""
    draw: tuple[Drawing, ...] = ()

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.column for cell in self.cells))
