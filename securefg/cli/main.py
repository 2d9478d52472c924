"""The command line: `securefg run`, `audit`, `curve`, `list`, `report`, `reproduce`, `config`.

Exit codes: 0 done, 1 a finding or a failure, 2 bad input, 3 part of an audit failed, 130
interrupted (the run can be resumed).
"""

from __future__ import annotations

import json
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from securefg.cli.deploy import app as deploy_app
from securefg.foundation.errors import InputError, RunFolderError, SecurefgError
from securefg.run.summary import ClaimedEpsilon, Recovered, Summary

app = typer.Typer(
    help="Federated graph learning whose privacy is measured, not claimed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Look at configurations.", no_args_is_help=True)
app.add_typer(config_app, name="config")
app.add_typer(deploy_app, name="deploy")

INTERRUPTED = 130
PART_FAILED = 3

Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="a.b=c", help="Override a setting.")
]


class Kind(StrEnum):
    methods = "methods"
    datasets = "datasets"
    partitions = "partitions"
    attacks = "attacks"


class Format(StrEnum):
    html = "html"
    md = "md"
    json = "json"
    csv = "csv"


class Gate(StrEnum):
    VIOLATION = "VIOLATION"
    LEAK = "LEAK"


@app.command()
def run(
    config: Annotated[
        Path | None, typer.Argument(help="A YAML config.", show_default=False)
    ] = None,
    overrides: Overrides = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with an interrupted run.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train; every message recorded and accounted."""
    from securefg.flare import launch
    from securefg.reports import build_report
    from securefg.run.folder import RunFolder
    from securefg.run.progress import Bar, Interrupt, Lines, Quiet
    from securefg.settings.config import load_config

    parsed = None if config is None else load_config(config, overrides or [])
    console = Console(stderr=as_json)
    with Interrupt() as interrupt:
        observer: Quiet = Lines(interrupt, console)
        if quiet or as_json:
            observer = Quiet(interrupt)
        elif console.is_terminal:
            observer = Bar(interrupt, console)
        with observer:
            if resume is not None:
                folder = RunFolder.open(resume)
                if parsed is not None and parsed.hash != folder.config().hash:
                    raise RunFolderError(
                        f"{resume}: a run of another config: its hash is {folder.config().hash}, "
                        f"that of {config} is {parsed.hash}"
                    )
                outcome = launch.resume(folder, observer)
            elif parsed is None:
                raise InputError("nothing to run: give a CONFIG, or --resume RUN")
            else:
                outcome = launch.start(parsed, observer, fresh=fresh)
    if outcome.summary is None:
        again = f"securefg run --resume {outcome.folder.path}"
        Console(stderr=True).print(f"interrupted; go on with: {again}", soft_wrap=True)
        raise typer.Exit(INTERRUPTED)
    report = build_report(outcome.folder)
    if as_json:
        sys.stdout.write(outcome.summary.model_dump_json(indent=2) + "\n")
    elif not quiet:
        console.print(summary_table(outcome.summary))
        console.print(f"run     {outcome.folder.path}", highlight=False, soft_wrap=True)
        console.print(f"report  {report}", highlight=False, soft_wrap=True)


@app.command()
def audit(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A finished run's folder, or an exchange's.")
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTACK", help="These attacks alone, or `promises`; what is stored stays."
        ),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE", help="An attack of your own beside the others, by module path."
        ),
    ] = None,
    adversary: Annotated[
        list[str] | None, typer.Option(metavar="WHO", help="server, client:3,5, wire, outsider.")
    ] = None,
    fail_on: Annotated[Gate, typer.Option(help="Exit 1 from this verdict on.")] = Gate.VIOLATION,
    jobs: Annotated[int, typer.Option(min=1, help="Attacks at the same time.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Draws targets and nulls.")] = 0,
    trials: Annotated[int, typer.Option(min=1000, help="Per noise mechanism.")] = 100_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Attack what was recorded; compare with what was promised."""
    from audits.run import Plan
    from audits.run import audit as carry_out
    from audits.table import findings_table, not_measured_table
    from securefg.protocol.exchange import is_foreign
    from securefg.reports import build_report
    from securefg.run.findings import Verdict
    from securefg.run.folder import RunFolder

    plan = Plan(
        only=tuple(only or ()),
        more=tuple(attack or ()),
        adversaries=tuple(adversary or ()),
        jobs=jobs,
        seed=seed,
        trials=trials,
    )
    console = Console(stderr=as_json)
    with console.status("reading the run") as status:
        found = carry_out(
            run, plan, lambda what, done, total: status.update(f"{done} of {total}: {what}")
        )
    page = None if is_foreign(run) else build_report(RunFolder.open(run))
    if as_json:
        dumped = [finding.model_dump(mode="json") for finding in found.findings]
        sys.stdout.write(json.dumps(dumped, indent=2, allow_nan=False) + "\n")
    else:
        console.print(findings_table(found.findings, console.width))
        if any(not finding.measured for finding in found.findings):
            console.print()
            console.print(not_measured_table(found.findings))
        console.print(f"findings  {run / 'audit' / 'findings.json'}", highlight=False)
        if page is not None:
            console.print(f"report    {page}", highlight=False, soft_wrap=True)
    gates = [Verdict.VIOLATION] + ([Verdict.LEAK] if fail_on is Gate.LEAK else [])
    if any(finding.verdict in gates for finding in found.findings):
        raise typer.Exit(1)
    if found.failed:
        raise typer.Exit(PART_FAILED)


@app.command("list")
def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """List what there is, with one line each."""
    from securefg.cli.listing import rows

    header, body = rows(kind.value)
    table = Table(*header, box=None, pad_edge=False)
    for line in body:
        table.add_row(*line)
    Console().print(table if body else f"no {kind.value} yet")


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    form: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.html,
) -> None:
    """Rebuild the page of a finished run, or write its results in another form."""
    from securefg.reports.exports import export
    from securefg.run.folder import RunFolder

    folder = RunFolder.open(run)
    folder.summary()
    Console().print(str(export(folder, form.value)), soft_wrap=True, highlight=False)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page.", show_default="beside the first run"),
    ] = None,
) -> None:
    """Runs side by side: a table here, and a page."""
    from securefg.reports.compare import compare as side_by_side
    from securefg.reports.compare import write_comparison

    found = side_by_side(runs)
    console = Console()
    table = Table("", *found.names, box=None, pad_edge=False)
    for lines in (found.results, found.findings, found.settings):
        for line in lines:
            table.add_row(line.name, *line.values, style="bold" if line.differs else None)
        table.add_section()
    console.print(table)
    page = write_comparison(found, out or runs[0].resolve().parent / "compare.html")
    console.print(f"page  {page}", highlight=False, soft_wrap=True)


@app.command()
def reproduce(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="An entry, `all`, or `list`.")],
    seeds: Annotated[int | None, typer.Option(min=1, help="Repeats of every run.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 2,
    quick: Annotated[bool, typer.Option("--quick", help="A few rounds of the first row.")] = False,
    rows: Annotated[str, typer.Option(metavar="A,B", help="Rows that begin so.")] = "",
    columns: Annotated[str, typer.Option(metavar="A,B", help="Columns that begin so.")] = "",
    stored: Annotated[
        bool, typer.Option("--stored", help="Tables of the runs that are there; run nothing.")
    ] = False,
    overrides: Overrides = None,
    root: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/reproduce"),
    out: Annotated[
        Path | None, typer.Option(help="Where tables go.", show_default="ROOT/tables")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the entry's section of this file.")
    ] = None,
) -> None:
    """A paper's table or figure: run what is missing, ours beside theirs."""
    from papers.catalogue import ENTRIES, get_entries
    from papers.command import Asked
    from papers.command import reproduce as carry_out
    from papers.plan import Options

    console = Console()
    if entry == "list":
        table = Table("entry", "what", "cells", "seeds", box=None, pad_edge=False)
        for one in ENTRIES:
            table.add_row(one.name, one.title, str(len(one.cells)), str(one.seeds))
        console.print(table)
        return
    chosen = [tuple(name.strip() for name in x.split(",") if name.strip()) for x in (rows, columns)]
    options = Options(root, seeds, quick, chosen[0], chosen[1], tuple(overrides or ()))
    asked = Asked(get_entries(entry), options, jobs, out or root / "tables", docs, stored)
    told = carry_out(asked, console)
    for result, path in told.pages:
        console.print(f"{result.entry.name}: {result.tally or 'nothing to judge'}")
        console.print(f"  {path}", highlight=False, soft_wrap=True)
    for failure in told.failed:
        _complain(f"failed: {failure.key}: {failure.reason}")
    if told.interrupted:
        _complain("interrupted; the same command goes on")
        raise typer.Exit(INTERRUPTED)
    if told.failed:
        raise typer.Exit(1)


@app.command()
def curve(
    config: Annotated[Path, typer.Argument(help="A curve's YAML config.")],
    jobs: Annotated[int, typer.Option(min=1, help="Points at the same time.")] = 2,
    root: Annotated[Path, typer.Option(help="Where curves are kept.")] = Path("curves"),
    seeds: Annotated[int | None, typer.Option(min=1, help="Repeats of every point.")] = None,
) -> None:
    """Sweep a defence; one page with accuracy and leakage against epsilon."""
    from audits.curves.command import draw_curve
    from securefg.sweep.display import display_for

    console = Console()
    drawn = draw_curve(config, root, jobs, seeds, display_for(console))
    for choice in drawn.data.choices:
        console.print(f"[bold]{choice.series}[/]: {choice.words}", highlight=False)
    for failure in drawn.failed:
        _complain(f"failed: {failure.key}: {failure.reason}")
    console.print(f"page  {drawn.page}", highlight=False, soft_wrap=True)
    if drawn.interrupted:
        _complain("interrupted; the same command goes on")
        raise typer.Exit(INTERRUPTED)
    if drawn.failed:
        raise typer.Exit(1)


@config_app.command("schema")
def schema() -> None:
    """JSON Schema of a run's config, for editors."""
    from securefg.settings.config import config_schema

    sys.stdout.write(json.dumps(config_schema(), indent=2) + "\n")


@config_app.command("show")
def show(config: Annotated[Path, typer.Argument()], overrides: Overrides = None) -> None:
    """A config with all its defaults filled in, and its hash."""
    import yaml

    from securefg.settings.config import load_config

    parsed = load_config(config, overrides or [])
    sys.stdout.write(f"# hash {parsed.hash}\n")
    sys.stdout.write(yaml.safe_dump(parsed.model_dump(mode="json"), sort_keys=False))


def summary_table(summary: Summary) -> Table:
    """The short table that ends a run."""
    from securefg.run.progress import human_bytes

    table = Table(box=None, show_header=False, pad_edge=False)
    best, rounds = summary.best_round, summary.rounds
    table.add_row("rounds", f"{rounds} ({summary.stopped}), best {best}")
    for name in ("test_accuracy", "val_accuracy"):
        value = getattr(summary, name)
        table.add_row(name.replace("_", " "), "none" if value is None else f"{value:.4f}")
    for unit, claim in summary.epsilon.items():
        table.add_row(f"epsilon per {unit}", _claim_words(claim))
    if not summary.noise_protects:
        table.add_row("", "the noise is seeded: it protects nothing")
    recovered = summary.recovered_by_algebra
    if recovered is not None:
        table.add_row("masked", _masked_words(summary, recovered))
    for way in ("up", "down"):
        size = getattr(summary.bytes, way)
        envelope = human_bytes(size.envelope)
        table.add_row(f"bytes {way}", f"{human_bytes(size.total)} ({envelope} of it envelope)")
    if summary.dropped:
        table.add_row("drop-outs", str(summary.dropped))
    table.add_row("seconds", f"{summary.seconds:.1f}")
    return table


def _masked_words(summary: Summary, recovered: Recovered) -> str:
    aborted = f", {summary.aborted_rounds} rounds aborted" if summary.aborted_rounds else ""
    rows = recovered.node_rows_recoverable  # a deployed server does not know who holds a node
    return (
        f"{recovered.sessions} sessions of {recovered.smallest_cohort} clients or more"
        f"{aborted}; algebra recovers {recovered.contributions_recoverable} uploads, "
        f"{'unknown how many' if rows is None else rows} node rows"
    )


def _claim_words(claim: ClaimedEpsilon) -> str:
    if claim.epsilon is None:
        return f"infinite: these fields were sent without noise: {', '.join(claim.because)}"
    return f"{claim.epsilon:.4f} at delta {claim.delta:g}"


def main() -> None:
    """The entry point: bad input is answered in a line or two, bugs keep their traceback."""
    warnings.showwarning = _show_warning
    try:
        app()
    except InputError as error:
        _complain(str(error))
        sys.exit(2)
    except SecurefgError as error:
        _complain(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        _complain("stopped at once; the run can be resumed from its last checkpoint")
        sys.exit(INTERRUPTED)


def _complain(message: str) -> None:
    sys.stderr.write(f"securefg: {message}\n")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    sys.stderr.write(f"securefg: warning: {message}\n")


if __name__ == "__main__":
    main()
