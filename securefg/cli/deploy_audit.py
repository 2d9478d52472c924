"""`securefg deploy audit` and `deploy assemble`: audits at home, and the page of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from securefg.cli.common import PART_FAILED


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
) -> None:
    """At a site: audit its own part of the run, show what it would share, and sign that."""
    from audits.plan import Plan
    from audits.site import audit_site, site_findings
    from audits.table import findings_table, not_measured_table
    from securefg.flare.kits import load_site_kit
    from securefg.run.findings import Verdict
    from securefg.site.findings import shared

    found = audit_site(kit, Plan(only=tuple(only or ()), trials=trials, seed=seed))
    console, tables = Console(markup=False), Console()  # tables escape what is not theirs
    tables.print(findings_table(found.findings, tables.width))
    if any(not finding.measured for finding in found.findings):
        tables.print(not_measured_table(found.findings))
    own = load_site_kit(kit)
    path = shared(site_findings(kit, found.findings), own.signer, out)
    console.print(
        f"These {len(found.findings)} findings, and no row of data, are in {path}, signed by "
        f"{own.name}. Read it before you pass it on; nothing was sent.",
        highlight=False,
        soft_wrap=True,
    )
    if any(finding.verdict is Verdict.VIOLATION for finding in found.findings):
        raise typer.Exit(1)
    if found.failed:
        raise typer.Exit(PART_FAILED)


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
    found = {}
    for path in files:
        one = read_shared(path, root)
        if one.run != plan.run or one.site not in plan.sites:
            raise DataError(f"{path}: of {one.site} about {one.run}; wanted a site of {plan.run}")
        if one.site in found:
            raise DataError(f"{path}: a second file of {one.site}; wanted one of each site")
        found[one.site] = one.findings
    page = build_sites_page(plan.run, list(plan.sites), found, out)
    Console(markup=False).print(f"page    {page}", highlight=False, soft_wrap=True)
