"""Files of tables as columns of text: encodings, separators, headers, and lines that do not fit."""

from __future__ import annotations

import codecs
import csv
import importlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shortened, shown
from securefg.settings.tables import TableSettings

ENDINGS = (".csv", ".tsv", ".txt", ".parquet")
SEPARATORS = ",;\t|"
LOOKED_AT = 4096
FORMULA = re.compile(r"[=@].+|[+-].*[(|!].*", re.S)
"""A text that a spreadsheet runs when it opens the file."""
_STATED = re.compile(r"sep=(.)\r?\n", re.I)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Fault:
    """What is wrong with one line of one file."""

    path: Path
    line: int
    found: str
    wanted: str

    def __str__(self) -> str:
        found = shortened(self.found, 100)
        return f"{self.path}, line {self.line}: found {found}; wanted {self.wanted}"


MOST_ALIKE = 3


def group_faults(faults: Sequence[Fault]) -> list[str]:
    """Return the faults as lines: of many alike in one file the first, and how many follow."""
    alike: dict[tuple[Path, str], list[Fault]] = {}
    for fault in faults:
        alike.setdefault((fault.path, fault.wanted), []).append(fault)
    lines = []
    for (path, _), group in alike.items():
        lines += [str(fault) for fault in group[:MOST_ALIKE]]
        if len(group) > MOST_ALIKE:
            lines.append(f"{path}: the same on {len(group) - MOST_ALIKE} lines more")
    return lines


@dataclass
class TextTable:
    """Rows of text by column; None is missing. `lines` are the 1-based lines of the rows."""

    path: Path
    separator: str
    encoding: str
    columns: dict[str, list[str | None]]
    lines: list[int]
    faults: list[Fault] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[str | None]:
        """The values of a column. Raise `DataError` where there is none of that name."""
        if name not in self.columns:
            raise DataError(
                f"{self.path}, line 1: found no column {name!r}; wanted one of "
                f"{', '.join(self.columns)}"
            )
        return self.columns[name]

    def fault(self, row: int, found: str, wanted: str) -> None:
        """Note a fault of a row."""
        self.faults.append(Fault(self.path, self.lines[row], found, wanted))


def find_table(folder: Path, stem: str) -> Path:
    """The one file of that name, whatever its ending."""
    found = [folder / f"{stem}{ending}" for ending in ENDINGS]
    found = [path for path in found if path.is_file()]
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise DataError(
            f"{folder}: found {names} of {stem}.csv, .tsv, .txt, .parquet; wanted one "
            "(tables.yaml names the files: `nodes: accounts`, `edges: transfers`)"
        )
    return found[0]


def read_text_table(path: Path, settings: TableSettings) -> TextTable:
    """A line that does not fit is a fault and left out; a file that cannot be read raises."""
    if path.suffix == ".parquet":
        return _read_parquet(path, settings)
    try:
        data = path.read_bytes()
        encoding = settings.encoding or next(
            (name for bom, name in _BOMS if data.startswith(bom)), "utf-8"
        )
        text = data.decode(encoding).removeprefix("\ufeff")
    except (OSError, LookupError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    except UnicodeError as error:
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        raise DataError(
            f"{path}, line {line}: not {encoding} text; wanted UTF-8, or its name in tables.yaml, "
            "such as `encoding: cp1252`"
        ) from error
    if text[:LOOKED_AT].count("\0") > len(text[:LOOKED_AT]) / 4:
        raise DataError(
            f"{path}, line 1: found a zero byte in every second place, as UTF-16 has them; wanted "
            "in tables.yaml `encoding: utf-16-le` or `utf-16-be`"
        )
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise DataError(f"{path}, line {line}: found a zero byte; wanted text, so export it anew")
    if settings.encoding is not None and _is_other_utf8(data, encoding):
        raise DataError(
            f"{path}: found UTF-8, and tables.yaml says `encoding: {encoding}`; wanted one "
            "encoding for all tables: save the others as UTF-8, and leave `encoding` out"
        )
    if "\n" not in text:
        text = text.replace("\r", "\n")
    return _parse_table(path, text, encoding, settings)


def _is_other_utf8(data: bytes, encoding: str) -> bool:
    """Return whether bytes with letters beyond ASCII are UTF-8, although another encoding is named.

    Other encodings hardly ever make valid UTF-8 by chance."""
    if data.isascii() or "utf" in encoding.lower():
        return False
    try:
        data.decode("utf-8")
    except UnicodeError:
        return False
    return True


def _parse_table(path: Path, text: str, encoding: str, settings: TableSettings) -> TextTable:
    stated = _STATED.match(text)  # a spreadsheet's own first line
    separator = settings.separator or (stated and stated[1])
    text = text[stated.end() :] if stated else text
    lines_before = 1 if stated else 0
    separator = separator or max(SEPARATORS, key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
    rows = _number_lines(path, reader, lines_before)
    _, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    while len(names) > 1 and not names[-1]:
        names.pop()  # lines that end with a separator
    first = list(islice(rows, LOOKED_AT))
    _check_header(path, names, [row for _, row in first])
    table = TextTable(path, separator, encoding, {name: [] for name in names}, [])
    for line, row in chain(first, rows):
        if len(row) < len(names) or any(row[len(names) :]):
            wanted = f"{len(names)} fields between {separator!r}"
            table.faults.append(Fault(path, line, f"{len(row)} fields", wanted))
            continue
        table.lines.append(line)
        for name, value in zip(names, row, strict=False):
            text = value.strip()
            table.columns[name].append(None if text in settings.missing else text)
    if not table.lines and not table.faults:
        table.faults.append(Fault(path, 1, "a header and nothing below it", "at least one row"))
    return table


def _check_header(path: Path, names: list[str], rows: list[list[str]]) -> None:
    """Raise where the first line cannot be the columns' names."""
    filled = ([place for place, value in enumerate(row, 1) if value.strip()] for row in rows)
    widths = Counter(max(places) for places in filled).most_common(1)
    if widths and widths[0][0] > max(1, len(names)) and widths[0][1] > len(rows) / 2:
        raise DataError(
            f"{path}, line 1: found {len(names)} fields, and {widths[0][0]} on most lines below; "
            "wanted the columns' names on the first line"
        )
    if len(set(names)) != len(names) or "" in names or not names:
        raise DataError(f"{path}, line 1: found {shown(names)}; wanted a header of distinct names")


def _number_lines(
    path: Path, reader: Iterator[list[str]], before: int
) -> Iterator[tuple[int, list[str]]]:
    """Every line that is not blank, with its number in the file."""
    line = 1 + before
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            is_open = "unexpected end" in str(error)
            found = "a quote that is never closed" if is_open else str(error)
            raise DataError(f"{path}, line {line}: found {found}; wanted a table") from error
        if any(field.strip() for field in row):
            yield line, row
        line = reader.line_num + 1 + before  # type: ignore[attr-defined]


def _read_parquet(path: Path, settings: TableSettings) -> TextTable:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(f"{path}: needs `pip install 'securefg[parquet]'`") from error
    try:
        # ParquetFile, not read_table: a path is one file, never a dataset of folders.
        found = parquet.ParquetFile(path).read().to_pydict()
    except Exception as error:
        said = " ".join(str(error).split())[:120]
        raise DataError(f"{path}: cannot be read as Parquet: {said}") from error
    columns = {
        str(name): [_read_cell(value, settings) for value in values]
        for name, values in found.items()
    }
    count = len(next(iter(columns.values()), []))
    return TextTable(path, "", "parquet", columns, list(range(1, count + 1)))


def _read_cell(value: object, settings: TableSettings) -> str | None:
    """Return a cell of Parquet as text without outer blanks, or None if it is missing."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    text = "" if value is None else str(value).strip()
    return None if text in settings.missing else text
