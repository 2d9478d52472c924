"""Files of numbers, text tables and npz archives, with faults that name the file and the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shortened


@dataclass(frozen=True)
class Table:
    """The rows of a file and the 1-based lines they stand on."""

    path: Path
    lines: Sequence[int]
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def require(self, good: NDArray[np.bool_], column: int, wanted: str) -> None:
        """Raise at the first row that is not good."""
        bad = np.flatnonzero(~good)
        if bad.size:
            raise self.fault(int(bad[0]), str(self.values[bad[0], column]), wanted)

    def require_nodes(self, column: int, num_nodes: int) -> None:
        """Raise at the first row whose entry in `column` is no node of 0 to num_nodes - 1."""
        nodes = self.values[:, column]
        self.require(
            (nodes >= 0) & (nodes < num_nodes), column, f"a node from 0 to {num_nodes - 1}"
        )

    def fault(self, row: int, found: str, wanted: str) -> DataError:
        """Return the error for a row of the table."""
        return table_fault(self.path, self.lines[row], found, wanted)


def table_fault(path: Path, line: int, found: str, wanted: str) -> DataError:
    """The one form in which a fault of a text file is told."""
    return DataError(f"{path}, line {line}: found {shortened(found)}; wanted {wanted}")


def text_lines(path: Path) -> list[tuple[int, str]]:
    """The lines that are not blank, with their 1-based numbers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise table_fault(path, 1, "an empty file", "at least one row")
    return lines


def without_header(path: Path, lines: list[tuple[int, str]], delimiter: str | None) -> list[Any]:
    """Drop the first line if not one of its fields is a number."""
    fields = lines[0][1].split(delimiter)
    if any(_is_number(field) for field in fields):
        return lines
    if len(lines) == 1:
        raise table_fault(path, lines[0][0], "a header and nothing below it", "at least one row")
    return lines[1:]


def read_table(
    path: Path,
    number: type[np.number[Any]],
    *,
    columns: int | None = None,
    delimiter: str | None = None,
    header: bool = False,
) -> Table:
    """All rows as one array; `columns` of None means as many as the first row has."""
    lines = text_lines(path)
    if header:
        lines = without_header(path, lines, delimiter)
    columns = columns or len(lines[0][1].split(delimiter))
    numbers, rows = zip(*lines, strict=True)
    try:
        values = np.loadtxt(rows, number, comments=None, delimiter=delimiter, ndmin=2)
    except ValueError:
        raise _first_fault(path, lines, number, columns, delimiter) from None
    if values.shape[1] != columns:
        raise _first_fault(path, lines, number, columns, delimiter)
    return Table(path, numbers, values)


def _first_fault(
    path: Path,
    lines: list[tuple[int, str]],
    number: type[np.number[Any]],
    columns: int,
    delimiter: str | None,
) -> DataError:
    """Read line by line, which is slow, to find the one that is to blame."""
    kind = "integers" if issubclass(number, np.integer) else "numbers"
    wanted = f"{columns} {kind}"
    for line, text in lines:
        if len(text.split(delimiter)) != columns:
            return table_fault(
                path, line, f"{len(text.split(delimiter))} fields in {text!r}", wanted
            )
        try:
            np.loadtxt([text], number, comments=None, delimiter=delimiter)
        except ValueError:
            return table_fault(path, line, repr(text), wanted)
    return DataError(f"{path}: wanted {wanted} on every line")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
