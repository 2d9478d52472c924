"""`securefg verify`: whether a run, its data and its pages are what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from securefg.cli.common import Quietly, Trusting
from securefg.foundation.extensions import only_known_modules
from securefg.foundation.quoting import printable


def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run's folder.")],
    key: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Public key that the pages must be signed with."),
    ] = None,
    trust_modules: Trusting = False,
    quiet: Quietly = False,
) -> None:
    """Check the hash chain, the fingerprints of the data, and the signatures of the pages."""
    from securefg.runs.folder import RunFolder
    from securefg.runs.seal import verify_run

    with only_known_modules(unless=trust_modules):
        checks = verify_run(RunFolder.open(run), key)
    console = Console(soft_wrap=True)
    for check in checks:
        word = "[red]wrong[/]" if check.wrong else "[yellow]not checked[/]"
        word = "ok   " if check.is_met else word
        text = escape(printable(check.wrong or check.unchecked or check.note))
        if not quiet:
            console.print(f"{check.name:12} {word}  {text}", highlight=False)
    if not all(check.is_met for check in checks):
        raise typer.Exit(1)
