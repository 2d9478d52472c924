"""`securefg rehearse`: what a server that lies could learn, on a throw-away federation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from securefg.cli.audit import Gate, print_findings, show_answer, show_progress
from securefg.cli.common import PART_FAILED, Overrides, Quietly
from securefg.foundation.collection import import_uncollected
from securefg.foundation.errors import ConfigError
from securefg.foundation.quoting import printable

if TYPE_CHECKING:
    from audits.rehearsals.rehearse import Rehearsal
    from securefg.settings.config import RunConfig


def rehearse(
    config: Annotated[Path, typer.Argument(help="A run's YAML config.")],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ATTACK", help="Run only these active attacks."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for targets, lies and controls.")] = 0,
    fail_on: Annotated[
        Gate, typer.Option(case_sensitive=False, help="Exit 1 on this verdict or a worse one.")
    ] = Gate.VIOLATION,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every attack, and what does not apply.")
    ] = False,
    overrides: Overrides = None,
    quiet: Quietly = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Play servers that lie against a throw-away federation of this config.

    The federation is made for it, in this process, and deleted; no run and no site is touched.
    """
    import_uncollected("torch")
    from audits.findings.record import Verdict
    from audits.rehearsals.rehearse import rehearse_attacks as carry_out
    from securefg.settings.config import load_config

    if config.is_dir():
        raise ConfigError(
            f"{config}: found a folder; expected a config, since a rehearsal makes a federation of "
            "its own; recorded runs are for `securefg audit`"
        )
    console = Console(stderr=as_json)
    with show_progress(console, "dealing out the data", quiet or as_json) as told:
        parsed = load_config(config, overrides or [])
        rehearsal = carry_out(parsed, tuple(only or ()), seed, told)
    if as_json:
        print_findings(rehearsal.findings)
    elif not quiet:
        _print_rehearsal(console, parsed, rehearsal, everything)
    if fail_on is not Gate.VIOLATION and any(f.verdict is Verdict.LEAK for f in rehearsal.findings):
        raise typer.Exit(1)
    if rehearsal.failed:
        raise typer.Exit(PART_FAILED)


def _print_rehearsal(
    console: Console, config: RunConfig, rehearsal: Rehearsal, everything: bool
) -> None:
    from audits.answer.build import facts_of_config, make_answer
    from audits.rehearsals.rehearse import lies_table

    show_answer(console, make_answer(rehearsal.findings, facts_of_config(config)), everything)
    console.print()
    console.print(lies_table(rehearsal.findings))
    floor = f"would take no part: {rehearsal.floor}" if rehearsal.floor else "would take part"
    text = printable(f"\na site with the default floor {floor}", keep="\n")
    console.print(text, highlight=False, markup=False)
