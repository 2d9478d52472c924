"""A transcript survives a tear up to its last whole record, and shows each adversary its part."""

from __future__ import annotations

import json
import struct
import warnings
import zlib
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from securefg.foundation.errors import RunFolderError
from securefg.protocol.codec import Clients, Size, encode_fields
from securefg.protocol.transcript import (
    MAGIC,
    Adversary,
    Record,
    Seen,
    TranscriptWriter,
    broken_link,
    checked_records,
    read_transcript,
    total_bytes,
    unfinished_after,
    view,
)

BROADCAST = Record(
    seq=1,
    round=1,
    step=1,
    attempt=1,
    seconds=10.5,
    sender="server",
    receivers=("host-0", "host-1"),
    kind="m.Globals",
    clients="0-3",
    payload=24,
    envelope=200,
    body=encode_fields({"model": torch.arange(3.0), "rate": 0.5}),
)
ADDRESSED = replace(
    BROADCAST,
    seq=2,
    receivers=("host-0",),
    kind="m.Rows",
    clients="0-1",
    personal=("own",),
    body=encode_fields({"own": torch.tensor([[10.0], [11.0]]), "model": torch.arange(3.0)}),
)
UPLOAD_0 = replace(
    BROADCAST,
    seq=3,
    sender="host-0",
    receivers=("server",),
    kind="m.Update",
    clients="0-1",
    payload=8,
    envelope=100,
    rules={"x": "plain"},
    body=encode_fields({"x": torch.tensor([[0.0], [1.0]]), "name": "update"}),
)
UPLOAD_1 = replace(
    UPLOAD_0,
    seq=4,
    sender="host-1",
    clients="2-3",
    body=encode_fields({"x": torch.tensor([[2.0], [3.0]]), "name": "update"}),
)
RECORDS = [BROADCAST, ADDRESSED, UPLOAD_0, UPLOAD_1]
DROP = replace(UPLOAD_1, seq=5, kind="dropped", payload=0, envelope=0, note="timeout", body=b"")


def whole_length(folder: Path) -> int:
    return max((end for end, _ in checked_records(folder)), default=0)


def written(folder: Path, records: list[Record], position: int | None = None) -> Path:
    writer = TranscriptWriter(folder, position)
    for record in records:
        writer.append(record)
    writer.close()
    return folder


def ends_of(folder: Path, records: list[Record]) -> list[int]:
    """Where each record ends in the file."""
    ends = []
    writer = TranscriptWriter(folder)
    for record in records:
        writer.append(record)
        ends.append(writer.position)
    writer.close()
    return ends


def seen_by(folder: Path, adversary: str) -> list[Seen]:
    return list(view(folder, Adversary.parse(adversary)))


def column(seen: Seen, field: str) -> list[float]:
    assert seen.fields is not None
    value = seen.fields[field]
    assert isinstance(value, Tensor)
    return value.flatten().tolist()


# ------------------------------------------------------------------------------------ the file


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    records = [*RECORDS, DROP]
    assert list(read_transcript(written(tmp_path, records))) == records


def test_an_absent_transcript_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no transcript here"):
        list(read_transcript(tmp_path))
    assert whole_length(tmp_path) == 0


def test_a_file_torn_at_any_byte_gives_the_whole_records_and_a_warning(tmp_path: Path) -> None:
    records = [ADDRESSED, UPLOAD_0]
    ends = ends_of(tmp_path, records)
    path = tmp_path / "messages.bin"
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        whole = sum(end <= length for end in ends)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert list(read_transcript(tmp_path)) == records[:whole]
        assert len(caught) == (0 if length in (0, *ends) else 1)
        assert whole_length(tmp_path) == (ends[whole - 1] if whole else 0)


def test_unfinished_record_at_any_byte_is_cut_off_by_the_next_writer(tmp_path: Path) -> None:
    ends = ends_of(tmp_path, [ADDRESSED, UPLOAD_0])
    path = tmp_path / "messages.bin"
    data = path.read_bytes()
    for length in range(ends[0] + 1, len(data)):
        path.write_bytes(data[:length])
        assert unfinished_after(tmp_path) == ends[0]
        written(tmp_path, [UPLOAD_1])
        assert list(read_transcript(tmp_path)) == [ADDRESSED, UPLOAD_1]
    path.write_bytes(data)
    assert unfinished_after(tmp_path) is None


@pytest.mark.parametrize("place", [0, 8, 16, 25])  # magic, length, checksum, header
def test_damage_before_the_end_is_no_unfinished_record(tmp_path: Path, place: int) -> None:
    ends = ends_of(tmp_path, RECORDS)
    path = tmp_path / "messages.bin"
    data = bytearray(path.read_bytes())
    data[ends[0] + place] ^= 1
    path.write_bytes(bytes(data))
    assert unfinished_after(tmp_path) is None
    with pytest.warns(UserWarning, match="cut off or damaged"):
        TranscriptWriter(tmp_path).close()
    assert path.read_bytes() == bytes(data)


@pytest.mark.parametrize("part", ["magic", "checksum", "header", "body"])
def test_a_damaged_record_ends_the_reading_with_a_warning(tmp_path: Path, part: str) -> None:
    ends = ends_of(tmp_path, RECORDS)
    place = {"magic": 0, "checksum": 16, "header": 25, "body": ends[1] - ends[0] - 1}[part]
    path = tmp_path / "messages.bin"
    data = bytearray(path.read_bytes())
    data[ends[0] + place] ^= 1
    path.write_bytes(bytes(data))
    with pytest.warns(UserWarning, match="cut off or damaged"):
        assert list(read_transcript(tmp_path)) == RECORDS[:1]


def test_a_resumed_run_cuts_off_what_it_will_say_again(tmp_path: Path) -> None:
    ends = ends_of(tmp_path, RECORDS)
    written(tmp_path, [UPLOAD_1], position=ends[1])
    assert list(read_transcript(tmp_path)) == [*RECORDS[:2], UPLOAD_1]


def test_a_position_past_the_end_makes_no_gap(tmp_path: Path) -> None:
    written(tmp_path, RECORDS[:2])
    written(tmp_path, RECORDS[2:], position=10**6)
    assert list(read_transcript(tmp_path)) == RECORDS


def test_a_thinned_record_has_no_fields(tmp_path: Path) -> None:
    thin = replace(UPLOAD_0, thinned=True, body=b"")
    (record,) = read_transcript(written(tmp_path, [thin]))
    with pytest.raises(RunFolderError, match="message 3 was thinned out"):
        record.fields()


def test_bytes_are_summed_up_and_down(tmp_path: Path) -> None:
    records = read_transcript(written(tmp_path, RECORDS))
    assert total_bytes(records) == (Size(16, 200), Size(48, 400))


def test_repr_of_a_record_shows_no_body() -> None:
    assert "body" not in repr(UPLOAD_0)


# ----------------------------------------------------------------------------------- the views


def test_the_server_sees_every_body(tmp_path: Path) -> None:
    seen = seen_by(written(tmp_path, RECORDS), "server")
    assert [s.header.seq for s in seen] == [1, 2, 3, 4]
    assert column(seen[1], "own") == [10, 11]
    assert [column(s, "x") for s in seen[2:]] == [[0, 1], [2, 3]]
    assert [s.clients.numbers() for s in seen] == [[0, 1, 2, 3], [0, 1], [0, 1], [2, 3]]


def test_a_client_sees_the_broadcast_its_own_rows_and_nothing_of_others(tmp_path: Path) -> None:
    broadcast, addressed, upload = seen_by(written(tmp_path, RECORDS), "client:1")
    assert column(broadcast, "model") == [0, 1, 2]
    assert broadcast.fields is not None
    assert broadcast.fields["rate"] == 0.5
    assert column(addressed, "own") == [11]
    assert column(addressed, "model") == [0, 1, 2]
    assert column(upload, "x") == [1]
    assert upload.fields is not None
    assert upload.fields["name"] == "update"
    assert all(s.clients == Clients(((1, 2),)) for s in (broadcast, addressed, upload))


def test_colluding_clients_see_the_rows_of_all_of_them(tmp_path: Path) -> None:
    seen = seen_by(written(tmp_path, RECORDS), "client:1,2")
    assert [s.header.seq for s in seen] == [1, 2, 3, 4]
    assert [column(s, "x") for s in seen[2:]] == [[1], [2]]
    assert seen[0].clients.numbers() == [1, 2]


def test_a_client_that_was_not_asked_sees_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path, [replace(BROADCAST, clients="0-1"), UPLOAD_0])
    assert seen_by(folder, "client:3") == []


def test_a_client_sees_no_drop_out(tmp_path: Path) -> None:
    assert seen_by(written(tmp_path, [DROP]), "client:2") == []


def test_the_wire_sees_times_and_sizes_and_no_field(tmp_path: Path) -> None:
    seen = seen_by(written(tmp_path, RECORDS), "wire")
    assert [(s.header.seconds, s.header.payload, s.header.envelope) for s in seen] == [
        (r.seconds, r.payload, r.envelope) for r in RECORDS
    ]
    assert all(s.fields is None and len(s.clients) == 0 for s in seen)


def test_an_outsider_sees_no_message(tmp_path: Path) -> None:
    assert seen_by(written(tmp_path, RECORDS), "outsider") == []


@pytest.mark.parametrize("adversary", ["server", "client:0"])
def test_a_view_of_a_thinned_record_has_no_fields(tmp_path: Path, adversary: str) -> None:
    folder = written(tmp_path, [replace(UPLOAD_0, thinned=True, body=b"")])
    (seen,) = seen_by(folder, adversary)
    assert seen.fields is None


@pytest.mark.parametrize(
    ("text", "clients"), [("client:3,5", {3, 5}), ("client:3-5", {3, 4, 5}), ("server", set())]
)
def test_an_adversary_is_read_from_its_name(text: str, clients: set[int]) -> None:
    adversary = Adversary.parse(text)
    assert adversary.kind == text.partition(":")[0]
    assert adversary.clients == clients


@pytest.mark.parametrize("text", ["", "Server", "servers", "client", "client:", "server:3", "nsa"])
def test_an_unknown_adversary_is_refused_with_the_names_allowed(text: str) -> None:
    with pytest.raises(RunFolderError) as refused:
        Adversary.parse(text)
    assert str(refused.value) == (
        f"adversary: found {text!r}; expected server, client:3,5, wire or outsider"
    )


def chained(folder: Path) -> list[Record]:
    writer = TranscriptWriter(folder)
    for seq in range(1, 4):
        writer.append(replace(BROADCAST, seq=seq))
    writer.close()
    return list(read_transcript(folder))


def rewritten(folder: Path, records: list[Record]) -> None:
    """The file as a forger would leave it: every checksum right, the old links kept."""
    data = b""
    for found in records:
        header = asdict(found)
        body, link = header.pop("body"), header.pop("chain")
        text = json.dumps({"format": 2, **header}, separators=(",", ":"))[:-1]
        head = f'{text},"link":"{link}"}}'.encode()
        checksum = zlib.crc32(body, zlib.crc32(head))
        data += struct.pack("<4sIQI", MAGIC, len(head), len(body), checksum) + head + body
    (folder / "messages.bin").write_bytes(data)


def test_the_chain_of_an_untouched_transcript_is_whole(tmp_path: Path) -> None:
    records = chained(tmp_path)
    assert broken_link(tmp_path, records[-1].chain) is None


def test_a_changed_a_missing_and_a_cut_off_message_break_the_chain(tmp_path: Path) -> None:
    first_record, two, three = chained(tmp_path)
    forged = replace(two, body=encode_fields({"x": torch.ones(9)}))
    for records, broken_part in (
        ([first_record, forged, three], "message 2 is not"),
        ([first_record, replace(two, clients="0"), three], "message 2 is not"),
        ([first_record, three], "message 3 is not"),
        ([first_record, two], "at its end"),
    ):
        rewritten(tmp_path, records)
        assert broken_part in (broken_link(tmp_path, three.chain) or "")


def test_a_resumed_transcript_goes_on_with_the_chain(tmp_path: Path) -> None:
    chained(tmp_path)
    writer = TranscriptWriter(tmp_path)
    writer.append(replace(BROADCAST, seq=4))
    writer.close()
    assert broken_link(tmp_path, writer.chain) is None
