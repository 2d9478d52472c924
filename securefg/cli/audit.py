"""`securefg audit`: attack what was recorded; compare with what was promised."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from securefg.cli.common import PART_FAILED, Quietly, Trusting, show_line
from securefg.cli.profile import Profile, Profiled, profiling
from securefg.foundation.errors import SecurefgError
from securefg.foundation.extensions import only_known_modules

if TYPE_CHECKING:
    from audits.findings.record import Finding
    from audits.plan import Plan
    from audits.run import Audit


class Gate(StrEnum):
    """The mildest verdict that makes a command fail."""

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
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough", help="Search for fresh seeds of 32 bits and remove more nodes: minutes."
        ),
    ] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="audit.key=value", help="Override an audit setting."),
    ] = None,
    trust_modules: Trusting = False,
    quiet: Quietly = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    profile: Profiled = False,
) -> None:
    """Attack what was recorded; compare with what was promised."""
    if target is not None or str(run) == "mechanism":
        from securefg.cli.mechanism import measure_mechanism

        measure_mechanism(run, target, min(trials, 20_000), seed, overrides or [], as_json)
        return
    from audits.findings.record import Verdict
    from audits.plan import Plan

    plan = Plan(
        only=tuple(only or ()),
        more=tuple(attack or ()),
        adversaries=tuple(adversary or ()),
        jobs=jobs,
        seed=seed,
        trials=trials,
        thorough=thorough,
        overrides=tuple(overrides or ()),
    )
    console = Console(stderr=as_json)
    with profiling(profile) as phases:
        found, page = _carried_out(run, plan, console, quiet or as_json, trust_modules, phases)
    if as_json:
        print_findings(found.findings)
    elif not quiet:
        _show(console, run, found, page)
    gates = [Verdict.VIOLATION] + ([Verdict.LEAK] if fail_on is Gate.LEAK else [])
    if any(finding.verdict in gates for finding in found.findings):
        raise typer.Exit(1)
    if found.failed:
        raise typer.Exit(PART_FAILED)


def _carried_out(
    run: Path, plan: Plan, console: Console, quiet: bool, trust_modules: bool, phases: Profile
) -> tuple[Audit, Path | None]:
    """The audit, told on the console as it goes, and the run's page where it has one."""
    from audits.run import audit as carry_out
    from securefg.protocol.exchange import is_foreign

    with (
        only_known_modules(unless=trust_modules),
        telling(console, "reading the run", quiet) as told,
    ):
        phases.begin("reading")

        def observed(what: str, done: int, total: int) -> None:
            phases.begin("attacks")
            told(what, done, total)

        try:
            found = carry_out(run, plan, observed)
            phases.begin("report")
        except (KeyboardInterrupt, SystemExit):  # what it found is on the page, and that it ended
            with suppress(SecurefgError):
                _pages(run)
            raise
        return found, None if is_foreign(run) else _pages(run)


def _pages(run: Path) -> Path:
    """The run's page, and the printable one where there is any, with the findings that are stored
    now: none is left that tells of earlier ones."""
    from securefg.reports import build_report
    from securefg.reports.dpo import build_dpo_page
    from securefg.runs.folder import RunFolder
    from securefg.runs.seal import sign_page

    folder = RunFolder.open(run)
    page = build_report(folder)
    sign_page(folder, page)
    if (run / "dpo.html").is_file():
        sign_page(folder, build_dpo_page(folder))
    return page


@contextmanager
def telling(console: Console, first: str, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show what is being done and how much of it is done, unless `quiet`."""
    with nullcontext() if quiet else console.status(first) as status:

        def told(what: str, done: int, total: int) -> None:
            if status is not None:
                status.update(f"{done} of {total}: {escape(what)}")

        yield told


def print_findings(findings: list[Finding]) -> None:
    """Write the findings as JSON to standard output."""
    dumped = [finding.model_dump(mode="json") for finding in findings]
    sys.stdout.write(json.dumps(dumped, indent=2, allow_nan=False) + "\n")


def show_findings(console: Console, findings: list[Finding], between: Table | None) -> None:
    """Print a table of what was measured, a table between, and one of what was not measured."""
    from audits.table import findings_table, not_measured_table

    tables = [findings_table(findings, console.width), between]
    if any(not finding.measured for finding in findings):
        tables.append(not_measured_table(findings))
    for number, table in enumerate(filter(None, tables)):
        if number:
            console.print()
        console.print(table)


def _show(console: Console, run: Path, found: Audit, page: Path | None) -> None:
    show_findings(console, found.findings, None)
    written = {"findings": run / "audit" / "findings.json", "report": page}
    for name, path in written.items():
        if path is not None:
            show_line(f"{name:<8}  {path}", console)
