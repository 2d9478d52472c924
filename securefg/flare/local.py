"""A federation on this machine: a server and sites on loopback, under mutual TLS, for one run.

The kits lie in the run's folder and are made anew for every attempt; what the sites keep (shards,
keys, books, states) lies beside them and stays.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from securefg.data.shard import save_shards
from securefg.engines.breaches import raise_breach
from securefg.flare.app_files import write_flare_job
from securefg.flare.kits import Kits, Plan, hand_out_plan, provision
from securefg.flare.party import environment
from securefg.flare.processes import LocalProcesses, end_leftovers, free_port
from securefg.flare.server_run import OUTCOME, STOP
from securefg.foundation.errors import RunFailed
from securefg.foundation.json_text import read_json
from securefg.run.assembly import Experiment, hosts_of
from securefg.run.execution import Outcome
from securefg.run.folder import RunFolder, read_json_lines
from securefg.run.observing import Observer, RoundReport
from securefg.site.job import Job, Sizes, spread
from securefg.site.policy import SitePolicy

SERVER = "localhost"
POLL_SECONDS = 0.1
LOOK_SECONDS = 5.0


def run_locally(
    experiment: Experiment,
    folder: RunFolder,
    observer: Observer,
    meddle: Callable[[LocalProcesses], None] | None = None,
) -> Outcome:
    """One attempt at a run, new or resumed. `meddle` is for tests: called at every look."""
    flare = folder.path / "private" / "flare"
    end_leftovers(flare / "logs")
    job, kits = _prepare(experiment, folder, flare)
    with LocalProcesses(kits, flare / "logs") as processes:
        processes.start_server()
        for site in job.sites:
            processes.start_site(site)
        _submit(kits, flare / "job", job, experiment.config.engine.start_within)
        return _follow(experiment, folder, observer, job, processes, meddle)


def _prepare(experiment: Experiment, folder: RunFolder, flare: Path) -> tuple[Job, Kits]:
    """Kits, shards and the job's folder; what an earlier attempt left of them goes."""
    hosts = hosts_of(experiment)
    names = [f"site-{i + 1}" for i in range(experiment.config.engine.sites)]
    sites = spread(hosts, names)
    homes = {site: flare / "sites" / site for site in sites}
    for site, own in sites.items():
        _write_shards(homes[site] / "shards", experiment, own)
    shutil.rmtree(flare / "kits", ignore_errors=True)
    shutil.rmtree(flare / "job", ignore_errors=True)
    (folder.path / "private" / OUTCOME).unlink(missing_ok=True)
    (folder.path / "private" / STOP).unlink(missing_ok=True)
    kits = provision(
        flare / "kits", Plan(SERVER, free_port(), sites, homes, SitePolicy.everything_goes())
    )
    job = Job(
        run=folder.path.name,
        submission=_next_submission(flare),
        server=SERVER,
        config=experiment.config.model_dump(mode="json"),
        sizes=Sizes.of(experiment.public),
        sites=sites,
        run_folder=str(folder.path.resolve()),
        has_truth=True,
    )
    hand_out_plan(kits, job)
    write_flare_job(flare / "job", job.to_json())
    return job, kits


def _next_submission(flare: Path) -> int:
    path = flare / "submissions"
    number = int(path.read_text()) + 1 if path.exists() else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(number))
    return number


def _write_shards(folder: Path, experiment: Experiment, hosts: Any) -> None:
    for name, clients in hosts.items():
        own = tuple(experiment.shards[number] for number in clients.numbers())
        save_shards(folder / f"{name}.safetensors", own)


def _submit(kits: Kits, folder: Path, job: Job, seconds: float) -> None:
    command = [sys.executable, "-m", "securefg.flare.admin"]
    arguments = [str(kits.admin), str(folder), str(seconds), *job.sites]
    asked = subprocess.run(
        command + arguments,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,  # the first Ctrl-C is a wish, not an end
    )
    if asked.returncode:
        last = asked.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise RunFailed(f"the job was not submitted: {last[0]}; see {kits.path.parent / 'logs'}")


def _follow(
    experiment: Experiment,
    folder: RunFolder,
    observer: Observer,
    job: Job,
    processes: LocalProcesses,
    meddle: Callable[[LocalProcesses], None] | None,
) -> Outcome:
    """Show the rounds as they come; pass on a wish to stop; return or raise what the server did."""
    attempts, told, started = folder.path / "attempts.jsonl", 0, False
    before = len(read_json_lines(attempts))
    watch = Watch(processes, 2 * experiment.config.engine.start_within)
    while True:
        ended = _outcome(folder, job)
        lines = read_json_lines(attempts)
        if not started and len(lines) > before:
            started, told = True, lines[-1]["after_round"]
            observer.started(experiment, told + 1)
        if started:
            for line in folder.metrics():
                if line["round"] > told:
                    told = line["round"]
                    observer.round_done(RoundReport(**line))
        if ended is not None:
            raise_breach(ended)
            summary = folder.summary() if ended["finished"] else None
            return Outcome(folder, summary, ended["reason"])
        if (lost := watch.look(started)) is not None:
            raise RunFailed(f"{lost}; `securefg run --resume {folder.path}` goes on")
        if observer.stop_requested():
            (folder.path / "private" / STOP).touch()
        if meddle is not None:
            meddle(processes)
        time.sleep(POLL_SECONDS)


class Watch:
    """Ends the wait for what cannot come: a job that does not begin, or a server that is gone."""

    def __init__(self, processes: LocalProcesses, begin_within: float) -> None:
        self._processes, self._begin_within = processes, begin_within
        self._since = self._looked = time.monotonic()
        self._absent = 0

    def look(self, started: bool) -> str | None:
        """What was lost, if anything; asks for the job's process every few seconds only."""
        if SERVER in self._processes.dead:
            return "the server's process ended"
        now = time.monotonic()
        if not started:
            if now - self._since < self._begin_within:
                return None
            return f"the job did not begin within {self._begin_within:g} s of its submission"
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            self._absent = 0 if self._processes.job_pids(SERVER) else self._absent + 1
        return "the job's process at the server ended without a word" if self._absent > 2 else None


def _outcome(folder: RunFolder, job: Job) -> dict[str, Any] | None:
    path = folder.path / "private" / OUTCOME
    if not path.exists():
        return None
    found: dict[str, Any] = read_json(path)
    return found if found["submission"] == job.submission else None
