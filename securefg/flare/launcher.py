"""How a site starts a job's process: as FLARE does, but a crash of it is told to nobody.

FLARE's client reports a job's process that died, and its server then ends the job at all sites. For
us a site that dies is a drop-out: the others finish the round without it, and the run goes on.
"""

from __future__ import annotations

from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobReturnCode
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle


class _Handle(ProcessHandle):  # type: ignore[misc]
    def poll(self) -> Any:
        code = super().poll()
        return code if code == JobReturnCode.SUCCESS else JobReturnCode.UNKNOWN


class SiteLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """Named in a site's own `resources.json`; no job can ask for it."""

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> ProcessHandle:
        return _Handle(process_adapter=super().launch_job(job_meta, fl_ctx).adapter)
