"""An administrator fetches a job's result: the server gives files it was told to, and no other.

FLARE's download service hands out any object that its process put up under a random number, and
its administrator's program writes wherever the server's file names say.
"""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePath
from typing import Any

from nvflare.fuel.f3.cellnet.defs import ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.streaming.download_service import DownloadService
from nvflare.fuel.f3.streaming.file_downloader import FileDownloadable
from nvflare.fuel.hci.client.file_transfer import FileTransferModule

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
    """A file's name without a way in it; raises where there is one."""
    if name in ("", ".", "..") or PurePath(name).name != name or "\0" in name:
        raise ValueError(f"the server named a file {name[:100]!r}: not taken")
    return name
