"""A federation on this machine: a server and sites on loopback, under mutual TLS, for one run.

The kits lie in the run's folder and are made anew for every attempt. The sites' own files (shards,
keys, books, states) lie beside them and stay. FLARE starts processes of its own for every job, in
sessions of their own. All of them inherit an environment variable with a random value, by which
they are found again whoever their parent is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from securefg.data.shard import save_shards
from securefg.engines.breaches import raise_breach
from securefg.flare.app_files import write_flare_job
from securefg.flare.kits import Kits, Plan, hand_out_plan, provision_kits
from securefg.flare.party import MARK, command_for, party_environment
from securefg.flare.server_run import OUTCOME, STOP
from securefg.foundation.errors import RunFailed
from securefg.foundation.files import write_atomically
from securefg.foundation.json_text import read_json
from securefg.runs.assembly import Experiment, hosts_of
from securefg.runs.execution import Outcome
from securefg.runs.folder import RunFolder, read_json_lines
from securefg.runs.observing import Observer, RoundReport
from securefg.site.job import Job, Sizes, spread_hosts
from securefg.site.policy import SitePolicy

SERVER = "localhost"
POLL_SECONDS = 0.1
LOOK_SECONDS = 5.0
LEAST = 10_000  # below are ports that well-known services listen on
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
OUTGOING_FROM = 32_768  # Linux' own default, where it does not tell


class LocalProcesses:
    """A server and sites on this machine."""

    def __init__(self, kits: Kits, logs: Path) -> None:
        self._kits, self._logs = kits, logs
        self._mark = secrets.token_hex(16)
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)
        write_atomically(logs / "mark", self._mark)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start_server(self) -> None:
        """Start the server's process."""
        self._start(self._kits.server)

    def start_site(self, name: str) -> None:
        """Start a site's process."""
        self._start(self._kits.site(name))

    def _start(self, kit: Path) -> None:
        command = command_for(kit)
        with (self._logs / f"{kit.name}.log").open("ab") as log:
            self._started[kit.name] = subprocess.Popen(
                command,
                env={**party_environment(), MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the one who drives, not for them
                preexec_fn=_die_with_parent,
            )

    @property
    def dead(self) -> list[str]:
        """Parties whose own process has ended."""
        return [name for name, process in self._started.items() if process.poll() is not None]

    def pids(self, party: str | None = None) -> list[int]:
        """All processes that bear the mark; of one party, those that have its kit as argument."""
        process_ids = _marked_processes(self._mark)
        if party is None:
            return process_ids
        kit = str((self._kits.path / party).resolve()).encode()
        return [pid for pid in process_ids if kit in _process_arguments(pid)]

    def job_pids(self, party: str) -> list[int]:
        """The processes that FLARE started at a party for the job."""
        own = self._started[party].pid if party in self._started else 0
        return [pid for pid in self.pids(party) if pid != own]

    def kill(self, party: str) -> None:
        """Kill -9 everything of one party, as if its machine had lost power."""
        for pid in self.pids(party):
            _signal_process(pid, signal.SIGKILL)
        if party in self._started:
            self._started[party].wait()

    def stop(self) -> None:
        """End all of them: their work is on disk, so they need no time to say goodbye."""
        _end_processes(self._mark, list(self._started.values()))


def end_leftovers(logs: Path) -> None:
    """End what an earlier federation left, where the one who drove it was killed."""
    with contextlib.suppress(FileNotFoundError):
        _end_processes((logs / "mark").read_text(), [])


def _die_with_parent() -> None:
    """Linux ends them when the one who drives is killed; FLARE's job processes then follow."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _end_processes(mark: str, children: list[subprocess.Popen[bytes]]) -> None:
    """The job's processes first, so that those who started them can still bury them."""
    own, end = {child.pid for child in children}, time.monotonic() + 10
    jobs = set(_marked_processes(mark)) - own
    for pid in jobs:
        _signal_process(pid, signal.SIGKILL)
    while any(Path(f"/proc/{pid}").exists() for pid in jobs) and time.monotonic() < end - 8:
        time.sleep(0.02)
    while (pids := _marked_processes(mark)) and time.monotonic() < end:
        for pid in pids:
            _signal_process(pid, signal.SIGKILL)
        for child in children:
            child.poll()
        time.sleep(0.02)
    for child in children:
        child.wait()


def _marked_processes(mark: str) -> list[int]:
    pids = map(int, filter(str.isdecimal, os.listdir("/proc")))
    return [pid for pid in pids if f"{MARK}={mark}".encode() in _read_process(pid, "environ")]


def _process_arguments(pid: int) -> list[bytes]:
    return _read_process(pid, "cmdline")


def _read_process(pid: int, what: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes().split(b"\0")
    except OSError:
        return []  # gone, or somebody else's


def _signal_process(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def free_port() -> int:
    """A free port of the loopback that the system gives to no outgoing connection.

    A port that the system picks itself (bind to 0) is one of those that it hands to connections:
    any process's next one may have it before the server has started, which then never listens.
    """
    above = max(_outgoing_from(), LEAST + 1)
    for _ in range(1000):
        port = LEAST + secrets.randbelow(above - LEAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"none of 1000 ports from {LEAST} to {above - 1} is free")


def _outgoing_from() -> int:
    try:
        return int(OUTGOING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return OUTGOING_FROM


def run_locally(
    experiment: Experiment,
    folder: RunFolder,
    observer: Observer,
    meddle: Callable[[LocalProcesses], None] | None = None,
) -> Outcome:
    """One attempt at a run, new or resumed. `meddle` is for tests: called at every look."""
    flare = folder.path / "private" / "flare"
    end_leftovers(flare / "logs")
    job, kits = _prepare_job(experiment, folder, flare)
    with LocalProcesses(kits, flare / "logs") as processes:
        processes.start_server()
        for site in job.sites:
            processes.start_site(site)
        _submit_job(kits, flare / "job", job, experiment.config.engine.start_within)
        return _follow_job(experiment, folder, observer, job, processes, meddle)


def _prepare_job(experiment: Experiment, folder: RunFolder, flare: Path) -> tuple[Job, Kits]:
    """Kits, shards and the job's folder; what an earlier attempt left of them goes."""
    hosts = hosts_of(experiment)
    names = [f"site-{i + 1}" for i in range(experiment.config.engine.sites)]
    sites = spread_hosts(hosts, names)
    homes = {site: flare / "sites" / site for site in sites}
    for site, own in sites.items():
        _write_shards(homes[site] / "shards", experiment, own)
    shutil.rmtree(flare / "kits", ignore_errors=True)
    shutil.rmtree(flare / "job", ignore_errors=True)
    (folder.path / "private" / OUTCOME).unlink(missing_ok=True)
    (folder.path / "private" / STOP).unlink(missing_ok=True)
    kits = provision_kits(
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


def _submit_job(kits: Kits, folder: Path, job: Job, seconds: float) -> None:
    command = [sys.executable, "-m", "securefg.flare.admin"]
    arguments = [str(kits.admin), str(folder), str(seconds), *job.sites]
    asked = subprocess.run(
        command + arguments,
        env=party_environment(),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,  # the first Ctrl-C is a wish, not an end
    )
    if asked.returncode:
        last = asked.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise RunFailed(f"the job was not submitted: {last[0]}; see {kits.path.parent / 'logs'}")


def _follow_job(
    experiment: Experiment,
    folder: RunFolder,
    observer: Observer,
    job: Job,
    processes: LocalProcesses,
    meddle: Callable[[LocalProcesses], None] | None,
) -> Outcome:
    """Show the rounds as they come; pass on a wish to stop. Return or raise what the server did."""
    attempts, reported_round, started = folder.path / "attempts.jsonl", 0, False
    before = len(read_json_lines(attempts))
    watch = Watch(processes, 2 * experiment.config.engine.start_within)
    while True:
        ended = _job_outcome(folder, job)
        lines = read_json_lines(attempts)
        if not started and len(lines) > before:
            started, reported_round = True, lines[-1]["after_round"]
            observer.started(experiment, reported_round + 1)
        if started:
            for line in folder.metrics():
                if line["round"] > reported_round:
                    reported_round = line["round"]
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


def _job_outcome(folder: RunFolder, job: Job) -> dict[str, Any] | None:
    path = folder.path / "private" / OUTCOME
    if not path.exists():
        return None
    found: dict[str, Any] = read_json(path)
    return found if found["submission"] == job.submission else None
