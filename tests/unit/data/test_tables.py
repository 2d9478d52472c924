from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from securefg.data.tables import read_table
from securefg.foundation.errors import DataError


def written(folder: Path, text: str) -> Path:
    path = folder / "table.txt"
    path.write_bytes(text.encode())
    return path


def test_carriage_returns_and_blank_lines_are_no_rows(tmp_path: Path):
    table = read_table(written(tmp_path, "1 2\r\n\r\n3 4\r\n"), np.int64)
    assert table.values.tolist() == [[1, 2], [3, 4]]
    assert list(table.lines) == [1, 3]


def test_a_first_line_without_numbers_is_a_header(tmp_path: Path):
    path = written(tmp_path, "\ufeffsource,target\n0,1\n")
    table = read_table(path, np.int64, delimiter=",", header=True)
    assert (table.values.tolist(), list(table.lines)) == ([[0, 1]], [2])


@pytest.mark.parametrize(
    ("text", "line", "shown_value"),
    [
        ("0 1\n2 x\n", 2, "'2 x'"),
        ("0 1\n\n2 1.5\n", 3, "'2 1.5'"),
        ("0 1\n2\n", 2, "1 fields in '2'"),
        ("0 1\n2 3 4\n", 2, "3 fields"),
        ("0 99999999999999999999\n", 1, "9999"),
        ("", 1, "an empty file"),
        (" \n\t\n", 1, "an empty file"),
    ],
)
def test_a_fault_names_the_file_the_line_and_what_was_found(
    tmp_path: Path, text: str, line: int, shown_value: str
):
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_table(path, np.int64, columns=2)
    assert f"{path}, line {line}: found" in str(caught.value)
    assert shown_value in str(caught.value)
    assert "wanted" in str(caught.value)


def test_a_header_alone_is_a_fault(tmp_path: Path):
    with pytest.raises(DataError, match="line 1: found a header and nothing below"):
        read_table(written(tmp_path, "a b\n"), np.int64, header=True)


def test_bytes_that_are_not_text_are_a_fault(tmp_path: Path):
    path = tmp_path / "table.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"table\.txt: cannot be read as UTF-8"):
        read_table(path, np.int64)


def test_a_long_line_is_shortened_in_the_message(tmp_path: Path):
    path = written(tmp_path, "x " * 1000)
    with pytest.raises(DataError) as caught:
        read_table(path, np.int64)
    assert len(str(caught.value)) < len(str(path)) + 150
