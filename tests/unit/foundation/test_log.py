"""Lines that were changed, left out, added or put in another order are refused; torn ones go."""

from __future__ import annotations

import datetime
import hashlib
import json
import multiprocessing
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import append_lines
from securefg.foundation.log import Log, chain_line, first_link, read_log
from securefg.secagg.keys import Identity
from securefg.secagg.secret import Secret

ENTRIES = [{"round": number, "value": number / 3} for number in range(6)]
KEY = Identity(Secret(bytes(range(32))))
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    log = Log(tmp_path / "lines.jsonl", "test")
    log.append(ENTRIES[:2])
    log.append(ENTRIES[2:])
    return tmp_path / "lines.jsonl"


def entries(path: Path, **more: Any) -> list[dict[str, object]]:
    return [entry for entry, _ in read_log(path, "test", **more)]


def opened(path: Path, **more: Any) -> Log:
    log = Log(path, "test", **more)
    log.lines()
    return log


# ------------------------------------------------------------------------------------- the chain


def test_link_of_a_line_is_the_documented_hash(path: Path) -> None:
    link = hashlib.sha256(b"securefg log 2\ntest").hexdigest()
    assert link == first_link("test")
    for line, entry in zip(path.read_bytes().splitlines(), ENTRIES, strict=True):
        text = json.dumps({"format": 2, **entry}, separators=(",", ":"))[:-1]
        link = hashlib.sha256(f"{link}{text}\n".encode()).hexdigest()
        assert line == f'{text},"link":"{link}"}}'.encode()


def test_log_opened_again_goes_on_where_it_ended(path: Path) -> None:
    again = opened(path)
    assert again.length == 6
    again.append([{"more": 1}])
    assert entries(path) == [*ENTRIES, {"more": 1}]
    assert opened(path).link == again.link


@pytest.mark.parametrize("change", ["edit", "drop", "swap", "copy", "chain", "blank", "binary"])
def test_log_with_a_changed_line_is_refused_by_its_number(path: Path, change: str) -> None:
    lines = path.read_bytes().splitlines()
    match change:
        case "edit":
            lines[2] = lines[2].replace(b'"round":2', b'"round":1')
        case "drop":
            del lines[2]
        case "swap":
            lines[2], lines[3] = lines[3], lines[2]
        case "copy":
            lines.insert(2, lines[1])
        case "chain":
            lines[2] = lines[2][:-8] + b'00000"}'
        case "blank":
            lines[2] = lines[2].replace(b":", b": ", 1)
        case "binary":
            lines[2] = b"\xff" + lines[2][1:]
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(RunFolderError, match=r"lines\.jsonl:3: not the line of this log"):
        entries(path)


@pytest.mark.parametrize("signer", [None, KEY], ids=["unsigned", "signed"])
def test_log_with_any_flipped_bit_is_refused_or_torn(tmp_path: Path, signer: Any) -> None:
    path = tmp_path / "lines.jsonl"
    Log(path, "test", signer=signer).append(ENTRIES[:2])
    whole = path.read_bytes()
    for place in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << place % 8
        path.write_bytes(spoilt)
        try:
            kept_entries = entries(path, signer=signer)
        except RunFolderError:
            continue
        assert place == len(whole) - 1, "only the last line's end may go: the line is then torn"
        assert kept_entries == ENTRIES[:1]


def test_log_under_another_name_is_refused(path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"lines\.jsonl:1: "):
        list(read_log(path, "another"))


@pytest.mark.parametrize(
    ("line", "shown_format"),
    [({"round": 1, "chain": "00"}, "1"), ({"format": 3, "link": "00"}, "3")],
)
def test_log_of_another_format_is_refused_by_number(
    tmp_path: Path, line: dict[str, object], shown_format: str
) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(RunFolderError, match=f"format: found {shown_format}; expected 2"):
        entries(path)


@pytest.mark.parametrize("entry", [{"link": "x"}, {"format": 1}, {"value": float("nan")}])
def test_entry_that_no_line_can_hold_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"entry: found|not JSON compliant"):
        chain_line(first_link("test"), entry)


def test_line_without_an_end_costs_no_more_than_its_bound(tmp_path: Path) -> None:
    with (tmp_path / "lines.jsonl").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(RunFolderError, match="a line of more than 32 MiB"):
        entries(tmp_path / "lines.jsonl")


# ------------------------------------------------------------------------------------- signatures


def test_signed_log_is_read_with_its_own_key_alone(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    Log(path, "test", signer=KEY).append(ENTRIES)
    assert entries(path, signer=KEY) == ENTRIES
    with pytest.raises(RunFolderError, match=r":1: .* is not by the key"):
        entries(path, signer=Identity(Secret(bytes(32))))


def test_signed_log_refuses_lines_without_a_signature(path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"lines\.jsonl:1: "):
        entries(path, signer=KEY)


# -------------------------------------------------------------------------------------- crashes


def test_torn_last_line_is_left_out_and_cut_off(path: Path) -> None:
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        assert entries(path) == ENTRIES[:5]
        assert path.read_bytes() == whole[:length], "a reader changes nothing"
    opened(path).append([{"more": 1}])
    assert entries(path) == [*ENTRIES[:5], {"more": 1}]


@pytest.mark.parametrize("chained", [True, False])
def test_append_on_a_full_disk_leaves_the_file_as_it_was(path: Path, chained: bool) -> None:
    before = path.read_bytes()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        log = opened(path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20,) * 2)
        try:
            log.append([{"x": "x" * 100}]) if chained else append_lines(path, ["x" * 100])
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert path.read_bytes() == before


@pytest.mark.parametrize("sync", [True, False])
def test_append_waits_for_the_disk_once_or_not_at_all(
    path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    log, waits = opened(path, sync=sync), list[int]()
    monkeypatch.setattr(os, "fsync", waits.append)
    log.append([{"more": 1}, {"more": 2}])
    assert len(waits) == sync


# -------------------------------------------------------------------------------- other writers


def test_log_of_one_writer_that_grew_otherwise_is_not_appended_to(path: Path) -> None:
    one, other = opened(path), opened(path)
    one.append([{"more": 1}])
    with pytest.raises(RunFolderError, match="another process wrote to it, or it was set back"):
        other.append([{"more": 2}])
    assert entries(path) == [*ENTRIES, {"more": 1}]


def _append_many(path: Path, who: int) -> None:
    log = Log(path, "test", shared=True)
    for number in range(20):
        log.append([{"who": who, "number": number}])


def test_shared_log_keeps_every_line_of_concurrent_writers(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    Log(path, "test", shared=True).create()
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_append_many, args=(path, who)) for who in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = entries(path)
    assert len(found) == 80
    for who in range(4):
        assert [line["number"] for line in found if line["who"] == who] == list(range(20))
    assert opened(path, shared=True).head_length == 80


# ------------------------------------------------------------------------------------- the head


@pytest.mark.parametrize("cut", [0, 2, 5])
def test_log_cut_below_its_head_is_refused(path: Path, cut: int) -> None:
    log = opened(path)
    log.keep_head()
    log.append([{"more": 1}])
    assert opened(path).head_length == 6
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:cut]))
    with pytest.raises(RunFolderError, match="one of the two was set back"):
        opened(path)
    path.unlink()
    with pytest.raises(RunFolderError, match="one of the two was set back"):
        opened(path)


def test_log_written_anew_does_not_fit_its_head(path: Path) -> None:
    opened(path).keep_head()
    opened(path).replace([{"round": 0}] * 6)
    with pytest.raises(RunFolderError, match="one of the two was set back"):
        opened(path)


def test_head_of_another_format_is_refused_by_number(path: Path) -> None:
    opened(path).keep_head()
    head = path.with_name("lines.jsonl.head")
    head.write_text(head.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(RunFolderError, match=r"head: .*format: found 1; expected 2"):
        opened(path)


def test_shared_log_stamps_times_that_never_go_back(tmp_path: Path) -> None:
    path, now = tmp_path / "lines.jsonl", [NOON]
    log = Log(path, "test", shared=True, clock=lambda: now[0])
    log.create()
    log.append([{"a": 1}])
    now[0] = NOON - datetime.timedelta(minutes=9)
    log.append([{"a": 2}])
    assert {line["time"] for line in log.lines()} == {"2026-01-31T12:00:00+00:00"}
    now[0] = NOON - datetime.timedelta(minutes=11)
    with pytest.raises(RunFolderError, match="set the clock"):
        log.append([{"a": 3}])
