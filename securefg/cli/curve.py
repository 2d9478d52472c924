"""`securefg curve`: sweep a defence; one page with accuracy and leakage against epsilon."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from securefg.cli.common import Quietly, end_sweep, show_line
from securefg.cli.profile import Profiled, profile_phases
from securefg.foundation.collection import import_uncollected


def curve(
    config: Annotated[
        Path, typer.Argument(help="A curve's YAML config, or a shipped one by name.")
    ],
    jobs: Annotated[int, typer.Option(min=1, help="Number of points run in parallel.")] = 2,
    root: Annotated[Path, typer.Option(help="Folder for curves.")] = Path("curves"),
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds per point.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="a.b=c",
            help="Override a setting of the curve, or of every run: run.a.b=c.",
        ),
    ] = None,
    quiet: Quietly = False,
    profile: Profiled = False,
) -> None:
    """Sweep a defence; one page with accuracy and leakage against epsilon."""
    import_uncollected("torch")
    from audits.curves.command import draw_curve
    from securefg.sweep.display import display_for

    console = Console()
    display = None if quiet else display_for(console)
    tell = partial(_print_line, console, quiet)
    with profile_phases(profile) as phases:
        phases.begin("points, page")
        drawn = draw_curve(config, root, jobs, seeds, display, overrides or [], tell)
    for choice in () if quiet else drawn.data.choices:
        console.print(f"[bold]{escape(choice.series)}[/]: {escape(choice.words)}", highlight=False)
    if not quiet:
        show_line(f"page  {drawn.page}", console)
    end_sweep(drawn.failed, drawn.interrupted)


def _print_line(console: Console, quiet: bool, line: str) -> None:
    """Show what is known before the work, unless nothing but errors is to be shown."""
    if not quiet:
        show_line(line, console)
