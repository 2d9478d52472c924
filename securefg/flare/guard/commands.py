"""What the server may have a site do, and what an administrator may have the server do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.hci.server.reg import ServerCommandRegister
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import JobFailureMsgKey, RequestHeader, TrainingTopic, new_cell_message
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.fed.client.training_cmds import DeployProcessor

from securefg.flare.guard.doors import RESULT
from securefg.flare.guard.downloads import only_files

SITE_COMMANDS = frozenset(
    {
        TrainingTopic.CHECK_RESOURCE,
        TrainingTopic.CANCEL_RESOURCE,
        TrainingTopic.DEPLOY,
        TrainingTopic.START_JOB,
        TrainingTopic.ABORT,
    }
)
OF_THE_JOB = TrainingTopic.NOTIFY_JOB_STATUS  # told by the site's own job process
ADMIN_COMMANDS = frozenset(
    {
        "_cert_login",
        "_logout",
        "_check_session",
        "_commands",
        "check_status",
        "submit_job",
        "get_job_meta",
        "list_jobs",
        "download_job",
        "abort_job",
    }
)

Admit = Callable[[str, bytes, dict[str, Any]], None]
"""Raises unless a site may deploy this app, under this job's number and description."""

Told = Callable[[str, str], None]
"""A command that came, and what became of it, for the site's own books."""


class PlannedDeploy(DeployProcessor):  # type: ignore[misc]
    """Deploys what the site's own plan has in it, and nothing else."""

    def __init__(self, admit: Admit) -> None:
        super().__init__()
        self._admit = admit

    def process(self, req: Message, app_ctx: Any) -> Message:
        job_id, meta = req.get_header(RequestHeader.JOB_ID), req.get_header(RequestHeader.JOB_META)
        try:
            self._admit(job_id, req.body, meta)
        except Exception as error:
            return error_reply(f"refused by the site: {error}")
        return super().process(req, app_ctx)


def strip_site(admit: Admit) -> None:
    """Leave a site's process the commands that a job needs."""
    wanted = SITE_COMMANDS | {OF_THE_JOB}
    ClientRequestProcessors.request_processors[:] = [
        PlannedDeploy(admit) if isinstance(processor, DeployProcessor) else processor
        for processor in ClientRequestProcessors.request_processors
        if set(processor.get_topics()) <= wanted
    ]


def strip_server() -> None:
    """Leave administrators the commands of the runbook."""
    add = ServerCommandRegister.add_command

    def add_command(self: Any, scope_name: str, cmd_name: str, *args: Any, **kw: Any) -> None:
        if cmd_name in ADMIN_COMMANDS:
            add(self, scope_name, cmd_name, *args, **kw)

    ServerCommandRegister.add_command = add_command


def checked_handler(channel: str, topic: str, handler: Any, told: Told) -> Any:
    """FLARE's handler, behind what must be checked after its message was decoded."""
    if channel == "admin":

        def obey(request: Any, *args: Any, **kw: Any) -> Any:
            command = getattr(request.payload, "topic", None)
            from_job = request.get_header(MessageHeaderKey.TOPIC) == OF_THE_JOB
            if command not in ({OF_THE_JOB} if from_job else SITE_COMMANDS):
                told(str(command), "refused")
                return new_cell_message({}, error_reply("not answered here"))
            if not from_job:
                told(str(command), "taken")
            return handler(request, *args, **kw)

        return obey
    if (channel, topic) == ("task", "report_job_failure"):

        def note(request: Any, *args: Any, **kw: Any) -> Any:
            # A site that fails is a drop-out; FLARE would end the job of all the others.
            if isinstance(request.payload, dict):
                request.payload[JobFailureMsgKey.CODE] = None
            return handler(request, *args, **kw)

        return note
    return only_files(handler) if (channel, topic) == RESULT else handler
