"""Tables of one organisation or several, put together: columns of text, nodes by id, edges."""

from __future__ import annotations

import codecs
import csv
import importlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from securefg.data.tabular.schema import as_numbers
from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shortened, shown
from securefg.settings.tables import TableSettings

ENDINGS = (".csv", ".tsv", ".txt", ".parquet")
SEPARATORS = ",;\t|"
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
        return f"{self.path}, line {self.line}: found {shortened(self.found)}; wanted {self.wanted}"


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
        """The values of a column; raise `DataError` where there is none of that name."""
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
        return _parquet(path, settings)
    try:
        data = path.read_bytes()
        encoding = settings.encoding or next(
            (name for bom, name in _BOMS if data.startswith(bom)), "utf-8"
        )
        text = data.decode(encoding)
    except (OSError, LookupError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    except UnicodeError as error:
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        raise DataError(
            f"{path}, line {line}: not {encoding} text; wanted UTF-8, or its name in tables.yaml, "
            "such as `encoding: cp1252`"
        ) from error
    return _parsed(path, text, encoding, settings)


def _parsed(path: Path, text: str, encoding: str, settings: TableSettings) -> TextTable:
    first = text.partition("\n")[0]
    separator = settings.separator or max(SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text.replace("\0", "\ufffd")), delimiter=separator, strict=True)
    rows = _numbered(path, reader)
    _, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    if len(set(names)) != len(names) or "" in names or not names:
        raise DataError(f"{path}, line 1: found {shown(names)}; wanted a header of distinct names")
    table = TextTable(path, separator, encoding, {name: [] for name in names}, [])
    for line, row in rows:
        if len(row) != len(names):
            wanted = f"{len(names)} fields between {separator!r}"
            table.faults.append(Fault(path, line, f"{len(row)} fields", wanted))
            continue
        table.lines.append(line)
        for name, value in zip(names, row, strict=True):
            text = value.strip()
            table.columns[name].append(None if text in settings.missing else text)
    if not table.lines and not table.faults:
        table.faults.append(Fault(path, 1, "a header and nothing below it", "at least one row"))
    return table


def _numbered(path: Path, reader: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{path}, line {line}: found {error}; wanted a table") from error
        if any(field.strip() for field in row):
            yield line, row
        line = reader.line_num + 1  # type: ignore[attr-defined]


def _parquet(path: Path, settings: TableSettings) -> TextTable:
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
        str(name): [None if v is None or str(v) in settings.missing else str(v) for v in values]
        for name, values in found.items()
    }
    count = len(next(iter(columns.values()), []))
    return TextTable(path, "", "parquet", columns, list(range(1, count + 1)))


PARTS = ("train", "val", "test")


@dataclass
class Gathered:
    """Nodes numbered in the order of their first appearance.

    holders    every node's organisations by name; empty where the tables name none
    edges      pairs of node numbers, as often as they are listed
    """

    ids: list[str] = field(default_factory=list)
    columns: dict[str, list[str | None]] = field(default_factory=dict)
    labels: list[str | None] = field(default_factory=list)
    splits: list[str | None] = field(default_factory=list)
    holders: list[list[str]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    edge_columns: dict[str, list[str | None]] = field(default_factory=dict)
    tables: list[TextTable] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    filtered: int = 0
    unknown_ends: int = 0
    shared: int = 0


def organisations(folder: Path, settings: TableSettings) -> list[tuple[str, Path]]:
    """Subfolders with tables, each one organisation; or the folder itself, with no name."""
    if not folder.is_dir():
        raise DataError(f"{folder}: found no such folder; expected one with tables in it")
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
    named = [(path.name, path) for path in inside if any(path.glob(f"{settings.nodes}.*"))]
    if named and any(folder.glob(f"{settings.nodes}.*")):
        raise DataError(
            f"{folder}: found {settings.nodes} here and in {named[0][0]}; wanted tables in this "
            "folder, or in one folder per organisation"
        )
    return named or [("", folder)]


def gather(folder: Path, settings: TableSettings) -> Gathered:
    """Everything is read before anything is judged, so that all faults can be listed."""
    found = Gathered()
    places: dict[str, int] = {}
    tables = organisations(folder, settings)
    for name, path in tables:
        table = read_text_table(find_table(path, settings.nodes), settings)
        found.tables.append(table)
        _take_nodes(found, places, table, name, settings)
    for _, path in tables:
        table = read_text_table(find_table(path, settings.edges), settings)
        found.tables.append(table)
        _take_edges(found, places, table, settings)
    found.faults = [fault for table in found.tables for fault in table.faults]
    found.shared = sum(len(set(names)) > 1 for names in found.holders)
    return found


def _take_nodes(
    found: Gathered,
    places: dict[str, int],
    table: TextTable,
    organisation: str,
    settings: TableSettings,
) -> None:
    id_column = settings.id or next(iter(table.columns))
    ids = table.column(id_column)
    labels = table.columns.get(settings.label, [None] * len(table))
    splits = table.columns.get(settings.split, [None] * len(table))
    clients = table.columns.get(settings.client, [None] * len(table))
    special = {id_column, settings.label, settings.split, settings.client, *settings.ignore}
    own = [name for name in table.columns if name not in special]
    if found.ids and set(own) != set(found.columns):
        odd = sorted(set(own) ^ set(found.columns))
        raise DataError(
            f"{table.path}, line 1: found other columns than before ({', '.join(odd)}); wanted the "
            "same in all organisations (tables.yaml: `ignore: [...]`)"
        )
    for name in own:
        found.columns.setdefault(name, [])
    seen: set[str] = set()
    for row, node in enumerate(ids):
        if node is None:
            table.fault(row, f"no {id_column}", "an id on every line")
            continue
        if splits[row] is not None and splits[row] not in PARTS:
            table.fault(
                row, f"{settings.split} {shown(splits[row])}", "train, val, test or nothing"
            )
            continue
        holder = clients[row] if organisation == "" else organisation
        if node in seen and (
            organisation or holder is None or holder in found.holders[places[node]]
        ):
            table.fault(row, f"{id_column} {shown(node)} a second time", "every node once")
            continue
        seen.add(node)
        values = {name: table.columns[name][row] for name in own}
        if node in places:
            _merge(found, places[node], table, row, values, labels[row], splits[row], settings)
        else:
            places[node] = len(found.ids)
            found.ids.append(node)
            found.labels.append(labels[row])
            found.splits.append(splits[row])
            found.holders.append([])
            for name, value in values.items():
                found.columns[name].append(value)
        if holder is not None:
            found.holders[places[node]].append(holder)


def _merge(
    found: Gathered,
    at: int,
    table: TextTable,
    row: int,
    values: dict[str, str | None],
    label: str | None,
    split: str | None,
    settings: TableSettings,
) -> None:
    """A node that another organisation holds too: what is missing there is filled in from here."""
    for name, value in values.items():
        before = found.columns[name][at]
        if before is None or value is None or before == value:
            found.columns[name][at] = value if before is None else before
        elif settings.shared == "same":
            wanted = f"{shown(before)} as elsewhere (or tables.yaml: `shared: mean`)"
            table.fault(row, f"{name} {shown(value)} of a shared node", wanted)
        else:
            numbers = as_numbers([before, value])
            found.columns[name][at] = before if numbers is None else repr(float(numbers.mean()))
    for kept, new, what in ((found.labels, label, "label"), (found.splits, split, "split")):
        if kept[at] is not None and new is not None and kept[at] != new:
            table.fault(
                row, f"{what} {shown(new)} of a shared node", f"{shown(kept[at])} as elsewhere"
            )
        kept[at] = new if kept[at] is None else kept[at]


def _take_edges(
    found: Gathered, places: dict[str, int], table: TextTable, settings: TableSettings
) -> None:
    names = list(table.columns)
    if len(names) < 2:
        raise DataError(f"{table.path}, line 1: found {names}; wanted two columns of node ids")
    source, target = settings.source or names[0], settings.target or names[1]
    ends = [table.column(source), table.column(target)]
    rest = [name for name in names if name not in (source, target)]
    for row in range(len(table)):
        if not _is_wanted(table, row, settings):
            found.filtered += 1
            continue
        pair = [places.get(end[row] or "", -1) for end in ends]
        if -1 in pair:
            unknown = ends[pair.index(-1)][row]
            if settings.unknown_ends == "drop" and unknown is not None:
                found.unknown_ends += 1
            else:
                said = "no node" if unknown is None else f"node {shown(unknown)}"
                wanted = "ids of the node table (tables.yaml: `unknown_ends: drop` leaves them out)"
                table.fault(row, said, wanted)
            continue
        found.edges.append((pair[0], pair[1]))
        for name in rest:
            found.edge_columns.setdefault(name, []).append(table.columns[name][row])


def _is_wanted(table: TextTable, row: int, settings: TableSettings) -> bool:
    return all(table.column(name)[row] in values for name, values in settings.where.items())


def client_names(found: Gathered) -> tuple[str, ...]:
    """The names of all organisations that hold a node, sorted."""
    return tuple(sorted({name for names in found.holders for name in names}))


def holdings_lines(found: Gathered) -> Iterator[tuple[int, int]]:
    """(node, client) for every holding, clients numbered in the order of their names."""
    number = {name: index for index, name in enumerate(client_names(found))}
    for node, names in enumerate(found.holders):
        for name in sorted(set(names)):
            yield node, number[name]
