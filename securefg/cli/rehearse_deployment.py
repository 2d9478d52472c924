"""`securefg deploy rehearse`: a whole deployment on this machine, with as many sites as asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from securefg.cli.common import INTERRUPTED, Overrides, show_line
from securefg.foundation.errors import InputError

if TYPE_CHECKING:
    from securefg.flare.overview import Overview


def rehearse_deployment(
    config: Annotated[Path, typer.Argument(help="A YAML config, or a shipped one by name.")],
    out: Annotated[Path, typer.Option(help="A new folder for kits, logs and the run.")],
    sites: Annotated[int, typer.Option(min=1, max=64, help="Site processes to start.")] = 2,
    any_floor: Annotated[
        bool, typer.Option("--any-floor", help="Let every site take part in everything.")
    ] = False,
    overrides: Overrides = None,
) -> None:
    """Provision, start, submit and fetch on this machine: a deployment before the real one."""
    from securefg.cli.operate import fetch_run, submit_plan
    from securefg.flare.admin import require_flare
    from securefg.flare.kits import FederationPlan
    from securefg.flare.rehearsing import follow_job, make_rehearsal, running_parties
    from securefg.runs.progress import Interrupt
    from securefg.settings.config import load_config

    require_flare()
    if out.exists():
        raise InputError(f"--out: found {out}; expected a new folder")
    parsed = load_config(config, overrides or [])
    kits = make_rehearsal(out, parsed, sites, any_floor)
    plan, within = FederationPlan.read(kits.path), parsed.engine.start_within
    show_line(f"kits    {kits.path}")
    show_line(f"logs    {out / 'logs'}")
    with Interrupt() as interrupt, running_parties(kits, list(plan.sites), within) as admin:
        _, job_id = submit_plan(admin, kits.path, within)
        follow_job(admin, job_id, _Shown(list(plan.sites)), lambda: interrupt.requested)
        fetch_run(admin, job_id, out / "runs" / plan.run, 0)
    for name in plan.sites:
        show_line(f"next    securefg deploy audit {kits.site(name)}")
    if interrupt.requested:
        raise typer.Exit(128 + interrupt.number if interrupt.number else INTERRUPTED)


class _Shown:
    """Prints a line per round, and one for every site that dies or leaves the run."""

    def __init__(self, sites: list[str]) -> None:
        self._sites, self._round, self._lost = sites, 0, set[str]()

    def __call__(self, overview: Overview) -> None:
        from securefg.flare.overview import describe_run, describe_site

        progress = overview.progress
        if progress is not None and progress.round > self._round:
            self._round = progress.round
            show_line(describe_run(progress, "RUNNING"))
        away = set() if progress is None else set(progress.away)
        lost = (set(overview.dead_sites()) | away) & set(self._sites)
        for site in sorted(lost - self._lost):
            show_line(describe_site(site, overview))
        self._lost = lost
