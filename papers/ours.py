"""Our side of an entry: the finished runs of a plan, read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from papers.entry import Cell
from papers.plan import Plan
from papers.statistics import Estimate, estimate
from securefg.runs.folder import RunFolder
from securefg.sweep import find_runs


@dataclass(frozen=True)
class Ours:
    """What has been run of a plan so far; it looks into the root when first asked."""

    plan: Plan

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.plan.cells

    @cached_property
    def _found(self) -> dict[str, RunFolder]:
        wanted = {point.config.hash for point in self.plan.points}
        found = {k: run for k, run in find_runs(self.plan.options.root).items() if k in wanted}
        for run in found.values():
            run.config()  # raises where a default was another one then
        return found

    def runs(self, cell: Cell) -> list[tuple[RunFolder, ...]]:
        """The runs of a cell, a tuple per seed; seeds with a run missing are left out."""
        seeds = range(self.plan.num_seeds)
        hashes = [[config.hash for config in self.plan.configs(cell, seed)] for seed in seeds]
        whole = [each for each in hashes if all(one in self._found for one in each)]
        return [tuple(self._found[one] for one in each) for each in whole]

    def estimate(self, cell: Cell) -> Estimate | None:
        """None where no seed was finished."""
        values = [cell.read(folders) for folders in self.runs(cell)]
        return estimate(values) if values else None
