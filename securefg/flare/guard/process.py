"""The entry point of every process of a deployment: FLARE's own program, behind the guard.

    python -m securefg.flare.guard.process site|site_job|server|server_job ARGUMENTS OF FLARE

Refuses to start where the guard was not reviewed for the FLARE that is installed, or where others
can read or change the kit.
"""

from __future__ import annotations

import os
import resource
import runpy
import sys
from pathlib import Path

from securefg.flare.guard.modes import check_modes
from securefg.flare.guard.settings import check_settings
from securefg.flare.guard.supported import require_supported
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
    from securefg.flare.guard.visits import Visits

    cell.install(Visits(kit, kind))
    repairs.make_frames_without_copies()
    if kind == "site":
        from securefg.flare.app_files import admitter

        commands.strip_site(admitter(kit))
        repairs.ask_again()
    if kind == "server":
        commands.strip_server()
        repairs.sign_with_the_key()
    if kind == "admin":
        commands.stay_in_folder()


def main() -> None:
    """Start FLARE's program behind the guard; exit with 2 where the guard refuses."""
    kind = sys.argv.pop(1)
    kit = Path(sys.argv[sys.argv.index("-m") + 1])
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold keys and rows
    os.environ["PYTHONSAFEPATH"] = "1"  # for the job's process: nothing is imported from here
    try:
        guard(kind, kit)
    except SecurefgError as error:
        sys.stderr.write(f"{kit}: not started: {error}\n")
        sys.exit(2)
    runpy.run_module(PROGRAMS[kind], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
