"""Lines that were changed, left out, added or put in another order are refused; torn ones go."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from securefg.foundation.chained_lines import ChainedLines, read_chained
from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import append_lines

ENTRIES = [{"round": number, "value": number / 3} for number in range(6)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lines = ChainedLines(tmp_path / "lines.jsonl")
    lines.append(ENTRIES[:2])
    lines.append(ENTRIES[2:])
    return tmp_path / "lines.jsonl"


def entries(path: Path) -> list[dict[str, object]]:
    return [entry for entry, _ in read_chained(path)]


def test_a_file_goes_on_where_it_ended(path: Path) -> None:
    again = ChainedLines(path)
    assert again.length == 6
    again.append([{"more": 1}])
    assert entries(path) == [*ENTRIES, {"more": 1}]
    assert ChainedLines(path).link == again.link


@pytest.mark.parametrize("change", ["edit", "drop", "swap", "copy", "chain", "binary"])
def test_a_changed_line_is_refused_by_its_number(path: Path, change: str) -> None:
    lines = path.read_bytes().splitlines()
    match change:
        case "edit":
            lines[2] = lines[2].replace(b'"round": 2', b'"round": 1')
        case "drop":
            del lines[2]
        case "swap":
            lines[2], lines[3] = lines[3], lines[2]
        case "copy":
            lines.insert(2, lines[1])
        case "chain":
            lines[2] = lines[2][:-8] + b'00000"}'
        case "binary":
            lines[2] = b"\xff" + lines[2][1:]
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(RunFolderError, match=r"lines\.jsonl:3: not"):
        entries(path)


def test_a_torn_line_is_left_out_and_cut_off(path: Path) -> None:
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        assert entries(path) == ENTRIES[:5]
    ChainedLines(path).append([{"more": 1}])
    assert entries(path) == [*ENTRIES[:5], {"more": 1}]


def test_where_the_disk_is_full_the_file_is_as_it_was(path: Path) -> None:
    before = path.read_bytes()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20,) * 2)
        try:
            append_lines(path, ["x" * 100])
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert path.read_bytes() == before
