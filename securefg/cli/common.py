"""Parts that commands share: options, exit codes, and how they speak."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from securefg.foundation.errors import InputError
from securefg.foundation.quoting import printable

if TYPE_CHECKING:
    from securefg.sweep.cache import Failure

INTERRUPTED: Final = 130
PART_FAILED: Final = 3

Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="a.b=c", help="Override a setting.")
]
Trusting = Annotated[
    bool,
    typer.Option("--trust-modules", help="Import modules that the folder's config names."),
]
Quietly = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but errors.")]


def show_line(text: str, console: Console | None = None) -> None:
    """Print one line as it is: no markup, no wrapping, nothing that moves the cursor."""
    shown = printable(text, keep="")
    (console or Console()).print(shown, highlight=False, markup=False, soft_wrap=True)


def require_consent(question: str, yes: bool) -> None:
    """Go on where the user agrees, at the terminal or by `--yes`. Exit or raise otherwise."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError(f"{question}: found no terminal to ask at; expected --yes")
    if not typer.confirm(printable(f"{question}; go on?")):
        raise typer.Exit(1)


def end_sweep(failed: Sequence[Failure], interrupted: bool) -> None:
    """Name the points that failed. Exit where there are any, or where the sweep was interrupted."""
    for failure in failed:
        print_complaint(f"failed: {failure.key}: {failure.reason}")
    if interrupted:
        print_complaint("interrupted; run the same command again to continue")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(1)


def print_complaint(message: str) -> None:
    """One or two lines on standard error."""
    text = printable(f"securefg: {message}\n")
    sys.stderr.write(text.encode(errors="backslashreplace").decode())
