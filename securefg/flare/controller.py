"""The part that FLARE loads at the server: its control flow is the whole run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.message import Message

from securefg.flare.app_files import JOB_FILE
from securefg.flare.guard.doors import ASK, CHANNEL, PING
from securefg.flare.job_process import end_with_parent, plain_bytes
from securefg.flare.server_run import ServerKit, ServerRun
from securefg.foundation.errors import SecurefgError
from securefg.protocol.codec import Body
from securefg.site.job import Job
from securefg.site.packets import Packet


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
        """Run the whole job; the server's own process hands the run over (`results.py`)."""
        workspace, job_id = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT), fl_ctx.get_job_id()
        job = Job.read(Path(workspace.get_app_config_dir(job_id)) / JOB_FILE)
        kit = ServerKit.load(Path(workspace.get_root_dir()))
        try:
            run = self._planned_run(kit, job, job_id, abort_signal, fl_ctx)
        except SecurefgError as refused:
            self.system_panic(str(refused), fl_ctx)
            return
        _, error = run.execute()
        if error is not None:
            self.system_panic(str(error), fl_ctx)

    def _planned_run(
        self, kit: ServerKit, job: Job, job_id: str, abort_signal: Signal, fl_ctx: FLContext
    ) -> ServerRun:
        cell = fl_ctx.get_engine().get_cell()
        return ServerRun(
            kit,
            job,
            job_id,
            _make_sender(cell, job_id),
            _make_pinger(cell, job_id),
            lambda: bool(abort_signal.triggered),
        )


def _make_sender(cell: Any, job_id: str) -> Any:
    def send_packet(site: str, packet: Packet, timeout: float) -> Packet | None:
        reply = _exchange_with_site(cell, f"{site}.{job_id}", ASK, packet.pack(), timeout)
        return None if reply is None else Packet.unpack(reply)

    return send_packet


def _make_pinger(cell: Any, job_id: str) -> Any:
    def ping_site(site: str, timeout: float) -> bool:
        return _exchange_with_site(cell, f"{site}.{job_id}", PING, [], timeout) is not None

    return ping_site


def _exchange_with_site(
    cell: Any, target: str, topic: str, content: list[Body], timeout: float
) -> Any:
    """One request to one site's job; anything but OK is no answer."""
    reply = cell.send_request(
        channel=CHANNEL,
        topic=topic,
        target=target,
        request=plain_bytes(Message(None, content)),
        timeout=timeout,
        optional=True,
    )
    found = reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK
    return (reply.payload or b"") if found else None
