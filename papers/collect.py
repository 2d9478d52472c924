"""Collecting: runs what the store lacks, one point after another, in this process.

A killed collection goes on: stored cells are skipped, and an unfinished run resumes at its last
checkpoint. Runs are removed once all cells that read them are stored.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from papers.entry import Cell
from papers.plan import Plan
from papers.store import StoredFigure, append_figures, config_hash, read_figures
from securefg.foundation.errors import SecurefgError
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig
from securefg.sweep import Failure, find_run

# From configs of one seed to their test accuracies in percent, as far as it can make them at once.
Batch = Callable[[Sequence[RunConfig]], dict[str, float]]


@dataclass(frozen=True)
class Todo:
    """A cell and a seed without a stored figure."""

    cell: Cell
    seed: int
    configs: tuple[RunConfig, ...]


def missing(plan: Plan, folder: Path) -> Iterator[Todo]:
    """Yield what the store lacks, seed after seed, so that all cells get a first figure early.

    An earlier mean over as many seeds as the plan wants stands for all of them.
    """
    figures = read_figures(plan.entry.name, folder)
    known = {(*f.key, f.single_seed) for f in figures}
    means = {f.key for f in figures if (f.seeds or 0) >= plan.num_seeds}
    for seed in range(plan.num_seeds):
        for cell in plan.cells:
            key = (cell.row, cell.column)
            if key not in means and (*key, seed) not in known:
                yield Todo(cell, seed, plan.configs(cell, seed))


def collect(
    plan: Plan, folder: Path, say: Callable[[str], None], batch: Batch | None
) -> list[Failure]:
    """Run and store what is missing of a plan. Return the cells that could not be made."""
    todos, failed = list(missing(plan, folder)), list[Failure]()
    for seed in sorted({todo.seed for todo in todos}):
        seed_todos = [todo for todo in todos if todo.seed == seed]
        if batch is not None:
            seed_todos = _in_batches(plan, seed_todos, folder, say, batch)
        failed += _one_by_one(plan, seed_todos, folder, say)
        for todo in seed_todos:
            _remove_runs(todo)
    return failed


def _in_batches(
    plan: Plan, todos: list[Todo], folder: Path, say: Callable[[str], None], batch: Batch
) -> list[Todo]:
    """Store what one batch makes, dataset by dataset. Return what is left."""
    left = [todo for todo in todos if len(todo.configs) != 1]
    single = [todo for todo in todos if len(todo.configs) == 1]
    for config in dict.fromkeys(todo.configs[0].name for todo in single):
        group = [todo for todo in single if todo.configs[0].name == config]
        start = time.process_time()
        made = batch([todo.configs[0] for todo in group])
        done = [todo for todo in group if todo.configs[0].hash in made]
        append_figures(
            (_figure(plan, todo, made[todo.configs[0].hash], batched=True) for todo in done),
            folder,
        )
        if done:
            seconds = time.process_time() - start
            say(f"{plan.entry.name}, {config}, seed {done[0].seed}: {len(done)} in {seconds:.0f} s")
        left += [todo for todo in group if todo.configs[0].hash not in made]
    return left


def _one_by_one(
    plan: Plan, todos: list[Todo], folder: Path, say: Callable[[str], None]
) -> list[Failure]:
    failed = []
    for todo in todos:
        start = time.process_time()
        try:
            runs = [_run(config) for config in todo.configs]
            figure = todo.cell.read(runs)
        except SecurefgError as error:
            key = f"{plan.entry.name}: {todo.cell.key}, seed {todo.seed}"
            failed.append(Failure(key, config_hash(plan, todo.cell), " ".join(str(error).split())))
            say(f"failed: {key}: {error}")
            continue
        append_figures([_figure(plan, todo, figure)], folder)
        seconds = time.process_time() - start
        say(f"{plan.entry.name}: {todo.cell.key}, seed {todo.seed}: {figure:.3f} ({seconds:.0f} s)")
    return failed


def _run(config: RunConfig) -> RunFolder:
    """Return the finished run of a config: found, resumed or started."""
    found = find_run(config.output.root, config.hash)
    if found is not None and found.finished:
        return found
    outcome = runner.start(config) if found is None else runner.resume(found)
    return outcome.folder


def _figure(plan: Plan, todo: Todo, figure: float, batched: bool = False) -> StoredFigure:
    cell = todo.cell
    words = ["securefg", "reproduce", plan.entry.name, "--collect"]
    words += ["--rows", cell.row, "--columns", cell.column]
    return StoredFigure(
        table=plan.entry.name,
        row=cell.row,
        column=cell.column,
        seed=todo.seed,
        figure=round(figure, 6),
        config=config_hash(plan, cell),
        command=shlex.join(words) + ("" if batched else " --engine"),
    )


def _remove_runs(todo: Todo) -> None:
    for config in todo.configs:
        found = find_run(config.output.root, config.hash)
        if found is not None:
            shutil.rmtree(found.path)
