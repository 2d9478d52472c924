"""`securefg deploy submit`, `status`, `stop`, `fetch` and `clean`: a deployment day by day."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from securefg.cli.common import require_consent, show_line
from securefg.flare.overview import LOST
from securefg.foundation.errors import RunFailed, RunFolderError
from securefg.foundation.files import PRIVATE, make_private_folder, write_json

if TYPE_CHECKING:
    from securefg.flare.admin import Admin
    from securefg.flare.kits import FederationPlan, Submissions
    from securefg.flare.overview import Overview
    from securefg.flare.progress import Progress

AllKits = Annotated[Path, typer.Argument(metavar="KITS", help="The folder with all kits.")]
UNKNOWN: Final = "not known to the server"
"""The state of a job of which the server has no trace: its store was cleaned."""
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def _read_past(kits: Path) -> tuple[FederationPlan, Submissions]:
    from securefg.flare.kits import SUBMISSIONS, FederationPlan, Submissions

    return FederationPlan.read(kits), Submissions(kits / SUBMISSIONS)


def submit(
    kits: AllKits,
    within: Annotated[float, typer.Option(help="Seconds to wait for all sites.")] = 120.0,
    after: Annotated[
        int, typer.Option(min=0, help="Highest number a site has taken up, if not known here.")
    ] = 0,
    yes: Yes = False,
) -> None:
    """Start the run, or go on with it from its last checkpoint, once all sites are connected."""
    from securefg.flare.admin import log_in
    from securefg.flare.kits import Kits

    plan, past = _read_past(kits)
    with log_in(Kits(kits).admin, within) as admin:
        if past.all():
            overview = admin.show_status()
            state, progress = _job_state(admin, past, overview), overview.progress
            if doubt := doubt_submission(plan.run, progress, state):
                require_consent(doubt, yes)
        number, job_id = submit_plan(admin, kits, within, after)
    show_line(f"submission {number} of {plan.run}: job {job_id}")


def submit_plan(admin: Admin, kits: Path, within: float, after: int = 0) -> tuple[int, str]:
    """Wait for all sites and submit the plan. Return the submission's number and FLARE's id."""
    from securefg.flare.app_files import write_flare_job

    plan, past = _read_past(kits)
    number, folder = max(past.next_number(), after + 1), kits / "job"
    shutil.rmtree(folder, ignore_errors=True)
    write_flare_job(folder, plan.job(number).to_json())
    admin.await_sites(list(plan.sites), within)
    job_id = admin.submit(folder)
    past.add(number, job_id)
    return number, job_id


def doubt_submission(run: str, progress: Progress | None, state: str) -> str | None:
    """Return why another submission may be a mistake, or None; `state` is FLARE's word."""
    if progress is not None and progress.state == "finished":
        return (
            f"{run}: found a run that finished after round {progress.round}; another submission "
            "starts no round, and every site counts it"
        )
    is_open = state not in (UNKNOWN, LOST) and not state.startswith("FINISHED")
    return f"{run}: found the last submission {state}, which has not ended" if is_open else None


def status(
    kits: AllKits,
    watch: Annotated[
        float, typer.Option(min=0, help="Seconds between looks, until the job ends; 0: one look.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per look.")] = False,
) -> None:
    """Show the round, epsilon spent, time left, and every site's last sign of life."""
    from securefg.flare.admin import log_in
    from securefg.flare.kits import Kits
    from securefg.flare.overview import describe_deployment

    plan, past = _read_past(kits)
    with log_in(Kits(kits).admin) as admin:
        while True:
            overview = admin.show_status()
            job = _job_state(admin, past, overview)
            if as_json:
                progress = overview.progress and overview.progress.model_dump(mode="json")
                told = {"run": plan.run, "job": job, "progress": progress}
                sites = {"silence": dict(overview.silence), "dead": overview.dead_sites()}
                sys.stdout.write(json.dumps({**told, **sites}) + "\n")
            else:
                for line in describe_deployment(overview, list(plan.sites), job):
                    show_line(line)
            sys.stdout.flush()
            if not watch or job.startswith("FINISHED") or job == LOST:
                return
            time.sleep(watch)


def _job_state(admin: Admin, past: Submissions, overview: Overview) -> str:
    if not past.all():
        return "not submitted"
    try:
        state = admin.status(past.last)
    except RunFailed:
        return UNKNOWN
    return LOST if state == "RUNNING" and past.last not in overview.jobs else state


def stop(
    path: Annotated[
        Path, typer.Argument(metavar="KITS|KIT", help="The folder with all kits, or a party's own.")
    ],
    now: Annotated[
        bool, typer.Option("--now", help="With KITS: end the job at once, in its round.")
    ] = False,
) -> None:
    """With KITS, end the run after its round; with a party's KIT, end its processes here."""
    from securefg.flare.admin import log_in
    from securefg.flare.cleaning import kits_in
    from securefg.flare.kits import Kits
    from securefg.flare.processes import end_processes

    if kits_in(path) == [path]:
        show_line(f"{path.name}: {end_processes(path)} processes ended")
        return
    plan, past = _read_past(path)
    with log_in(Kits(path).admin) as admin:
        state = _job_state(admin, past, admin.show_status())
        if state.startswith("FINISHED") or state == LOST or not past.all():
            show_line(f"{plan.run}: nothing to stop, the job is {state}")
            return
        if now:
            admin.abort_job(past.last)
        elif not admin.stop_run(past.last):
            raise RunFailed(f"{plan.run}: the run has not begun; try again, or end it with --now")
    when = "now" if now else "after its round"
    show_line(f"{plan.run} stops {when}; `securefg deploy submit {path}` goes on with it")


def fetch(
    kits: AllKits,
    out: Annotated[Path, typer.Option(help="Where run folders go.")] = Path("runs"),
    wait: Annotated[float, typer.Option(help="Seconds to wait for the job's end.")] = 0.0,
) -> None:
    """Bring the run's folder here, whole or as far as it came, as the server saw it."""
    from securefg.flare.admin import log_in
    from securefg.flare.kits import Kits

    plan, past = _read_past(kits)
    target = out / plan.run
    if target.exists():
        raise RunFolderError(f"{target} exists; move it away or name another --out")
    with log_in(Kits(kits).admin) as admin:
        fetch_run(admin, past.last, target, wait)


def fetch_run(admin: Admin, job_id: str, target: Path, wait: float) -> None:
    """Bring what a job left into the target, and say how far the run came."""
    from securefg.flare.results import RESULT

    state = admin.await_end(job_id, wait)
    if not state.startswith("FINISHED"):
        raise RunFolderError(
            f"the job is {state}; it can be fetched when it has finished, or after "
            "`securefg deploy stop KITS`; if the server was started anew, submit again"
        )
    progress = admin.show_status().progress
    result_folders = [x for x in admin.download(job_id).rglob(RESULT) if x.is_dir()]
    if not result_folders:
        raise RunFolderError(f"the job ended as {state} and left no run; the server's log says why")
    make_private_folder(target)
    shutil.copytree(result_folders[0], target, dirs_exist_ok=True)
    make_private_folder(target)  # FLARE's archive keeps no modes
    _show_fetched(target, progress, state)


def _show_fetched(target: Path, progress: Progress | None, state: str) -> None:
    """Print the summary of a whole run; mark a part of one, in the folder and here."""
    from securefg.cli.summary import summary_table
    from securefg.runs.folder import PARTIAL, RunFolder

    folder = RunFolder.open(target)
    away = {} if progress is None else dict(progress.away)
    if folder.finished:
        Console(markup=False).print(summary_table(folder.summary()))
    else:
        facts = _partial_facts(folder, progress, state)
        write_json(target / PARTIAL, facts, mode=PRIVATE)
        show_line(
            f"PARTIAL  {facts['round']} of {facts['rounds']} rounds, {facts['state']}: "
            f"{facts['reason']}"
        )
    for site, reason in away.items():
        show_line(f"left     {site}: {reason}")
    show_line(f"run     {target}")
    sys.stdout.flush()


def _partial_facts(folder: Any, progress: Progress | None, state: str) -> dict[str, Any]:
    from securefg.flare.overview import ABORTED

    lines, config = folder.metrics(), folder.config()
    ended = "ended at once, as asked" if state == ABORTED else "ended without a word"
    if progress is not None and progress.is_over:
        ended = progress.state
    return {
        "round": lines[-1]["round"] if lines else 0,
        "rounds": config.training.rounds,
        "state": ended,
        "reason": "" if progress is None else progress.reason,
        "away": {} if progress is None else dict(progress.away),
        "job": state,
    }


def clean(
    path: Annotated[
        Path, typer.Argument(metavar="KITS|KIT", help="The folder with all kits, or a party's own.")
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="Remove the folder whole, with its keys and books.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Remove logs and the traces of jobs from kits; keys, data, floors, books and runs stay."""
    from securefg.flare.cleaning import find_leftovers, remove_leftover
    from securefg.foundation.units import bytes_text, plural

    leftovers = find_leftovers(path, everything)
    if not leftovers:
        show_line(f"{path}: nothing to remove")
        return
    for leftover in leftovers:
        show_line(f"{bytes_text(leftover.size):>10}  {leftover.path}: {leftover.what}")
    require_consent(f"{path}: {plural(len(leftovers), 'item')} would be removed", yes)
    for leftover in leftovers:
        remove_leftover(leftover)
    show_line(f"{path}: {plural(len(leftovers), 'item')} removed")
