"""`securefg audit`: attack what was recorded; compare with what was promised."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from securefg.cli.common import PART_FAILED, Quietly, Trusting
from securefg.foundation.extensions import only_known_modules
from securefg.foundation.quoting import printable


class Gate(StrEnum):
    VIOLATION = "VIOLATION"
    LEAK = "LEAK"


def audit(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A finished run's folder, or an exchange's; or `mechanism`."
        ),
    ],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE", help="With `mechanism`: the defence to measure, by module path."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTACK",
            help="Run only these attacks, or `promises`; stored findings of others stay.",
        ),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE", help="Also run this attack of your own, given by module path."
        ),
    ] = None,
    adversary: Annotated[
        list[str] | None, typer.Option(metavar="WHO", help="server, client:3,5, wire, outsider.")
    ] = None,
    fail_on: Annotated[
        Gate, typer.Option(help="Exit 1 on this verdict or a worse one.")
    ] = Gate.VIOLATION,
    jobs: Annotated[int, typer.Option(min=1, help="Number of attacks run in parallel.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed for targets and null controls.")] = 0,
    trials: Annotated[int, typer.Option(min=1000, help="Trials per noise mechanism.")] = 100_000,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="audit.key=value", help="Override an audit setting."),
    ] = None,
    trust_modules: Trusting = False,
    quiet: Quietly = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Attack what was recorded; compare with what was promised."""
    if target is not None or str(run) == "mechanism":
        from securefg.cli.mechanism import measure_mechanism

        measure_mechanism(run, target, min(trials, 20_000), seed, overrides or [], as_json)
        return
    from audits.plan import Plan
    from audits.run import audit as carry_out
    from audits.table import findings_table, not_measured_table
    from securefg.protocol.exchange import is_foreign
    from securefg.reports import build_report
    from securefg.run.findings import Verdict
    from securefg.run.folder import RunFolder
    from securefg.run.seal import sign_page

    plan = Plan(
        only=tuple(only or ()),
        more=tuple(attack or ()),
        adversaries=tuple(adversary or ()),
        jobs=jobs,
        seed=seed,
        trials=trials,
        overrides=tuple(overrides or ()),
    )
    console = Console(stderr=as_json)
    with (
        only_known_modules(unless=trust_modules),
        nullcontext() if quiet or as_json else console.status("reading the run") as status,
    ):

        def told(what: str, done: int, total: int) -> None:
            if status is not None:
                status.update(f"{done} of {total}: {escape(what)}")

        found = carry_out(run, plan, told)
        page = None
        if not is_foreign(run):
            page = build_report(RunFolder.open(run))
            sign_page(RunFolder.open(run), page)
    if as_json:
        dumped = [finding.model_dump(mode="json") for finding in found.findings]
        sys.stdout.write(json.dumps(dumped, indent=2, allow_nan=False) + "\n")
    elif not quiet:
        console.print(findings_table(found.findings, console.width))
        if any(not finding.measured for finding in found.findings):
            console.print()
            console.print(not_measured_table(found.findings))
        console.print(
            printable(f"findings  {run / 'audit' / 'findings.json'}", keep=""),
            highlight=False,
            markup=False,
        )
        if page is not None:
            console.print(
                printable(f"report    {page}", keep=""),
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
    gates = [Verdict.VIOLATION] + ([Verdict.LEAK] if fail_on is Gate.LEAK else [])
    if any(finding.verdict in gates for finding in found.findings):
        raise typer.Exit(1)
    if found.failed:
        raise typer.Exit(PART_FAILED)
