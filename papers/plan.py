"""A plan: which runs an entry needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import securefg
from papers.entry import Cell, Entry, Source
from securefg.data.datasets import load
from securefg.foundation.errors import ConfigError, InputError
from securefg.foundation.suggestions import list_names
from securefg.settings.config import RunConfig, load_config
from securefg.sweep import Point

# Tables need no message bodies; without them hundreds of runs fit on a small disk.
FRUGAL = ("output.transcript_every=0",)
QUICK_SEEDS = 2


@dataclass(frozen=True)
class Options:
    """What the command line asks: None leaves what the entry has."""

    root: Path
    seeds: int | None = None
    quick: bool = False
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """An entry cut to what was asked for, with a config for each of its runs."""

    entry: Entry
    options: Options

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.entry.cells

    @property
    def num_seeds(self) -> int:
        if self.options.seeds is not None:
            return self.options.seeds
        return min(QUICK_SEEDS, self.entry.seeds) if self.options.quick else self.entry.seeds

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Every run once per cell that reads it; the sweep sees which are the same."""
        return tuple(
            Point(f"{self.entry.name}: {cell.key}, seed {seed}", config)
            for seed in range(self.num_seeds)
            for cell in self.cells
            for config in self.configs(cell, seed)
        )

    def configs(self, cell: Cell, seed: int) -> tuple[RunConfig, ...]:
        return tuple(self._configs[source, seed] for source in cell.sources)

    @cached_property
    def _configs(self) -> dict[tuple[Source, int], RunConfig]:
        sources = dict.fromkeys(source for cell in self.cells for source in cell.sources)
        seeds = range(self.num_seeds)
        return {(source, seed): self._config(source, seed) for source in sources for seed in seeds}

    def _config(self, source: Source, seed: int) -> RunConfig:
        quick = self.entry.quick if self.options.quick else ()
        extra = (f"seed={seed}", f"output.root={self.options.root}")
        overrides = [*FRUGAL, *source.overrides, *quick, *self.options.overrides, *extra]
        return load_config(find_config(source.config), overrides)


def make_plan(entry: Entry, options: Options) -> Plan:
    """The rows and columns whose names begin as asked; of a quick plan's rows the first alone."""
    rows = _chosen(entry.name, "rows", options.rows, entry.rows)
    columns = _chosen(entry.name, "columns", options.columns, entry.columns)
    rows = rows[:1] if options.quick else rows
    cells = tuple(cell for cell in entry.cells if cell.row in rows and cell.column in columns)
    return Plan(replace(entry, cells=cells), options)


def _chosen(
    entry: str, kind: str, asked: tuple[str, ...], known: tuple[str, ...]
) -> tuple[str, ...]:
    beginnings = tuple(name.lower() for name in asked)
    chosen_names = tuple(name for name in known if name.lower().startswith(beginnings))
    if asked and not chosen_names:
        raise InputError(
            f"--{kind}: found {','.join(asked)}; expected {list_names(known)} ({entry})"
        )
    return chosen_names if asked else known


def check_data(points: Sequence[Point]) -> None:
    """Load every dataset once, so that one that is missing is told before anything has run."""
    settings = {str(point.config.data): point.config for point in points}
    for config in settings.values():
        load(config.data, config.seed)


def find_config(name: str) -> Path:
    """`configs/` of the current folder, else that of the checkout this package lies in."""
    folders = (Path("configs"), Path(securefg.__file__).parents[1] / "configs")
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(
        f"configs/{name}: not found here or in {folders[1]}; "
        "configs come with a checkout of the repository, not with the package: run from there"
    )
