"""`securefg rehearse`: what a server that lies could learn, on a throw-away federation."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from securefg.cli.audit import Gate
from securefg.cli.common import PART_FAILED, Overrides, Quietly
from securefg.foundation.errors import ConfigError
from securefg.foundation.quoting import printable

if TYPE_CHECKING:
    from audits.rehearsals.rehearse import Rehearsal


def rehearse(
    config: Annotated[Path, typer.Argument(help="A run's YAML config.")],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ATTACK", help="Run only these active attacks."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for targets, lies and controls.")] = 0,
    fail_on: Annotated[
        Gate, typer.Option(help="Exit 1 on this verdict or a worse one.")
    ] = Gate.VIOLATION,
    overrides: Overrides = None,
    quiet: Quietly = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Play servers that lie against a throw-away federation of this config.

    The federation is made for it, in this process, and deleted; no run and no site is touched.
    """
    from audits.rehearsals.rehearse import rehearse as carry_out
    from securefg.run.findings import Verdict
    from securefg.settings.config import load_config

    if config.is_dir():
        raise ConfigError(
            f"{config} is a folder; wanted a config: a rehearsal makes a federation of its own; "
            "recorded runs are for `securefg audit`"
        )
    console = Console(stderr=as_json)
    silent = quiet or as_json
    with nullcontext() if silent else console.status("dealing out the data") as status:

        def told(what: str, done: int, total: int) -> None:
            if status is not None:
                status.update(f"{done} of {total}: {escape(what)}")

        found = carry_out(load_config(config, overrides or []), tuple(only or ()), seed, told)
    if as_json:
        dumped = [finding.model_dump(mode="json") for finding in found.findings]
        sys.stdout.write(json.dumps(dumped, indent=2, allow_nan=False) + "\n")
    elif not quiet:
        _show(console, found)
    if fail_on is Gate.LEAK and any(f.verdict is Verdict.LEAK for f in found.findings):
        raise typer.Exit(1)
    if found.failed:
        raise typer.Exit(PART_FAILED)


def _show(console: Console, found: Rehearsal) -> None:
    from audits.rehearsals.table import lies_table
    from audits.table import findings_table, not_measured_table

    console.print(findings_table(found.findings, console.width))
    console.print()
    console.print(lies_table(found.findings))
    if any(not finding.measured for finding in found.findings):
        console.print()
        console.print(not_measured_table(found.findings))
    floor = f"would take no part: {found.floor}" if found.floor else "would take part"
    text = printable(f"\na site with the default floor {floor}", keep="\n")
    console.print(text, highlight=False, markup=False)
