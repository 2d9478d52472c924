"""`securefg reproduce`: run what is missing, then write what was found."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from papers.cnfgnn import run_cnfgnn
from papers.collect import Batch, collect
from papers.entry import Entry
from papers.fedgl_batch import run_batch
from papers.gfl_batch import run_together
from papers.ours import Ours
from papers.output import write_outputs, write_section
from papers.plan import Options, Plan, check_data, make_plan
from papers.store import RESULTS
from papers.table import Reproduction, reproduction
from securefg.foundation.errors import InputError, SecurefgError
from securefg.reports.figures.canvas import Figure
from securefg.settings.config import RunConfig
from securefg.sweep import Failure, find_runs, sweep_points
from securefg.sweep.display import display_for


@dataclass(frozen=True)
class Asked:
    """The command line: entries, how to run them, and where results go."""

    entries: tuple[Entry, ...]
    options: Options
    jobs: int
    out: Path
    docs: Path | None = None
    stored: bool = False


@dataclass(frozen=True)
class Told:
    """What became of it: the pages written, and all that failed."""

    pages: tuple[tuple[Reproduction, Path], ...]
    failed: tuple[Failure, ...]
    interrupted: bool


def reproduce(asked: Asked, console: Console) -> Told:
    """Every entry's table, from runs that are all done first; bad input is told before any run."""
    _check_docs(asked)
    plans = [make_plan(entry, asked.options) for entry in asked.entries]
    failed: tuple[Failure, ...] = ()
    if not asked.stored:
        points = [point for plan in plans for point in plan.points]
        done = find_runs(asked.options.root)
        check_data([point for point in points if point.config.hash not in done])
        outcome = sweep_points(points, asked.options.root, asked.jobs, display=display_for(console))
        failed = outcome.failed
        if outcome.interrupted:
            return Told((), failed, True)
    pages: list[tuple[Reproduction, Path]] = []
    unwritten: list[Failure] = []
    for plan in plans:
        try:
            pages.append(_write(plan, asked, failed))
        except SecurefgError as error:  # the other entries still get their tables
            unwritten.append(Failure(plan.entry.name, "", " ".join(str(error).split())))
    return Told(tuple(pages), (*failed, *unwritten), False)


def _check_docs(asked: Asked) -> None:
    if asked.docs and (asked.options.quick or asked.options.overrides):
        raise InputError("--docs: takes full runs as shipped, without --quick and --set")


def _write(plan: Plan, asked: Asked, failed: Sequence[Failure]) -> tuple[Reproduction, Path]:
    ours = Ours(plan)
    hashes = {point.config.hash for point in plan.points}
    own = [failure for failure in failed if failure.config_hash in hashes]
    result = reproduction(ours, own, command_line(plan))
    figures: list[Figure] = [figure for draw in plan.entry.draw for figure in draw(ours)]
    folder = asked.out / (f"{plan.entry.name}-quick" if plan.options.quick else plan.entry.name)
    path = write_outputs(result, figures, folder)
    if asked.docs:
        write_section(asked.docs, result, figures)
    return result, path


def command_line(plan: Plan) -> str:
    """The command that gives this table again, without where and with how many processes."""
    options = plan.options
    words = ["securefg", "reproduce", plan.entry.name]
    words += ["--seeds", str(options.seeds)] if options.seeds is not None else []
    words += ["--quick"] if options.quick else []
    words += ["--rows", ",".join(options.rows)] if options.rows else []
    words += ["--columns", ",".join(options.columns)] if options.columns else []
    for override in options.overrides:
        words += ["--set", override]
    return shlex.join(words)


def collect_entries(
    entries: Sequence[Entry], options: Options, engine: bool, console: Console
) -> tuple[Failure, ...]:
    """Run and store what `papers/results` lacks. Return the cells that failed.

    Quick figures are not judged. They go to a folder that is removed at the end.
    """
    if options.overrides:
        raise InputError("--collect: found --set; expected runs as shipped. Leave out --set")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if options.quick else RESULTS
        failed = _collect_into(folder, entries, options, engine, console)
    if options.quick:
        console.print("quick: nothing was judged or stored")
    return failed


def _collect_into(
    folder: Path, entries: Sequence[Entry], options: Options, engine: bool, console: Console
) -> tuple[Failure, ...]:
    batch: Batch | None = None if engine else batched
    failed = []
    for entry in entries:
        plan = make_plan(entry, replace(options, root=options.root / "collect"))
        failed += collect(plan, folder, lambda text: console.print(text, soft_wrap=True), batch)
    return tuple(failed)


def batched(configs: Sequence[RunConfig]) -> dict[str, float]:
    """Return the test accuracies of the runs that have a faster exact form, by their hashes."""
    return {**run_batch(configs), **run_cnfgnn(configs), **run_together(configs)}
