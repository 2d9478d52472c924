"""How a job's process is started: as FLARE does, but behind the guard.

At a site a crash of it is told to nobody. FLARE's client reports a job's process that died, and its
server then ends the job at all sites. For us a site that dies is a drop-out: the others finish the
round without it, and the run goes on.
"""

from __future__ import annotations

from typing import Any

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobProcessArgs, JobReturnCode
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.fuel.f3.cellnet import cell as cell_module

from securefg.flare.guard.cell import GuardedCell
from securefg.flare.guard.process import MODULE
from securefg.foundation.errors import ConfigError


def _require_guard() -> None:
    """FLARE makes these when it starts: without the guard it does not."""
    if cell_module.CoreCell is not GuardedCell:
        raise ConfigError("FLARE was started without securefg's guard: `securefg deploy start KIT`")


class _Handle(ProcessHandle):  # type: ignore[misc]
    def poll(self) -> Any:
        code = super().poll()
        return code if code == JobReturnCode.SUCCESS else JobReturnCode.UNKNOWN


def _guard_job(kind: str, fl_ctx: FLContext) -> None:
    arguments = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS)
    arguments[JobProcessArgs.EXE_MODULE] = ("-m", f"{MODULE} {kind}")


class ServerLauncher(ServerProcessJobLauncher):  # type: ignore[misc]
    """Named in the server's own `resources.json`."""

    def __init__(self) -> None:
        _require_guard()
        super().__init__()

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> ProcessHandle:
        """Start the job's process at the server behind the guard."""
        _guard_job("server_job", fl_ctx)
        return super().launch_job(job_meta, fl_ctx)


class SiteLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """Named in a site's own `resources.json`; no job can ask for it."""

    def __init__(self) -> None:
        _require_guard()
        super().__init__()

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> ProcessHandle:
        """Start the job's process at a site behind the guard; its crash is told to nobody."""
        _guard_job("site_job", fl_ctx)
        return _Handle(process_adapter=super().launch_job(job_meta, fl_ctx).adapter)
