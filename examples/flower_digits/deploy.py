"""Run the app on one SuperLink and two SuperNodes, real processes on this machine's loopback.

    python examples/flower_digits/deploy.py OUT --rounds 3

Each SuperNode names its own site's folder in its node config. The link between them is not
encrypted (`--insecure`): this is a rehearsal on one machine.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from simulate import HERE, finish, prepare

BIN = Path(sys.executable).parent
LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def start(stack: ExitStack, out: Path, name: str, *command: str) -> None:
    """Start a process that ends with the stack; its words go to OUT/NAME.log."""
    log = stack.enter_context((out / f"{name}.log").open("w"))
    process = subprocess.Popen([str(BIN / command[0]), *command[1:]], stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.terminate)


def deploy(out: Path, sites: int, seconds: int) -> None:
    """Start the processes, submit the app, and wait for its scores."""
    link, *nodes = free_ports(1 + sites)
    home = out / "flwr"
    home.mkdir()
    address = f'address = "{LOOPBACK}:{link}"\ninsecure = true\n'
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\n{address}'
    )
    os.environ["FLWR_HOME"] = str(home)
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    with ExitStack() as stack:
        base = ("flower-superlink", "--insecure", "--disable-runtime-dependency-installation")
        start(stack, out, "superlink", *base, "--host", LOOPBACK, "--port", str(link))
        for site, port in enumerate(nodes):
            own = f'partition-id={site} num-partitions={sites} securefg-home="{out}/sites/{site}"'
            join = ("--insecure", "--superlink", f"{LOOPBACK}:{link}", "--port", str(port))
            start(stack, out, f"node-{site}", "flower-supernode", *join, "--node-config", own)
        time.sleep(15)
        subprocess.run([str(BIN / "flwr"), "run", str(HERE), "here"], check=True)
        end = time.monotonic() + seconds
        while not (out / "scores.json").is_file() and time.monotonic() < end:
            time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="A Flower app on two SuperNodes.")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--open", action="store_true", help="without the gate")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=400, help="longest wait for the run")
    asked = parser.parse_args()
    more = {"sites": 2, "clip": 1.0, "noise": 2.5, "control": None}
    more |= {"claimed_noise": None, "claimed_epsilon": None}
    settings = argparse.Namespace(**vars(asked), **more)
    out = asked.out.resolve()
    prepare(out, settings)
    deploy(out, settings.sites, asked.seconds)
    finish(out, settings)


if __name__ == "__main__":
    main()
