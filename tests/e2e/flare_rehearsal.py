"""A small deployment on loopback for tests: kits, guarded processes, and a hostile party."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from securefg.flare.app_files import write_flare_job
from securefg.flare.guard.settings import settle
from securefg.flare.kits import FederationPlan, Kits
from securefg.flare.local import free_port
from securefg.flare.party import command_for, party_environment
from securefg.flare.provisioning import dealt_out
from securefg.site.policy import POLICY_FILE, SitePolicy, write_policy
from tests.small import config

SITES = ["bank-a", "bank-b"]
OUTSIDE = {"home": "home", "tmpdir": "tmp"}


def deployment(
    folder: Path, *overrides: str, sites: list[str] | None = None, method: str = "fedgl"
) -> Kits:
    """Kits for a small run, dealt out with made data."""
    names, settings = sites or SITES, config(folder, *overrides, method=method)
    kits = dealt_out(folder / "kits", settings, "localhost", free_port(), names)
    for name in names:  # made data: the sites let everything go
        (kits.home(name) / POLICY_FILE).unlink()
        write_policy(kits.home(name) / POLICY_FILE, SitePolicy.everything_goes())
    return kits


class Parties:
    """Processes that were started here, by the party's name; ended together."""

    def __init__(self, kits: Kits, folder: Path) -> None:
        self.kits, self._folder = kits, folder
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        self._spawn(name, command_for(self.kits.path / name))

    def intrude(self, name: str, orders: list[dict[str, Any]]) -> None:
        kind = "server" if name == self.kits.server.name else "site"
        settle(self.kits.path / name)
        path = self._folder / f"{name}.orders"
        path.write_text(json.dumps(orders))
        script = str(Path(__file__).with_name("flare_intruder.py"))
        kit = str((self.kits.path / name).resolve())
        self._spawn(name, [sys.executable, script, kind, kit, str(path), str(self.answers(name))])

    def intrude_as_admin(self, orders: list[dict[str, Any]], kit: Path | None = None) -> str:
        """A hostile administrator; its name for `await_answers`. Without orders, only a login."""
        name = (kit or self.kits.admin).name
        path = self._folder / f"{name}.orders"
        path.write_text(json.dumps(orders))
        self._spawn(
            name,
            [
                *(sys.executable, "-m", "tests.e2e.flare_admin_intruder"),
                *(str((kit or self.kits.admin).resolve()), str(path) if orders else "none"),
                str(self.answers(name)),
            ],
        )
        return name

    def answers(self, name: str) -> Path:
        return self._folder / f"{name}.answers"

    def await_answers(self, name: str, seconds: float = 600) -> list[dict[str, Any]]:
        end = time.monotonic() + seconds
        while not self.answers(name).exists():
            assert time.monotonic() < end, self.log(name)
            ended = self.started[name].poll() is not None
            assert not ended or self.answers(name).exists(), self.log(name)
            time.sleep(0.2)
        found: list[dict[str, Any]] = json.loads(self.answers(name).read_text())
        return found

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()[-3000:]

    def _spawn(self, name: str, command: list[str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self.started[name] = subprocess.Popen(
                command,
                env={**party_environment(), **self.elsewhere()},
                cwd=self._folder / "cwd",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def elsewhere(self) -> dict[str, str]:
        """Where processes write that write somewhere; with `cwd`, all of them should stay empty."""
        for name in ("cwd", "home", "tmp"):
            (self._folder / name).mkdir(exist_ok=True)
        return {name.upper(): str(self._folder / part) for name, part in OUTSIDE.items()}

    def submit(self, job: Path | None = None, number: int = 1) -> subprocess.CompletedProcess[str]:
        """As the administrator: the planned job, or a folder of another."""
        plan = FederationPlan.read(self.kits.path)
        if job is None:
            job = self._folder / f"job-{number}"
            write_flare_job(job, plan.job(number).to_json())
        command = [sys.executable, "-m", "securefg.flare.admin"]
        return subprocess.run(
            [*command, str(self.kits.admin), str(job), "60", *plan.sites],
            env=party_environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def ended(self, number: int = 1, seconds: float = 600) -> dict[str, Any]:
        """How the run ended, as the server wrote it."""
        run = FederationPlan.read(self.kits.path).run
        path = self.kits.server / "securefg_runs" / run / "private" / "outcome.json"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if path.exists():
                found: dict[str, Any] = json.loads(path.read_text())
                if found["submission"] == number:
                    return found
            time.sleep(0.3)
        raise AssertionError("\n".join(self.log(name) for name in self.started))

    def pids(self, name: str) -> list[int]:
        """A party's own process and all below it."""
        import psutil

        try:
            own = psutil.Process(self.started[name].pid)
            return [own.pid, *(child.pid for child in own.children(recursive=True))]
        except psutil.Error:
            return []

    def stop(self) -> None:
        pids = [pid for name in self.started for pid in self.pids(name)]
        for pid in reversed(pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self.started.values():
            process.wait()


@contextmanager
def parties(kits: Kits, folder: Path) -> Iterator[Parties]:
    party_processes = Parties(kits, folder)
    try:
        yield party_processes
    finally:
        party_processes.stop()


def listening(pids: list[int]) -> set[tuple[str, int]]:
    """Addresses and ports on which these processes listen."""
    import psutil

    open_ports = set()
    for pid in pids:
        for connection in psutil.Process(pid).net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                open_ports.add((connection.laddr.ip, connection.laddr.port))
    return open_ports
