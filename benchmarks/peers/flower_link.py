"""One SuperLink on this machine's loopback, with its simulation or with SuperNodes, and one run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BIN: Final = Path(sys.executable).parent
LOOPBACK: Final = "127.0.0.1"
READY_SECONDS: Final = 240.0


@dataclass(frozen=True)
class Federation:
    """Where a run takes place.

    homes         the folder that holds a folder of every site
    is_simulated  Flower's simulation engine, or a process per SuperNode
    """

    homes: Path
    sites: int
    is_simulated: bool

    def run(self, app: Path, out: Path, run_config: str, seconds: float) -> float:
        """Run the app until it has saved its model in `out`. Return the seconds that it took."""
        link, *nodes = free_ports(1 + (0 if self.is_simulated else self.sites))
        node_environment = self._environment(out, link)
        with ExitStack() as stack:
            base = ["flower-superlink", "--insecure", "--disable-runtime-dependency-installation"]
            kind = ["--simulation"] if self.is_simulated else []
            command = [*base, *kind, "--host", LOOPBACK, "--port", str(link)]
            start(stack, out, "superlink", command, node_environment)
            wait_for_port(link)
            for site, port in enumerate(nodes):
                start(
                    stack,
                    out,
                    f"node-{site}",
                    self._node_command(site, link, port),
                    node_environment,
                )
            time.sleep(0 if self.is_simulated else 10)
            began = time.monotonic()
            submit = [str(BIN / "flwr"), "run", str(app), "here", "--run-config", run_config]
            if self.is_simulated:
                sizes = f"num-supernodes={self.sites} client-resources-num-cpus=1"
                submit += ["--federation-config", sizes]
            subprocess.run(submit, check=True, env=node_environment)
            model = out / "final_model.pt"
            while not model.is_file() and time.monotonic() - began < seconds:
                time.sleep(0.5)
            if not model.is_file():
                raise SystemExit(f"{out}: found no model after {seconds:g} s; see superlink.log")
            return time.monotonic() - began

    def _node_command(self, site: int, link: int, port: int) -> list[str]:
        home = self.homes / str(site)
        parts = f"partition-id={site} num-partitions={self.sites}"
        config = f'{parts} securefg-home="{home}"'
        join = ["--insecure", "--superlink", f"{LOOPBACK}:{link}", "--port", str(port)]
        return ["flower-supernode", *join, "--node-config", config]

    def _environment(self, out: Path, link: int) -> dict[str, str]:
        home = out / "flwr"
        home.mkdir()
        address = f'address = "{LOOPBACK}:{link}"\ninsecure = true\n'
        named = f'[superlink]\ndefault = "here"\n\n[superlink.here]\n{address}'
        (home / "config.toml").write_text(named)
        return {
            **os.environ,
            "FLWR_HOME": str(home),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "SECUREFG_SITE_HOME": str(self.homes / "{partition}"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
        }


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def start(stack: ExitStack, out: Path, name: str, command: list[str], env: dict[str, str]) -> None:
    """Start a process that ends with the stack, and with it all that it started.

    Its output goes to OUT/NAME.log.
    """
    log = stack.enter_context((out / f"{name}.log").open("w"))
    words = [str(BIN / command[0]), *command[1:]]
    process = subprocess.Popen(
        words, stdout=log, stderr=log, cwd=out, env=env, start_new_session=True
    )
    stack.callback(end_group, process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process, and after ten seconds all that it started."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for_port(port: int) -> None:
    """Return when something listens on the port. Raise after four minutes."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        with socket.socket() as one:
            if one.connect_ex((LOOPBACK, port)) == 0:
                return
        time.sleep(0.5)
    raise SystemExit(f"port {port}: found nobody listening; expected the SuperLink")
