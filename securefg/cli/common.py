"""What commands share: options, exit codes, and how they speak."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

INTERRUPTED: Final = 130
PART_FAILED: Final = 3

Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="a.b=c", help="Override a setting.")
]
Quietly = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but errors.")]


def complain(message: str) -> None:
    """One or two lines on standard error."""
    sys.stderr.write(f"securefg: {message}\n")
