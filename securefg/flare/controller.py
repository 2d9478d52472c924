"""What FLARE loads at the server: its control flow is the whole run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from securefg.flare.executor import ASK, PING
from securefg.flare.job import JOB_FILE, Job
from securefg.flare.orphans import end_with_parent
from securefg.flare.packets import Packet
from securefg.flare.server_run import ServerKit, ServerRun

RESULT = "securefg_run"


class RunController(Controller):  # type: ignore[misc]
    """Runs the runner; sends packets to the job's process at each site."""

    def start_controller(self, fl_ctx: FLContext) -> None:
        end_with_parent()

    def stop_controller(self, fl_ctx: FLContext) -> None: ...

    def process_result_of_unknown_task(
        self,
        client: Client,
        task_name: str,
        client_task_id: str,
        result: Shareable,
        fl_ctx: FLContext,
    ) -> None: ...

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        workspace, job_id = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT), fl_ctx.get_job_id()
        job = Job.read(Path(workspace.get_app_config_dir(job_id)) / JOB_FILE)
        kit = ServerKit.load(
            Path(workspace.get_startup_kit_dir()),
            Path(workspace.get_site_config_dir()),
            Path(workspace.get_root_dir()),
        )
        engine = fl_ctx.get_engine()
        run = ServerRun(
            kit, job, job_id, _sender(engine), _pinger(engine), lambda: bool(abort_signal.triggered)
        )
        folder, error = run.execute()
        if not job.run_folder:
            # What an admin fetches: all but what is private to the server's machine.
            shutil.copytree(
                folder,
                Path(workspace.get_run_dir(job_id)) / RESULT,
                ignore=shutil.ignore_patterns("private", "checkpoints"),
            )
        if error is not None:
            self.system_panic(str(error), fl_ctx)


def _sender(engine: Any) -> Any:
    def send(site: str, packet: Packet, timeout: float) -> Packet | None:
        request = Shareable()
        request.update(packet.to_dict())
        reply = _exchange(engine, site, ASK, request, timeout)
        return None if reply is None else Packet.of(reply)

    return send


def _pinger(engine: Any) -> Any:
    def ping(site: str, timeout: float) -> bool:
        return _exchange(engine, site, PING, Shareable(), timeout) is not None

    return ping


def _exchange(
    engine: Any, site: str, topic: str, request: Shareable, timeout: float
) -> Shareable | None:
    """One request to one site; anything but OK is no answer."""
    with engine.new_context() as context:
        replies = engine.send_aux_request([site], topic, request, timeout, context, optional=True)
    reply = (replies or {}).get(site)
    if reply is None or reply.get_return_code() != ReturnCode.OK:
        return None
    return reply
