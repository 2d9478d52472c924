"""The processes of a local federation: started on a free port, found by a mark, and ended.

FLARE starts processes of its own for every job, in sessions of their own. All of them inherit an
environment variable with a random value, by which they are found again whoever their parent is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from securefg.flare.kits import Kits
from securefg.flare.party import MARK, command_for, environment
from securefg.foundation.files import write_atomically


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
                env={**environment(), MARK: self._mark},
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
        found = _marked(self._mark)
        if party is None:
            return found
        kit = str((self._kits.path / party).resolve()).encode()
        return [pid for pid in found if kit in _arguments(pid)]

    def job_pids(self, party: str) -> list[int]:
        """The processes that FLARE started at a party for the job."""
        own = self._started[party].pid if party in self._started else 0
        return [pid for pid in self.pids(party) if pid != own]

    def kill(self, party: str) -> None:
        """Kill -9 everything of one party, as if its machine had lost power."""
        for pid in self.pids(party):
            _signal(pid, signal.SIGKILL)
        if party in self._started:
            self._started[party].wait()

    def stop(self) -> None:
        """End all of them: their work is on disk, so they need no time to say goodbye."""
        _end(self._mark, list(self._started.values()))


def end_leftovers(logs: Path) -> None:
    """End what an earlier federation left, where the one who drove it was killed."""
    with contextlib.suppress(FileNotFoundError):
        _end((logs / "mark").read_text(), [])


def _die_with_parent() -> None:
    """Linux ends them when the one who drives is killed; FLARE's job processes then follow."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _end(mark: str, children: list[subprocess.Popen[bytes]]) -> None:
    """The job's processes first, so that those who started them can still bury them."""
    own, end = {child.pid for child in children}, time.monotonic() + 10
    jobs = set(_marked(mark)) - own
    for pid in jobs:
        _signal(pid, signal.SIGKILL)
    while any(Path(f"/proc/{pid}").exists() for pid in jobs) and time.monotonic() < end - 8:
        time.sleep(0.02)
    while (pids := _marked(mark)) and time.monotonic() < end:
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        for child in children:
            child.poll()
        time.sleep(0.02)
    for child in children:
        child.wait()


def _marked(mark: str) -> list[int]:
    pids = map(int, filter(str.isdecimal, os.listdir("/proc")))
    return [pid for pid in pids if f"{MARK}={mark}".encode() in _read(pid, "environ")]


def _arguments(pid: int) -> list[bytes]:
    return _read(pid, "cmdline")


def _read(pid: int, what: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes().split(b"\0")
    except OSError:
        return []  # gone, or somebody else's


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


LEAST = 10_000  # below are ports that well-known services listen on
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
OUTGOING_FROM = 32_768  # Linux' own default, where it does not tell


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
