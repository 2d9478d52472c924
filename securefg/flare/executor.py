"""The part that FLARE loads at a site: it passes packets to the site's run, one after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet import defs
from nvflare.fuel.f3.cellnet.utils import make_reply as cell_reply
from nvflare.fuel.f3.message import Message

from securefg.flare.app_files import JOB_FILE
from securefg.flare.guard.doors import ASK, CHANNEL, PING
from securefg.flare.job_process import end_with_parent, plain_bytes
from securefg.flare.kits import load_site_kit
from securefg.foundation.errors import SecurefgError
from securefg.site.job import Job
from securefg.site.packets import Packet
from securefg.site.run import SiteRun


class SiteExecutor(Executor):  # type: ignore[misc]
    """Holds the site's run for the life of the job; its one worker does all the work in order."""

    def __init__(self) -> None:
        super().__init__()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="site")
        self._run: SiteRun | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Load the site's kit and job when the run starts, and listen for packets."""
        if event_type == EventType.START_RUN:
            end_with_parent()
            workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
            kit = load_site_kit(Path(workspace.get_root_dir()))
            job_id = fl_ctx.get_job_id()
            job = Job.read(Path(workspace.get_app_config_dir(job_id)) / JOB_FILE)
            self._run = SiteRun(kit, job, job_id)
            cell = fl_ctx.get_engine().get_cell()
            cell.register_request_cb(channel=CHANNEL, topic=ASK, cb=self._answer_request)
            cell.register_request_cb(channel=CHANNEL, topic=PING, cb=self._answer_ping)
        elif event_type == EventType.END_RUN:
            self._worker.shutdown(wait=False, cancel_futures=True)

    def _answer_request(self, request: Message) -> Message:
        assert self._run is not None
        try:
            packet = Packet.unpack(request.payload)
            reply = self._worker.submit(self._run.handle, packet).result()
        except SecurefgError as error:
            # Not a request of the server's, or not of this job: it is told no more than that.
            self.logger.error(f"refused a request: {error}")
            return cell_reply(defs.ReturnCode.INVALID_REQUEST)
        except Exception as error:  # FLARE would send its text to the server
            self.logger.error(f"a request failed: {type(error).__name__}: {error}")
            return cell_reply(defs.ReturnCode.INVALID_REQUEST)
        return plain_bytes(cell_reply(defs.ReturnCode.OK, body=reply.pack()))

    def _answer_ping(self, request: Message) -> Message:
        return cell_reply(defs.ReturnCode.OK, body=b"")

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """No task is ever answered: requests come signed, by the other way."""
        return make_reply(ReturnCode.TASK_UNKNOWN)
