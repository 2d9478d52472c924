"""Nobody but the owner reads a run's transcript, states and partition; results honour the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from securefg.federation.journal import Entry, Journal
from securefg.foundation.files import make_private_folder, write_atomically
from securefg.foundation.log import Log
from securefg.protocol.codec import Clients
from securefg.protocol.transcript import TranscriptWriter
from securefg.runs import runner
from tests.small import config
from tests.unit.runs.interrupted import WEIGHTS_ALONE


@pytest.fixture(params=[0o022, 0o077, 0o000], ids=["022", "077", "000"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_masked_run_under_umask_is_private(umask: int, tmp_path: Path) -> None:
    masked = (WEIGHTS_ALONE, "training.rounds=2", "privacy.secure_aggregation={}")
    folder = runner.start(config(tmp_path / "runs", *masked)).folder.path
    paths = [folder, *folder.rglob("*")]
    open_folders = [p for p in paths if p.is_dir() and mode_of(p) != 0o700]
    private = ("transcript/*", "checkpoints/**/*", "partition.*", "private/**/*", "ledger.jsonl")
    open_files = [
        path
        for pattern in private
        for path in folder.glob(pattern)
        if path.is_file() and mode_of(path) != 0o600
    ]
    assert open_folders == []
    assert open_files == []
    assert (folder / "partition.safetensors").is_file()
    assert list(folder.glob("checkpoints/*/hosts/*"))
    assert mode_of(folder / "summary.json") == 0o666 & ~umask
    assert mode_of(folder / "model.safetensors") == 0o666 & ~umask


def test_write_atomically_under_umask_honours_it(umask: int, tmp_path: Path) -> None:
    write_atomically(tmp_path / "page", "x")
    write_atomically(tmp_path / "secret", "x", mode=0o600)
    assert mode_of(tmp_path / "page") == 0o666 & ~umask
    assert mode_of(tmp_path / "secret") == 0o600


def test_opened_sums_under_umask_are_private(umask: int, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "opened")
    journal.write(1, 1, Entry("k", "r", 1, 2, Clients(()), {}, {}, "aborted"))
    assert mode_of(tmp_path / "opened") == 0o700
    assert mode_of(tmp_path / "opened" / "000001-1.bin") == 0o600


def test_private_folder_open_to_others_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    make_private_folder(folder)
    assert mode_of(folder) == 0o700


def test_transcript_of_earlier_version_is_closed(tmp_path: Path) -> None:
    (tmp_path / "transcript").mkdir(mode=0o755)
    path = tmp_path / "transcript" / "messages.bin"
    path.touch(mode=0o644)
    TranscriptWriter(tmp_path / "transcript").close()
    assert mode_of(path) == 0o600
    assert mode_of(path.parent) == 0o700


def test_log_under_umask_is_private(umask: int, tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl", "log")
    log.append([{"a": 1}])
    log.keep_head()
    assert mode_of(tmp_path / "log.jsonl") == mode_of(tmp_path / "log.jsonl.head") == 0o600
