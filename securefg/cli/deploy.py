"""`securefg deploy`: from one laptop to several organisations, with audits at home."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from securefg.cli import operate
from securefg.cli.audit import show_answer
from securefg.cli.common import PART_FAILED
from securefg.cli.rehearse_deployment import rehearse_deployment
from securefg.foundation.errors import ConfigError
from securefg.foundation.quoting import printable

app = typer.Typer(help="Run across organisations, on NVIDIA FLARE.", no_args_is_help=True)
for _command in (operate.submit, operate.status, operate.stop, operate.fetch, operate.clean):
    app.command()(_command)
app.command("rehearse")(rehearse_deployment)

Kit = Annotated[Path, typer.Argument(metavar="KIT", help="A party's own folder.")]
Sets = Annotated[list[str] | None, typer.Option("--set", metavar="a.b=c")]


def _make_console() -> Console:
    """Paths and names are shown as they are."""
    return Console(markup=False)


def _print_safely(text: str) -> None:
    """One line; whatever another party put into it cannot move the cursor."""
    _make_console().print(printable(text), highlight=False, soft_wrap=True)


@app.command()
def provision(
    config: Annotated[Path, typer.Argument(help="A YAML config.")],
    out: Annotated[Path, typer.Option(help="A new folder for the kits.")],
    site: Annotated[list[str] | None, typer.Option(help="A site's name; once per site.")] = None,
    server: Annotated[str, typer.Option(help="The name by which sites reach it.")] = "localhost",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8002,
    overrides: Sets = None,
    without_data: Annotated[
        bool, typer.Option("--without-data", help="Sites bring their own; one client each.")
    ] = False,
    nodes: Annotated[int, typer.Option(help="Without data: nodes of the whole index.")] = 0,
    features: Annotated[int, typer.Option(help="Without data: features per node.")] = 0,
    classes: Annotated[int, typer.Option(help="Without data: classes.")] = 0,
    request: Annotated[
        list[Path] | None, typer.Option(help="A party's request.json; without it a key is made.")
    ] = None,
) -> None:
    """Make what each organisation needs: certificates, the plan, a page of instructions."""
    from securefg.flare.enrolment import Request
    from securefg.flare.provisioning import dealt_out, provision_for, without_any_data
    from securefg.settings.config import load_config
    from securefg.site.job import Sizes

    parsed = load_config(config, overrides or [])
    requests = {one.party: one for one in map(Request.read, request or [])}
    names = site or [f"site-{i + 1}" for i in range(parsed.engine.sites)]
    if without_data:
        if min(nodes, features, classes) < 1:
            raise ConfigError("--without-data wants --nodes, --features and --classes")
        plan = without_any_data(parsed, server, names, Sizes(nodes, features, classes, len(names)))
        provision_for(out, plan, port, requests)
    else:
        dealt_out(out, parsed, server, port, names, requests)
    table = Table("kit", "for", box=None, pad_edge=False)
    for name in names:
        table.add_row(str(out / name), f"the site {name}; read RUNBOOK.md in it")
    table.add_row(str(out / server), "the server")
    table.add_row(str(out), "you: submit, status, fetch")
    _make_console().print(table)


@app.command("request")
def make_request(
    name: Annotated[str, typer.Argument(help="The party's name in the federation.")],
    out: Annotated[Path, typer.Option(help="A new folder for the party's own keys.")],
    clients: Annotated[int, typer.Option(min=1, help="A site's clients.")] = 1,
) -> None:
    """At a party: make its own keys, and a request for whoever provisions."""
    from securefg.flare import enrolment

    _make_console().print(str(enrolment.make_request(name, out, clients)), soft_wrap=True)


@app.command()
def install(
    kit: Kit, own: Annotated[Path, typer.Argument(help="The folder of `deploy request`.")]
) -> None:
    """At a party: complete the kit that came back with the party's own keys."""
    from securefg.flare.provisioning import complete_kit

    complete_kit(kit, own)
    _make_console().print(f"{kit} is complete", highlight=False, soft_wrap=True)


@app.command()
def start(
    kit: Kit,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show FLARE's log here, and keep no console.log.")
    ] = False,
) -> None:
    """Run a kit's party, the server or a site, until Ctrl-C."""
    from securefg.flare.guard.terminal import CONSOLE, fold_output
    from securefg.flare.party import command_for

    command = command_for(kit)
    _print_safely(f"{kit.name}: starts; Ctrl-C stops it; the whole log is in {kit / CONSOLE}")
    if not verbose:
        fold_output(kit)
    os.execv(command[0], command)


@app.command()
def shard(
    kit: Kit,
    folder: Annotated[
        Path, typer.Argument(help="Edges, features and labels (docs/reference/data.md).")
    ],
    first_node: Annotated[
        int, typer.Option(min=0, help="Global number of the folder's node 0.")
    ] = 0,
    overrides: Annotated[
        list[str] | None, typer.Option("--split", metavar="key=value", help="As data.split.")
    ] = None,
) -> None:
    """At a site: make the site's shard from its own folder. It stays in the kit."""
    from securefg.flare.provisioning import shard_of_own

    _make_console().print(
        str(shard_of_own(kit, folder, first_node, overrides or [])), soft_wrap=True
    )


@app.command()
def review(kit: Kit) -> None:
    """At a site: what the job would send, and whether the site's own floor allows it."""
    from securefg.flare.provisioning import review_kit

    lines, refusal = review_kit(kit)
    for line in lines:
        _print_safely(line)
    _print_safely("the floor allows it" if refusal is None else f"the floor refuses it: {refusal}")
    if refusal is not None:
        raise typer.Exit(1)


@app.command()
def check(kit: Kit) -> None:
    """At a party: what its kit answers, listens on and keeps. Exit 1 where something is wrong."""
    from securefg.flare.posture import inspect_posture

    lines = inspect_posture(kit)
    table = Table("", "what", "found", box=None, pad_edge=False)
    for line in lines:
        table.add_row("wrong" if line.bad else "ok", line.what, printable(line.bad or line.found))
    _make_console().print(table)
    if any(line.bad for line in lines):
        raise typer.Exit(1)


@app.command()
def floor(
    home: Annotated[Path, typer.Argument(metavar="HOME", help="A new folder of the site's own.")],
) -> None:
    """At a site of any FLARE federation: its floor and empty books, for SecurefgFilter."""
    from securefg.site.gate import open_home

    _make_console().print(str(open_home(home)), soft_wrap=True)


@app.command()
def ledger(kit: Kit) -> None:
    """At a site: what has left it, and what this month has cost."""
    from collections import Counter

    from securefg.flare.kits import home_of
    from securefg.site.books import MONTH, SiteBooks
    from securefg.site.policy import POLICY_FILE, Budget, load_policy

    home = kit if (kit / POLICY_FILE).exists() else home_of(kit)
    books, policy = SiteBooks(home), load_policy(home / POLICY_FILE)
    counts = Counter(
        (line["run"], release["mechanism"]["field"], release["mechanism"]["rule"])
        for line in books.releases()
        for release in line["releases"]
    )
    table = Table("run", "field", "rule", "times", box=None, pad_edge=False)
    for (run, field, rule), count in sorted(counts.items()):
        table.add_row(*map(printable, (run, field, rule, str(count))))
    _make_console().print(table if counts else "nothing private has left this site")
    for words, site_budget, within in (
        ("this month", policy.budget_per_month, MONTH),
        ("in all", policy.budget_total, None),
    ):
        budget = site_budget or Budget(epsilon=1.0)
        spent = books.spent(budget.unit, budget.delta, within)
        limit = f" of {budget.epsilon:g}" if site_budget else ", no limit set"
        _make_console().print(f"{words}: epsilon {spent.epsilon:.4g} per {budget.unit}{limit}")


@app.command()
def scores(kit: Kit) -> None:
    """At a site: how the released model does on its own test nodes. Nothing is sent."""
    from securefg.flare.kits import load_site_kit
    from securefg.site.own_scores import read_own_scores

    own = load_site_kit(kit)
    runs = sorted((own.home / "runs").iterdir()) if (own.home / "runs").is_dir() else []
    kept = [run for run in runs if (run / "own_scores.json").is_file()]
    if not kept:
        raise ConfigError(f"{kit}: found no scores; expected those of a run that has ended")
    for run in kept:
        _print_safely(run.name)
        for score in read_own_scores(run):
            for line in score.lines:
                _print_safely(f"  {line}")


@app.command()
def clock(
    kit: Kit,
    reason: Annotated[str, typer.Option(help="Why the clock ran ahead, for the books.")],
) -> None:
    """At a site: sign that the clock ran ahead, which opens books that wait for its time."""
    from securefg.flare.kits import home_of
    from securefg.site.books import SiteBooks
    from securefg.site.certificates import Signer

    books = SiteBooks(home_of(kit))
    corrected = books.correct_clock(Signer.load(kit / "startup"), reason)
    _make_console().print(f"{corrected} books corrected; no budget came back", highlight=False)


@app.command()
def audit(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The site's own folder.")],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ATTACK", help="Run only these attacks, or `promises`."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1000, help="Trials per noise mechanism.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed for targets and null controls.")] = 0,
    out: Annotated[
        Path, typer.Option(help="The file that the site may pass on; nothing is sent.")
    ] = Path("site_findings.json"),
    everything: Annotated[
        bool, typer.Option("--all", help="Show every attack, and what does not apply.")
    ] = False,
) -> None:
    """At a site: audit its own part of the run, show what it would share, and sign that."""
    from audits.answer.build import make_answer
    from audits.findings.record import Verdict
    from audits.plan import Plan
    from audits.site import audit_site, site_facts, site_findings
    from securefg.flare.kits import load_site_kit
    from securefg.site.findings import write_shared

    site_audit = audit_site(kit, Plan(only=tuple(only or ()), trials=trials, seed=seed))
    console, site_kit = Console(markup=False), load_site_kit(kit)
    show_answer(console, make_answer(site_audit.findings, site_facts(kit)), everything)
    console.print()
    path = write_shared(site_findings(kit, site_audit.findings), site_kit.signer, out)
    console.print(
        f"These {len(site_audit.findings)} findings, and no row of data, are in {path}, signed by "
        f"{site_kit.name}. Read it before you pass it on; nothing was sent.",
        highlight=False,
        soft_wrap=True,
    )
    if any(finding.verdict is Verdict.VIOLATION for finding in site_audit.findings):
        raise typer.Exit(1)
    if site_audit.failed:
        raise typer.Exit(PART_FAILED)


@app.command()
def assemble(
    kits: Annotated[Path, typer.Argument(metavar="KITS", help="The folder with all kits.")],
    files: Annotated[list[Path], typer.Argument(help="What the sites shared, a file each.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("sites.html"),
) -> None:
    """At the coordinator: check who signed the sites' findings, and make one page of them."""
    from securefg.flare.kits import FederationPlan, Kits
    from securefg.foundation.errors import DataError
    from securefg.reports.compare import build_sites_page
    from securefg.site.certificates import Root
    from securefg.site.findings import read_shared

    plan, root = FederationPlan.read(kits), Root.load(Kits(kits).admin / "startup")
    findings_by_site = {}
    for path in files:
        site_file = read_shared(path, root)
        if site_file.run != plan.run or site_file.site not in plan.sites:
            raise DataError(
                f"{path}: of {site_file.site} about {site_file.run}; wanted a site of {plan.run}"
            )
        if site_file.site in findings_by_site:
            raise DataError(f"{path}: a second file of {site_file.site}; wanted one of each site")
        findings_by_site[site_file.site] = site_file.findings
    page = build_sites_page(plan.run, list(plan.sites), findings_by_site, out)
    Console(markup=False).print(f"page    {page}", highlight=False, soft_wrap=True)
