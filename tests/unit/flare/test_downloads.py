"""Fetching a result: the server gives its files alone; the administrator keeps them in a folder."""

from __future__ import annotations

import inspect
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.streaming.download_service import DownloadService
from nvflare.fuel.f3.streaming.file_downloader import FileDownloadable
from nvflare.fuel.hci.client.file_transfer import FileTransferModule

from securefg.flare.admin import Admin
from securefg.flare.guard.commands import checked_handler, plain, stay_in_folder
from securefg.flare.guard.doors import RESULT
from securefg.foundation.errors import RunFailed


def asked_for(put_up: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(DownloadService, "_ref_table", {"R1": SimpleNamespace(obj=put_up)})
    handler = checked_handler(*RESULT, lambda request: "given", lambda name, outcome: None)
    return handler(SimpleNamespace(payload={"ref_id": "R1"}))


@pytest.mark.parametrize("name", ["workspace.zip", "job.zip", "meta.json"])
def test_the_files_of_a_finished_job_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).touch()
    assert asked_for(FileDownloadable(str(tmp_path / name)), monkeypatch) == "given"


def test_nothing_else_that_the_server_put_up_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server.key").touch()
    for put_up in (FileDownloadable(str(tmp_path / "server.key")), object()):
        reply = asked_for(put_up, monkeypatch)
        assert reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/etc/passwd", "a/b", "a/", "a\0b"])
def test_a_name_with_a_way_in_it_is_not_taken(name: str) -> None:
    with pytest.raises(ValueError, match="not taken"):
        plain(name)


def test_a_hostile_servers_names_write_nothing_outside_the_administrators_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch)
    (tmp_path / "fetched").mkdir()
    module = FileTransferModule(str(tmp_path / "fetched"), str(tmp_path / "fetched"))

    def pulled(tx_id: str, file_name: str) -> None:
        context = Context()
        context.api = SimpleNamespace(
            fire_session_event=lambda *x: None, server_execute=context.write
        )
        module.pull_binary_file(["", "server", tx_id, "R1", "job", file_name], context)

    (tmp_path / "fetched" / "job__t").mkdir()
    pulled("t", str(tmp_path / "outside"))
    assert (tmp_path / "outside").exists()  # FLARE's own program writes where it is told to
    (tmp_path / "outside").unlink()
    stay_in_folder()
    pulled("t", "inside")
    assert (tmp_path / "fetched" / "job__t" / "inside").exists()
    for tx_id, name in (("t", str(tmp_path / "outside")), ("t", "../../x"), ("t/../..", "x")):
        with pytest.raises(ValueError, match="not taken"):
            pulled(tx_id, name)
    assert {path.name for path in tmp_path.rglob("*")} == {"fetched", "job__t", "inside"}


def put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the test FLARE's own functions are there again."""
    for name in ("_tx_path", "pull_binary_file", "_unzip_file"):
        own = inspect.getattr_static(FileTransferModule, name)
        monkeypatch.setattr(FileTransferModule, name, own)


def test_an_archive_that_unpacks_to_more_than_itself_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch)
    api = SimpleNamespace(debug=lambda text: None, fire_session_event=lambda *x: None)
    for name, how in (("bomb", zipfile.ZIP_DEFLATED), ("honest", zipfile.ZIP_STORED)):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w", how) as archive:
            archive.writestr("zeros", bytes(10**7))
    shutil.copy(tmp_path / "bomb.zip", tmp_path / "control.zip")
    FileTransferModule._unzip_file(api, str(tmp_path / "control.zip"))
    assert (tmp_path / "control" / "zeros").stat().st_size == 10**7
    stay_in_folder()
    FileTransferModule._unzip_file(api, str(tmp_path / "honest.zip"))
    assert (tmp_path / "honest" / "zeros").stat().st_size == 10**7
    with pytest.raises(ValueError, match="not unpacked"):
        FileTransferModule._unzip_file(api, str(tmp_path / "bomb.zip"))
    assert not (tmp_path / "bomb").exists()


@pytest.mark.parametrize("told", ["/", "", "/etc", None, 3, "KIT/../.."])
def test_a_result_elsewhere_on_the_administrators_disk_is_not_taken(
    tmp_path: Path, told: object
) -> None:
    """FLARE's program returns the server's own word on where it lies if it names no files."""
    said = told.replace("KIT", str(tmp_path)) if isinstance(told, str) else told
    with pytest.raises(RunFailed, match="not taken"):
        Admin(SimpleNamespace(download_job_result=lambda job: said), tmp_path).download("1")
    inside = SimpleNamespace(download_job_result=lambda job: str(tmp_path / "transfer"))
    assert Admin(inside, tmp_path).download("1") == tmp_path / "transfer"


class Context:
    """FLARE's context of a command, whose transfer writes the file at once."""

    api: Any

    def get_api(self) -> Any:
        return self.api

    def get_command_entry(self) -> None: ...

    def get_command(self) -> str:
        return ""

    def set_requester(self, receiver: Any) -> None:
        self.path = Path(receiver.file_name)

    def write(self, command: str, cmd_ctx: Any) -> dict[str, str]:
        self.path.write_text("planted")
        return {"status": "SUCCESS"}
