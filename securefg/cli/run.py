"""`securefg run`: train; every message recorded and accounted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from securefg.cli.common import INTERRUPTED, Overrides, Quietly, print_complaint, show_line
from securefg.cli.profile import Phases, Profile, Profiled, profile_phases
from securefg.foundation.collection import import_uncollected
from securefg.foundation.errors import InputError, RunFolderError


def run(
    config: Annotated[
        Path | None,
        typer.Argument(help="A YAML config, or a shipped one by name.", show_default=False),
    ] = None,
    overrides: Overrides = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Continue an interrupted run.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Replace an earlier run of this config.")
    ] = False,
    quiet: Quietly = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    profile: Profiled = False,
) -> None:
    """Train; every message recorded and accounted."""
    with profile_phases(profile) as phases:
        _run_config(config, overrides or [], resume, fresh, quiet, as_json, phases)


def _run_config(
    config: Path | None,
    overrides: list[str],
    resume: Path | None,
    fresh: bool,
    quiet: bool,
    as_json: bool,
    phases: Profile,
) -> None:
    import_uncollected("torch")
    from securefg.cli.summary import summary_table
    from securefg.flare import launch
    from securefg.reports import build_report
    from securefg.runs.divergence import DIVERGED
    from securefg.runs.folder import RunFolder
    from securefg.runs.observing import Several
    from securefg.runs.progress import Bar, Interrupt, Lines, Quiet
    from securefg.runs.scores import explain_useless
    from securefg.runs.seal import sign_page
    from securefg.runs.summary import ABORTED
    from securefg.settings.config import load_config

    if resume is not None and config is None and overrides:
        raise InputError(
            f"--set {overrides[0]}: a run goes on as it was begun; without --resume, "
            "`securefg run CONFIG --set ...` begins another"
        )
    parsed = None if config is None else load_config(config, overrides)
    console = Console(stderr=as_json, markup=False)
    with Interrupt() as interrupt:
        observer: Quiet = Lines(interrupt, console)
        if quiet or as_json:
            observer = Quiet(interrupt)
        elif console.is_terminal:
            observer = Bar(interrupt, console)
        watching = Several((observer, Phases(phases)))
        phases.begin("data, hosts")
        with observer:
            if resume is not None:
                folder = RunFolder.open(resume)
                if parsed is not None and parsed.hash != folder.config().hash:
                    raise RunFolderError(
                        f"{resume}: a run of another config: its hash is {folder.config().hash}, "
                        f"that of {config} is {parsed.hash}"
                    )
                outcome = launch.resume(folder, watching)
            elif parsed is None:
                raise InputError("CONFIG: found nothing; expected a config, or --resume RUN")
            else:
                outcome = launch.start(parsed, watching, fresh=fresh)
    phases.begin("report")
    if outcome.summary is None:
        again = f"securefg run --resume {outcome.folder.path}"
        Console(stderr=True, markup=False).print(
            f"interrupted; continue with: {again}", soft_wrap=True
        )
        raise typer.Exit(128 + interrupt.number if interrupt.number else INTERRUPTED)
    report = build_report(outcome.folder)
    sign_page(outcome.folder, report)
    if as_json:
        sys.stdout.write(outcome.summary.model_dump_json(indent=2) + "\n")
    elif not quiet:
        if useless := explain_useless(outcome.folder.config(), outcome.summary):
            console.print(useless, style="bold red")
        console.print(summary_table(outcome.summary))
        show_line(f"run     {outcome.folder.path}", console)
        show_line(f"report  {report}", console)
        show_line(f"next    securefg audit {outcome.folder.path}", console)
    if outcome.summary.stopped.startswith((DIVERGED, ABORTED)):
        print_complaint(outcome.summary.stopped)
        raise typer.Exit(1)
