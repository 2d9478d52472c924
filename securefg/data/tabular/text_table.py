"""Files of tables as columns of text: encodings, separators, headers, and lines that do not fit."""

from __future__ import annotations

import codecs
import csv
import importlib
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from securefg.data.tabular.faults import Fault, Fix, Unreadable
from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shown
from securefg.settings.tables import TableSettings

ENDINGS = (".csv", ".tsv", ".txt", ".parquet")
SEPARATORS = ",;\t|"
LOOKED_AT = 4096
FORMULA = re.compile(r"[=@].+|[+-].*[(|!].*", re.S)
"""A text that a spreadsheet runs when it opens the file."""
_STATED = re.compile(r"sep=(.)\r?\n", re.I)
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PACKED = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b")
"""Beginnings of spreadsheets and archives."""


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

    def fault(self, row: int, found: str, wanted: str, fix: Fix | None = None) -> None:
        """Note a fault of a row."""
        self.faults.append(Fault(self.path, self.lines[row], found, wanted, fix))


def find_table(folder: Path, stem: str) -> Path:
    """Return the only file of that name, whatever its ending. Raise `Unreadable` otherwise."""
    paths = [folder / f"{stem}{ending}" for ending in ENDINGS]
    paths = [path for path in paths if path.is_file()]
    if len(paths) == 1:
        return paths[0]
    names = ", ".join(path.name for path in paths) or "none"
    there = sorted(path.name for path in folder.iterdir() if path.suffix in ENDINGS)
    listed = f" ({shown(', '.join(there))} are there)" if there else ""
    found = f"{names} of {stem}.csv, .tsv, .txt, .parquet{listed}"
    wanted = "one (tables.yaml names the files: `nodes: accounts`, `edges: transfers`)"
    raise Unreadable([Fault(folder, 0, found, wanted)])


def read_text_table(path: Path, settings: TableSettings) -> TextTable:
    """A line that does not fit is a fault and left out; a file that cannot be read raises."""
    if path.suffix == ".parquet":
        return _read_parquet(path, settings)
    try:
        data = path.read_bytes()
        encoding = _choose_encoding(data, settings)
        _check_bytes(path, data, encoding)
        text = data.decode(encoding).removeprefix("\ufeff")
    except (OSError, LookupError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    except UnicodeError as error:
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        name = _guess_encoding(data)
        wanted = f"UTF-8, or its name in tables.yaml, such as `encoding: {name}`"
        fix = Fix({"encoding": name})
        raise Unreadable(
            [Fault(path, line, f"bytes that are not {encoding} text", wanted, fix)]
        ) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise Unreadable([Fault(path, line, "a zero byte", "text, so export it anew")])
    if "\n" not in text:
        text = text.replace("\r", "\n")
    return _parse_table(path, text, encoding, settings)


def _check_bytes(path: Path, data: bytes, encoding: str) -> None:
    """Raise where bytes are a spreadsheet, an archive, or UTF-16 without a mark."""
    if data.startswith(_PACKED):
        wanted = "a table of text (.csv): save it as one, or unpack it"
        raise Unreadable([Fault(path, 0, "a spreadsheet or an archive", wanted)])
    head = data[:LOOKED_AT]
    is_wide = encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    if is_wide or head.count(0) <= len(head) / 4:
        return
    width = 32 if head.count(0) > len(head) / 2 else 16
    name = f"utf-{width}-{'be' if data.startswith(bytes(1)) else 'le'}"
    found = f"a zero byte in every second place or more, as UTF-{width} has them"
    wanted = f"in tables.yaml `encoding: {name}`"
    raise Unreadable([Fault(path, 1, found, wanted, Fix({"encoding": name}))])


def _choose_encoding(data: bytes, settings: TableSettings) -> str:
    """Return the encoding that a file's mark states, else the named one, else UTF-8.

    A file with letters beyond ASCII that is valid UTF-8 is read as UTF-8, whatever is named: banks
    export in different ways, and other encodings hardly ever make valid UTF-8 by chance.
    """
    marked = next((name for bom, name in _BOMS if data.startswith(bom)), None)
    named = marked or settings.encoding or "utf-8"
    if data.isascii() or "utf" in named.lower():
        return named
    return "utf-8" if _decodes(data, "utf-8") else named


def _guess_encoding(data: bytes) -> str:
    """Return the western encoding that a file may have."""
    return "cp1252" if _decodes(data, "cp1252") else "latin-1"


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeError:
        return False
    return True


def _parse_table(path: Path, text: str, encoding: str, settings: TableSettings) -> TextTable:
    stated = _STATED.match(text)  # a spreadsheet's own first line
    separator = settings.separator or (stated and stated[1])
    text = text[stated.end() :] if stated else text
    lines_before = 1 if stated else 0
    separator = separator or _choose_separator(text)
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


def _choose_separator(text: str) -> str:
    """Return the separator that most lines have as often as the first one, and there most often.

    Names such as "turnover, net" may have more commas than the line has separators.
    """
    first, *rest = text[: 16 * LOOKED_AT].split("\n")[:100]
    rest = [line for line in rest[:-1] or rest if line.strip()]

    def fitness(separator: str) -> tuple[float, int]:
        count = first.count(separator)
        return sum(line.count(separator) == count > 0 for line in rest) / max(1, len(rest)), count

    fits = {separator: fitness(separator) for separator in SEPARATORS}
    good = [separator for separator in SEPARATORS if fits[separator][0] > 0.5]
    return max(good or SEPARATORS, key=lambda separator: fits[separator][1])


def _check_header(path: Path, names: list[str], rows: list[list[str]]) -> None:
    """Raise where the first line cannot be the columns' names."""
    filled = ([place for place, value in enumerate(row, 1) if value.strip()] for row in rows)
    widths = Counter(max(places) for places in filled).most_common(1)
    if widths and widths[0][0] > max(1, len(names)) and widths[0][1] > len(rows) / 2:
        fields = f"{len(names)} fields, and {widths[0][0]} on most lines below"
        wanted = "the columns' names on the first line"
        raise Unreadable([Fault(path, 1, fields, wanted)])
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    odd = f"{', '.join(map(shown, twice))} more than once" if twice else ""
    if not odd and (not names or "" in names):
        odd = f"no name of column {names.index('') + 1}" if names else "nothing"
    if odd:
        wanted = "a header of distinct names, so name or remove columns in the file"
        raise Unreadable([Fault(path, 1, odd, wanted)])


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
        parquet_columns = parquet.ParquetFile(path).read().to_pydict()
    except Exception as error:
        said = " ".join(str(error).split())[:120]
        raise DataError(f"{path}: cannot be read as Parquet: {said}") from error
    columns = {
        str(name): [_read_cell(value, settings) for value in values]
        for name, values in parquet_columns.items()
    }
    count = len(next(iter(columns.values()), []))
    return TextTable(path, "", "parquet", columns, list(range(1, count + 1)))


def _read_cell(value: object, settings: TableSettings) -> str | None:
    """Return a cell of Parquet as text without outer blanks, or None if it is missing."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    text = "" if value is None else str(value).strip()
    return None if text in settings.missing else text
