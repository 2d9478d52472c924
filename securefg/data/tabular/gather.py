"""Tables of one organisation or of several, put together: nodes by id, who holds them, edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from securefg.data.tabular.schema import as_numbers
from securefg.data.tabular.text import Fault, TextTable, find_table, read_text_table
from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shown
from securefg.settings.tables import TableSettings

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
        raise DataError(f"{folder}: found no such folder; wanted one with tables in it")
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
    return tuple(sorted({name for names in found.holders for name in names}))


def holdings_lines(found: Gathered) -> Iterator[tuple[int, int]]:
    """(node, client) for every holding, clients numbered in the order of their names."""
    number = {name: index for index, name in enumerate(client_names(found))}
    for node, names in enumerate(found.holders):
        for name in sorted(set(names)):
            yield node, number[name]
