"""What commands share: options, exit codes, and how they speak."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from securefg.foundation.quoting import printable

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


def complain(message: str) -> None:
    """One or two lines on standard error."""
    text = printable(f"securefg: {message}\n")
    sys.stderr.write(text.encode(errors="backslashreplace").decode())
