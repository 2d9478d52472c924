"""Kills one of two real sites, in a round or in the run's last second, and looks what is left.

    python -m tests.e2e.flare_lost_sites FOLDER [NUMBER [SEED]]

Every trial makes kits, starts a server and two sites with `securefg deploy start`, submits, and
kills the process groups of one site, its job's too, with SIGKILL. `deploy status` must call the
site dead within 15 s, the run must end, and what there is of it must be fetched, audited at both
sites and assembled on one page. Trials take turns: in a round and in the last second, with masks
and without. Prints a line per trial; exits 1 where one fails.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.cli.operate import fetch_run, submit_plan
from securefg.flare.admin import Admin, log_in
from securefg.flare.kits import FederationPlan, Kits
from securefg.flare.overview import describe_site
from securefg.flare.party import party_environment
from securefg.flare.processes import end_processes, find_processes
from securefg.runs.folder import PARTIAL, RunFolder
from tests.e2e.flare_rehearsal import deployment

WITHIN_SECONDS = 15.0
LIMIT_SECONDS = 900
ROUNDS = 12
SITES = ["bank-a", "bank-b"]
PLANS = {
    "plain": ("partition.shares=[0.5, 0.6]",),
    "masked": (  # without the first site too few clients are left for a sum
        "partition.shares=[0.5, 0.6, 0.7, 0.8, 0.9]",
        "method.pseudo_labels=false",
        "method.pseudo_graph=false",
        "privacy.secure_aggregation={min_holders: 1}",
    ),
}


@dataclass(frozen=True)
class Loss:
    """Who is killed, when, under which plan."""

    when: str
    plan: str
    victim: str
    in_round: int
    pause: float


@dataclass(frozen=True)
class Seen:
    """Seconds after the kill, and what was left."""

    dead_after: float
    left_run_after: float | None
    job_ended_after: float
    job: str
    rounds_left_at_kill: int
    pace: float
    whole_rounds: int
    finished: bool
    commands: dict[str, int]

    @property
    def is_good(self) -> bool:
        in_time, ended = self.dead_after <= WITHIN_SECONDS, self.job == "FINISHED:COMPLETED"
        return in_time and ended and set(self.commands.values()) == {0}


def run_trial(folder: Path, loss: Loss) -> Seen:
    faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
    folder.mkdir(parents=True)
    kits = deployment(folder, *PLANS[loss.plan], f"training.rounds={ROUNDS}", sites=SITES)
    started = {name: _start(kits, name) for name in (kits.server.name, *SITES)}
    try:
        with log_in(kits.admin, 180) as admin:
            _, job_id = submit_plan(admin, kits.path, 180)
            return _watch(admin, kits, job_id, loss, started[loss.victim], folder)
    finally:
        for process in started.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(kits: Kits, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "securefg.cli.main", "deploy", "start", name]
    with (kits.path.parent / f"{name}.terminal").open("ab") as terminal:
        return subprocess.Popen(
            command,
            cwd=kits.path,
            env=party_environment(),
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )


def _watch(admin: Admin, kits: Kits, job_id: str, loss: Loss, victim: Any, folder: Path) -> Seen:
    at_kill = _await_round(kits, loss.in_round)
    time.sleep(loss.pause)
    jobs = find_processes(kits.site(loss.victim))  # FLARE puts them into groups of their own
    os.killpg(victim.pid, signal.SIGKILL)
    killed = time.monotonic()
    for pid in set(jobs) - {victim.pid}:
        os.killpg(pid, signal.SIGKILL)
    dead: float | None = None
    left: float | None = None
    ended: float | None = None
    job = ""
    while dead is None or ended is None:
        overview, job = admin.show_status(), admin.status(job_id)
        now = time.monotonic() - killed
        assert now < 180, (overview, job)
        if dead is None and loss.victim in overview.dead_sites():
            assert "DEAD" in describe_site(loss.victim, overview)
            dead = now
        away = {} if overview.progress is None else overview.progress.away
        left = now if left is None and loss.victim in away else left
        ended = now if ended is None and job.startswith("FINISHED") else ended
        time.sleep(0.25)
    run = folder / "fetched" / FederationPlan.read(kits.path).run
    fetch_run(admin, job_id, run, 0)
    run_folder = RunFolder.open(run)
    assert run_folder.finished or (run / PARTIAL).is_file()
    lines = run_folder.metrics()
    return Seen(
        dead_after=round(dead, 1),
        left_run_after=None if left is None else round(left, 1),
        job_ended_after=round(ended, 1),
        job=job,
        rounds_left_at_kill=ROUNDS - at_kill["round"],
        pace=round(at_kill["seconds"] / max(1, at_kill["round"]), 3),
        whole_rounds=sum(not line["aborted"] for line in lines),
        finished=run_folder.finished,
        commands=_audit_all(kits, folder),
    )


def _audit_all(kits: Kits, folder: Path) -> dict[str, int]:
    """The exit codes of the commands that follow a fetch."""
    files = [str(folder / f"{site}.json") for site in SITES]
    codes = {}
    for site, file in zip(SITES, files, strict=True):
        audit = ("deploy", "audit", str(kits.site(site)), "--only", "promises", "--out", file)
        codes[site] = _call(*audit)
    page = str(folder / "sites.html")
    return {**codes, "page": _call("deploy", "assemble", str(kits.path), *files, "--out", page)}


def _await_round(kits: Kits, number: int) -> dict[str, Any]:
    """The progress as soon as so many rounds are done, as the server's own file has it."""
    run = FederationPlan.read(kits.path).run
    path, end = kits.server / "securefg_runs" / run / "private" / "status.json", 180
    since = time.monotonic()
    while time.monotonic() - since < end:
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text())
            if found["round"] >= number and found["state"] != "starting":
                return found
        time.sleep(0.01)
    raise AssertionError(f"round {number} did not come")


def _call(*words: str) -> int:
    done = CliRunner().invoke(app, list(words))
    if done.exit_code != 0:
        print(words, done.output, repr(done.exception), file=sys.stderr)
    return done.exit_code


def draw_loss(number: int, seed: int) -> Loss:
    draws = random.Random(f"{seed} {number}")
    is_last = number % 2 == 1
    return Loss(
        when="last second" if is_last else "in a round",
        plan="masked" if number // 2 % 2 else "plain",
        victim=draws.choice(SITES),
        in_round=ROUNDS - draws.randint(0, 1) if is_last else draws.randint(1, ROUNDS - 4),
        pause=draws.uniform(0, 0.05 if is_last else 0.5),
    )


def main(words: list[str]) -> int:
    if words[0] == "--one":
        seen = run_trial(Path(words[1]), Loss(**json.loads(words[2])))
        print("SEEN " + json.dumps(asdict(seen)), flush=True)
        return 0
    folder, number, seed = Path(words[0]), *map(int, (*words[1:], 20, 0)[:2])
    good = 0
    folder.mkdir(parents=True)
    for trial in range(number):
        loss = draw_loss(trial, seed)
        command = [sys.executable, "-m", "tests.e2e.flare_lost_sites", "--one"]
        with (folder / f"trial-{trial}.log").open("w+") as log:
            done = subprocess.run(
                [*command, str(folder / f"trial-{trial}"), json.dumps(asdict(loss))],
                stdout=log,
                stderr=log,
                check=False,
            )
            log.seek(0)
            log_text = log.read()
        for kit in (folder / f"trial-{trial}" / "kits").glob("*"):
            end_processes(kit)  # where the trial itself was ended
        told = [line[5:] for line in log_text.splitlines() if line.startswith("SEEN ")]
        if told:
            seen = Seen(**json.loads(told[0]))
            good += seen.is_good
            verdict = "good" if seen.is_good else "BAD"
            print(f"{trial + 1:3} {verdict:4} {_line_of(loss, seen)}", flush=True)
        else:
            print(
                f"{trial + 1:3} BAD  {loss}: exit {done.returncode}, {log_text[-2000:]}", flush=True
            )
    print(f"{good} of {number} as they should be")
    return int(good != number)


def _line_of(loss: Loss, seen: Seen) -> str:
    left = "never" if seen.left_run_after is None else f"{seen.left_run_after:.1f} s"
    return (
        f"{loss.when:11} {loss.plan:6} {loss.victim}, {seen.rounds_left_at_kill:2} rounds of "
        f"{seen.pace:.2f} s left: dead after {seen.dead_after:4.1f} s, left the run after {left}, "
        f"job {seen.job} after {seen.job_ended_after:4.1f} s, {seen.whole_rounds} whole rounds, "
        f"{'finished' if seen.finished else 'PARTIAL'}, exit codes {seen.commands}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
