"""A folder has one owner at a time, and a lock ends with the process that held it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from securefg.foundation.errors import RunFolderError
from securefg.foundation.lock import LOCK, owned, require_plain

HOLD = """
import sys, time
from pathlib import Path
from securefg.foundation.lock import owned
with owned(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_comer_is_told_who_holds_the_folder(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    wanted = f"{tmp_path} is in use by process {holder.pid}"
    with pytest.raises(RunFolderError, match=wanted), owned(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_taken_over(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with owned(tmp_path):
        assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n"


def test_the_patient_get_the_folder_once_its_owner_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = ExitStack()
    with ThreadPoolExecutor(max_workers=1) as elsewhere:
        elsewhere.submit(held.enter_context, owned(tmp_path)).result()
        with pytest.raises(RunFolderError, match="in use"), owned(tmp_path):
            pass

        def leave(seconds: float) -> None:
            elsewhere.submit(held.close).result()

        monkeypatch.setattr("securefg.foundation.lock.time.sleep", leave)
        with owned(tmp_path, patience=60.0):
            pass


def test_a_thread_may_ask_again_and_another_may_not(tmp_path: Path) -> None:
    refused: list[Exception] = []

    def other() -> None:
        try:
            with owned(tmp_path):
                pass
        except RunFolderError as error:
            refused.append(error)

    with owned(tmp_path):
        with owned(tmp_path):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    other()
    assert len(refused) == 1


def test_a_lock_moves_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with owned(tmp_path / "a"):
        (tmp_path / "a").rename(tmp_path / "b")
        with owned(tmp_path / "b"):
            pass


@pytest.mark.parametrize("name", [LOCK, "ledger.jsonl", "transcript/messages.bin"])
def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    """To read one would wait for a writer for ever."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(RunFolderError, match="is a pipe"):
        require_plain(tmp_path)
    with pytest.raises(RunFolderError, match="is a pipe"), owned(tmp_path):
        pass


@pytest.mark.parametrize("name", [LOCK, "ledger.jsonl"])
def test_nothing_is_written_through_a_second_name(name: str, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "run"
    folder.mkdir()
    victim.write_text("precious")
    os.link(victim, folder / name)
    with pytest.raises(RunFolderError, match="second name"), owned(folder):
        pass
    assert victim.read_text() == "precious"
    require_plain(folder)  # to read it does no harm


def test_an_endless_device_behind_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/zero")
    with pytest.raises(RunFolderError, match="is a link"):
        require_plain(tmp_path)


@pytest.mark.parametrize("place", ["absent", "file"])
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(RunFolderError, match=f"{place}: found no such"),
        owned(tmp_path / place),
    ):
        pass
