"""What the server may have a site do, and what an administrator may have the server do and fetch.

FLARE's download service hands out any object that its process put up under a random number, and its
administrator's program writes wherever the server's file names say. Here the server gives out the
files of a finished job alone, and they land in the administrator's own folder.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.streaming.download_service import DownloadService
from nvflare.fuel.f3.streaming.file_downloader import FileDownloadable
from nvflare.fuel.hci.client.file_transfer import FileTransferModule
from nvflare.fuel.hci.server.reg import ServerCommandRegister
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import JobFailureMsgKey, RequestHeader, TrainingTopic, new_cell_message
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.fed.client.training_cmds import DeployProcessor

from securefg.flare.guard.doors import RESULT

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
        # Ours, in `operating.py`:
        "securefg_status",
        "securefg_stop",
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
        """Deploy the app if the site's plan has it; else answer with the reason."""
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


def checked_handler(channel: str, topic: str, handler: Any, report_command: Told) -> Any:
    """FLARE's handler, behind what must be checked after its message was decoded."""
    if channel == "admin":

        def obey(request: Any, *args: Any, **kw: Any) -> Any:
            command = getattr(request.payload, "topic", None)
            from_job = request.get_header(MessageHeaderKey.TOPIC) == OF_THE_JOB
            if command not in ({OF_THE_JOB} if from_job else SITE_COMMANDS):
                report_command(str(command), "refused")
                return new_cell_message({}, error_reply("not answered here"))
            if not from_job:
                report_command(str(command), "taken")
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


RESULTS = frozenset({"job.zip", "meta.json", "workspace.zip"})


def only_files(handler: Any) -> Any:
    """At the server: FLARE's handler, for the files of a finished job alone."""

    def give(request: Any, *args: Any, **kw: Any) -> Any:
        asked = request.payload.get("ref_id") if isinstance(request.payload, dict) else None
        put_up = DownloadService._ref_table.get(asked) if isinstance(asked, str) else None
        if put_up is not None and not _is_result(put_up.obj):
            return make_reply(ReturnCode.INVALID_REQUEST)
        return handler(request, *args, **kw)

    return give


def _is_result(put_up: Any) -> bool:
    return isinstance(put_up, FileDownloadable) and PurePath(put_up.name).name in RESULTS


def stay_in_folder() -> None:
    """At the administrator: what is fetched lands in the folder for it, whatever its name."""
    path_of, pull = FileTransferModule._tx_path, FileTransferModule.pull_binary_file
    unzip = FileTransferModule._unzip_file

    def checked_path(self: Any, tx_id: str, folder_name: str) -> Any:
        return path_of(self, plain(tx_id), plain(folder_name))

    def checked_pull(self: Any, args: list[str], ctx: Any) -> Any:
        plain(args[5])
        return pull(self, args, ctx)

    def checked_unzip(api: Any, file_path: str) -> None:
        require_stored(Path(file_path))
        unzip(api, file_path)

    FileTransferModule._tx_path = checked_path
    FileTransferModule.pull_binary_file = checked_pull
    FileTransferModule._unzip_file = staticmethod(checked_unzip)


def require_stored(path: Path) -> None:
    """FLARE packs without compression: an archive that unpacks to more than itself is a bomb."""
    with zipfile.ZipFile(path) as archive:
        whole = sum(entry.file_size for entry in archive.infolist())
    if whole > path.stat().st_size:
        raise ValueError(f"{path.name}: {whole} bytes in {path.stat().st_size}: not unpacked")


def plain(name: str) -> str:
    """A file's name without a way in it. Raise where there is one."""
    if name in ("", ".", "..") or PurePath(name).name != name or "\0" in name:
        raise ValueError(f"the server named a file {name[:100]!r}: not taken")
    return name
