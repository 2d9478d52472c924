"""`securefg doctor`: what this machine has, and whether it computes what it should."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.markup import escape

from securefg.foundation.quoting import printable


def doctor() -> None:
    """Versions, extras, data and devices; small runs are compared, and a GPU is proved by one."""
    from securefg.runs.doctor import examine_machine

    console, wrong = Console(), False
    for line in examine_machine():
        wrong = wrong or bool(line.bad)
        state = "[red]wrong[/]" if line.bad else "[green]ok[/]   "
        text = f"{line.found}: {line.bad}" if line.bad else line.found
        console.print(f"{state}  {escape(line.what)}: {escape(printable(text))}")
    raise typer.Exit(1 if wrong else 0)
