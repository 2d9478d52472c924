"""Views that once showed an adversary too much or failed, and damage that was not noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from securefg.foundation.errors import RunFolderError
from securefg.protocol.codec import encode_fields
from securefg.protocol.transcript import (
    Adversary,
    Record,
    Seen,
    TranscriptWriter,
    checked_records,
    read_transcript,
    view,
)

UPLOAD = Record(
    seq=1,
    round=1,
    step=1,
    attempt=1,
    seconds=0.0,
    sender="host-0",
    receivers=("server",),
    kind="m.Update",
    clients="0-1",
    payload=8,
    envelope=10,
    body=encode_fields({"x": torch.ones(2, 1)}),
)
DROP = replace(UPLOAD, kind="dropped", body=b"", note="timeout")
# As long as there are clients, so that a row of it could be taken for a client's.
OPENED_SUM = replace(
    UPLOAD,
    sender="sum",
    kind="m.Update.sum",
    payload=0,
    envelope=0,
    body=encode_fields({"x": torch.tensor([5.0, 7.0])}),
)


def whole_length(folder: Path) -> int:
    return max((end for end, _ in checked_records(folder)), default=0)


def written(folder: Path, *records: Record) -> Path:
    """Writes a transcript; gives its file."""
    writer = TranscriptWriter(folder)
    for record in records:
        writer.append(record)
    writer.close()
    return folder / "messages.bin"


def seen_by(folder: Path, adversary: str) -> list[Seen]:
    return list(view(folder, Adversary.parse(adversary)))


# ----------------------------------------------------------------------------------- the views


def test_the_server_sees_a_drop_out_that_has_no_fields(tmp_path: Path) -> None:
    written(tmp_path, UPLOAD, DROP)
    upload, drop = seen_by(tmp_path, "server")
    assert upload.fields is not None
    assert drop.fields is None
    assert drop.header.note == "timeout"


@pytest.mark.parametrize("adversary", ["server", "wire", "client:1"])
def test_a_view_hands_over_no_body(tmp_path: Path, adversary: str) -> None:
    """The body holds every client's row, also those that the adversary did not see."""
    written(tmp_path, UPLOAD)
    (seen,) = seen_by(tmp_path, adversary)
    assert seen.header.body == b""


@pytest.mark.parametrize("adversary", ["wire", "client:1"])
def test_a_sum_that_the_server_opened_is_seen_by_nobody_else(
    tmp_path: Path, adversary: str
) -> None:
    written(tmp_path, OPENED_SUM)
    assert seen_by(tmp_path, adversary) == []
    assert len(seen_by(tmp_path, "server")) == 1


@pytest.mark.parametrize("text", ["client:a", "client:5-3", "client:,"])
def test_an_adversary_with_bad_client_numbers_is_refused(text: str) -> None:
    said = f"adversary: found '{text}'; expected server, client:3,5"
    with pytest.raises(RunFolderError, match=said):
        Adversary.parse(text)


# ------------------------------------------------------------------------------------ the file


def test_the_warning_names_the_byte_where_the_whole_records_end(tmp_path: Path) -> None:
    path = written(tmp_path, UPLOAD)
    end = path.stat().st_size
    written(tmp_path, UPLOAD)
    path.write_bytes(path.read_bytes()[:-3])
    assert whole_length(tmp_path) == end
    with pytest.warns(UserWarning, match=f"after byte {end};"):
        assert list(read_transcript(tmp_path)) == [UPLOAD]


@pytest.mark.parametrize("byte", [11, 14, 15])
def test_a_damaged_length_is_a_warning(tmp_path: Path, byte: int) -> None:
    """Such a length is gigabytes, or more than a number for the size of memory can hold."""
    path = written(tmp_path, UPLOAD)
    data = bytearray(path.read_bytes())
    data[byte] = 0xFF
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="cut off or damaged after byte 0;"):
        assert list(read_transcript(tmp_path)) == []
