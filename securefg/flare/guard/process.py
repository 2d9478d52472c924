"""The entry point of every process of a deployment: FLARE's own program, behind the guard.

    python -m securefg.flare.guard.process site|site_job|server|server_job ARGUMENTS OF FLARE

Refuses to start where the guard was not reviewed for the FLARE that is installed, or where others
can read or change the kit.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import runpy
import sys
from pathlib import Path
from typing import Any

from securefg.flare.guard.modes import check_modes
from securefg.flare.guard.settings import check_settings
from securefg.flare.guard.supported import require_supported
from securefg.flare.guard.terminal import CONSOLE, end_on_signals, take_terminal, tell_user
from securefg.foundation.errors import SecurefgError

MODULE = "securefg.flare.guard.process"
PROGRAMS = {
    "site": "nvflare.private.fed.app.client.client_train",
    "site_job": "nvflare.private.fed.app.client.worker_process",
    "server": "nvflare.private.fed.app.server.server_train",
    "server_job": "nvflare.private.fed.app.server.runner_process",
}


def guard(kind: str, kit: Path) -> None:
    """Put the guard into FLARE, in this process."""
    require_supported()
    check_modes(kit)
    if kind != "admin":
        check_settings(kit)
    from securefg.flare.guard import cell, commands, repairs
    from securefg.flare.guard.pulse import Pulse
    from securefg.flare.guard.visits import Visits

    pulse = Pulse()
    cell.install(Visits(kit, kind), pulse)
    repairs.make_frames_without_copies()
    repairs.drop_late_connections()
    if kind == "site":
        from securefg.flare.app_files import admitter

        commands.strip_site(admitter(kit))
        repairs.ask_again()
    if kind == "server":
        from securefg.flare.guard.operating import offer_commands
        from securefg.flare.results import hand_over_runs

        offer_commands(kit, pulse)
        hand_over_runs(kit)
        commands.strip_server()
        repairs.let_dead_sites_go()
        repairs.sign_with_the_key()
    if kind == "admin":
        commands.stay_in_folder()


def main() -> None:
    """Start FLARE's program behind the guard. Exit with 2 where the guard refuses."""
    kind = sys.argv.pop(1)
    kit = Path(sys.argv[sys.argv.index("-m") + 1])
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold keys and rows
    os.environ["PYTHONSAFEPATH"] = "1"  # for the job's process: nothing is imported from here
    take_terminal()
    try:
        guard(kind, kit)
    except SecurefgError as error:
        tell_user(f"{kit}: not started: {error}")
        sys.exit(2)
    if kind in ("site", "server"):
        end_on_signals(kit.name, kill_children)
    try:
        runpy.run_module(PROGRAMS[kind], run_name="__main__", alter_sys=True)
    finally:
        if kind in ("site", "server"):
            tell_user(f"{kit.name}: ended; {CONSOLE} and log.txt in {kit} say why")


def kill_children() -> None:
    """Kill the processes of jobs, which FLARE starts in sessions of their own."""
    psutil: Any = importlib.import_module("psutil")
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


if __name__ == "__main__":
    main()
