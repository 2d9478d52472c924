"""Two commands that an administrator has beside FLARE's: how a run does, and stop it.

    securefg_status       seconds since each site of the plan was heard, the run's progress, and
                          the jobs that this process runs
    securefg_stop JOB     have the run end after its round; another submission goes on with it

Both are for the administrator's certificate alone, and neither takes a path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nvflare.fuel.hci.proto import MetaStatusValue, make_meta
from nvflare.fuel.hci.reg import CommandModule, CommandModuleSpec, CommandSpec
from nvflare.private.fed.server.cmd_utils import CommandUtil

from securefg.flare.app_files import JOB_ID
from securefg.flare.guard.pulse import Pulse
from securefg.flare.overview import ANSWER, SHOW_STATUS, STOP_RUN
from securefg.flare.progress import STATUS
from securefg.flare.results import find_run
from securefg.foundation.files import PRIVATE, write_atomically
from securefg.foundation.json_text import read_json
from securefg.site.plan import read_plan

STOP = "stop"  # of `server_run.py`, which is heavy


class OperatingCommands(CommandModule, CommandUtil):  # type: ignore[misc]
    """Registered with FLARE's own commands at the server."""

    def __init__(self, kit: Path, pulse: Pulse) -> None:
        self._kit, self._pulse = kit, pulse

    def get_spec(self) -> CommandModuleSpec:
        """Return the names, handlers and checks of both commands."""
        handlers = {SHOW_STATUS: self.show_status, STOP_RUN: self.stop_run}
        specs = [
            CommandSpec(
                name=name,
                description=name,
                usage=name,
                handler_func=handler,
                authz_func=self.must_be_project_admin,
                visible=False,
            )
            for name, handler in handlers.items()
        ]
        return CommandModuleSpec(ANSWER, specs)

    def show_status(self, conn: Any, args: list[str]) -> None:
        """Answer with the silence of every site, the run's progress and the jobs that run here."""
        plan = read_plan(self._kit)
        path = self._private_of(plan) / STATUS
        job_status = {
            "silence": self._pulse.measure_silence(plan["sites"]),
            "progress": read_json(path) if path.exists() else None,
            "jobs": sorted(conn.app_ctx.job_runner.running_jobs),
        }
        _send_answer(conn, job_status)

    def stop_run(self, conn: Any, args: list[str]) -> None:
        """Leave the file that the job looks for after every round, with the job's number in it."""
        folder = self._private_of(read_plan(self._kit))
        job = args[1] if len(args) == 2 else ""
        if not folder.is_dir() or not JOB_ID.fullmatch(job):
            _send_answer(conn, {"stops": False})
            return
        write_atomically(folder / STOP, job, mode=PRIVATE)
        _send_answer(conn, {"stops": True})

    def _private_of(self, plan: dict[str, Any]) -> Path:
        return find_run(self._kit, plan) / "private"


def _send_answer(conn: Any, told: dict[str, Any]) -> None:
    conn.append_dict(told, meta=make_meta(MetaStatusValue.OK, extra={ANSWER: told}))


def offer_commands(kit: Path, pulse: Pulse) -> None:
    """Add both commands to those of this process, before FLARE makes its register."""
    from nvflare.private.fed.server.server_cmd_modules import ServerCommandModules

    ServerCommandModules.register_cmd_module(OperatingCommands(kit, pulse))
