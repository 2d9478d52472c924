"""The processes of a local federation: started here, found by a mark, and ended, they alone.

FLARE starts processes of its own for every job, in sessions of their own. All of them inherit an
environment variable with a random value, by which they are found again whoever their parent is.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal, Self

from securefg.deploy.kits import Kits

MARK = "SECUREFG_FEDERATION"


class LocalProcesses:
    """A server and sites on this machine."""

    def __init__(self, kits: Kits, logs: Path) -> None:
        self._kits, self._logs = kits, logs
        self._mark = secrets.token_hex(16)
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start_server(self) -> None:
        self._start(self._kits.server, "server", [])

    def start_site(self, name: str) -> None:
        self._start(self._kits.site(name), "client", [f"uid={name}"])

    def _start(self, kit: Path, kind: Literal["server", "client"], facts: list[str]) -> None:
        command = [
            *(sys.executable, "-u", "-m", f"nvflare.private.fed.app.{kind}.{kind}_train"),
            *("-m", str(kit.resolve()), "-s", f"fed_{kind}.json"),
            *("--set", "secure_train=true", *facts, "org=none", "config_folder=config"),
        ]
        environment = {
            **os.environ,
            MARK: self._mark,
            "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), os.getcwd()]),
            # One thread each, before torch is asked: there are ten processes.
            "OMP_NUM_THREADS": "1",
        }
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / f"{kit.name}.log").open("ab") as log:
            self._started[kit.name] = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the one who drives, not for them
            )

    @property
    def dead(self) -> list[str]:
        """Parties whose own process has ended."""
        return [name for name, process in self._started.items() if process.poll() is not None]

    def pids(self, party: str | None = None) -> list[int]:
        """All processes that bear the mark; of one party, those that have its kit as argument."""
        kit = None if party is None else str((self._kits.path / party).resolve()).encode()
        return [
            pid
            for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))
            if self._is_ours(pid) and (kit is None or kit in _arguments(pid))
        ]

    def job_pids(self, party: str) -> list[int]:
        """The processes that FLARE started at a party for the job."""
        own = self._started[party].pid if party in self._started else 0
        return [pid for pid in self.pids(party) if pid != own]

    def _is_ours(self, pid: int) -> bool:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return f"{MARK}={self._mark}".encode() in environment

    def kill(self, party: str) -> None:
        """Kill -9 everything of one party, as if its machine had lost power."""
        for pid in self.pids(party):
            _signal(pid, signal.SIGKILL)
        if party in self._started:
            self._started[party].wait()

    def stop(self) -> None:
        """End all of them: their work is on disk, so they need no time to say goodbye."""
        end = time.monotonic() + 10
        while (pids := self.pids()) and time.monotonic() < end:
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            for process in self._started.values():
                process.poll()
            time.sleep(0.02)
        for process in self._started.values():
            process.wait()


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
