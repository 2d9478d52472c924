"""Tables of one organisation or several, put together: columns of text, nodes by id, edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from securefg.data.tabular.column_look import yaml_name
from securefg.data.tabular.dates import as_date, fitting_formats
from securefg.data.tabular.encoding import COMMA_NUMBER, GAPS, as_number, as_numbers, with_points
from securefg.data.tabular.faults import Fault, Fix, Unreadable
from securefg.data.tabular.identities import Ends, check_ids, odd_ids, plain_id
from securefg.data.tabular.naming import meant_columns, missing_files, unknown_names
from securefg.data.tabular.text_table import ENDINGS, TextTable, find_table, read_text_table
from securefg.data.tabular.transfers import Sighting, Values, read_amount, read_time
from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shown
from securefg.settings.tables import TableSettings, TimeSplit, TransferRule

PARTS = ("train", "val", "test")


@dataclass
class Rows:
    """The cells as each organisation has them: a node of two organisations has two rows.

    Records are counted in these rows. In the merged columns a value of one organisation would count
    as a record of the other one too.
    """

    columns: dict[str, list[str | None]] = field(default_factory=dict)
    labels: list[str | None] = field(default_factory=list)
    holders: list[tuple[str, ...]] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)


@dataclass
class Gathered:
    """Nodes numbered in the order of their first appearance.

    rows       what every organisation itself has of its nodes

    holders    every node's organisations by name; empty where the tables name none
    edges      pairs of node numbers, as often as they are listed
    by_folder  whether holders are named by their folders, rather than by a column
    origins    every node's table and row
    """

    rows: Rows = field(default_factory=Rows)
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
    by_folder: bool = False
    origins: list[tuple[int, int]] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)

    def fault_at(self, node: int, found_text: str, wanted: str, fix: Fix | None = None) -> Fault:
        """Return a fault of the line on which a node appeared first."""
        table, row = self.origins[node]
        path, lines = self.tables[table].path, self.tables[table].lines
        return Fault(path, lines[row], found_text, wanted, fix)


def list_organisations(folder: Path, settings: TableSettings) -> list[tuple[str, Path]]:
    """Subfolders with tables, each one organisation; or the folder itself, with no name."""
    if not folder.is_dir():
        raise DataError(f"{folder}: found no such folder; expected one with tables in it")
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
    named = [(path.name, path) for path in inside if any(path.glob(f"{settings.nodes}.*"))]
    unnamed = [path for path in inside if path not in dict(named).values() and _has_tables(path)]
    if named and unnamed:
        raise DataError(
            f"{unnamed[0]}: found tables, and none called {settings.nodes}; wanted one in every "
            "organisation's folder, and no tables in folders of no organisation"
        )
    if named and any(folder.glob(f"{settings.nodes}.*")):
        raise DataError(
            f"{folder}: found {settings.nodes} here and in {named[0][0]}; wanted tables in this "
            "folder, or in one folder per organisation"
        )
    if not named and unnamed and not _has_tables(folder):
        named = [(path.name, path) for path in unnamed]
    organisations = named or [("", folder)]
    if faults := missing_files([path for _, path in organisations], settings):
        raise Unreadable(faults)
    return organisations


def _has_tables(folder: Path) -> bool:
    return any(path.suffix in ENDINGS for path in folder.iterdir())


def gather_tables(folder: Path, settings: TableSettings) -> Gathered:
    """Everything is read before anything is judged, so that all faults can be listed."""
    gathered = Gathered()
    places: dict[str, int] = {}
    organisations = list_organisations(folder, settings)
    gathered.by_folder = organisations[0][0] != ""
    folders = [path for _, path in organisations]
    nodes, edges = _read_all(folders, settings)
    misnamed = unknown_names(nodes, edges, settings)
    if faults := [*meant_columns(nodes, edges, settings), *_check_columns(nodes, settings)]:
        raise Unreadable([*misnamed, *faults])
    for (name, _), table in zip(organisations, nodes, strict=True):
        kept = {_id_column(table, settings), settings.label, settings.split}
        _read_commas(table, {*kept, settings.client}, settings)
        gathered.tables.append(table)
        _take_nodes(gathered, places, table, name, settings)
    if settings.shared == "mean":
        _average_shared(gathered, settings)
    for (name, _), table in zip(organisations, edges, strict=True):
        first, second, *_ = (*table.columns, "", "")
        kept = {settings.source or first, settings.target or second, *settings.where}
        _read_commas(table, kept, settings)
        gathered.tables.append(table)
        _take_edges(gathered, places, table, settings)
        _note_transfers(gathered, places, table, name, settings)
    gathered.faults = [*misnamed, *(fault for table in gathered.tables for fault in table.faults)]
    gathered.shared = sum(len(set(names)) > 1 for names in gathered.holders)
    return gathered


def _read_all(
    folders: list[Path], settings: TableSettings
) -> tuple[list[TextTable], list[TextTable]]:
    """Return the tables of nodes and of edges. Raise `Unreadable` with the faults of all files."""
    faults: list[Fault] = []
    tables: list[TextTable] = []
    for stem in (settings.nodes, settings.edges):
        for folder in folders:
            try:
                tables.append(read_text_table(find_table(folder, stem), settings))
            except Unreadable as error:
                faults += error.faults
    if faults:
        raise Unreadable(faults)
    nodes, edges = tables[: len(folders)], tables[len(folders) :]
    for group in (nodes, edges):
        _name_alike(group)
    return nodes, edges


def _name_alike(tables: list[TextTable]) -> None:
    """Give columns the names of the first organisation if they differ by case or blanks alone."""
    names = {_plain_name(name): name for name in tables[0].columns}
    for table in tables[1:]:
        meant = {name: names.get(_plain_name(name), name) for name in table.columns}
        if len(set(meant.values())) == len(meant):
            table.columns = {meant[name]: values for name, values in table.columns.items()}


def _plain_name(name: str) -> str:
    return "".join(name.casefold().split())


def _id_column(table: TextTable, settings: TableSettings) -> str:
    return settings.id or next(iter(table.columns))


def _feature_names(table: TextTable, settings: TableSettings) -> list[str]:
    """Return the columns that become features."""
    special = {_id_column(table, settings), settings.label, settings.split, settings.client}
    return [name for name in table.columns if name not in {*special, *settings.ignore}]


def _check_columns(nodes: list[TextTable], settings: TableSettings) -> Iterator[Fault]:
    """Yield faults of organisations with different columns, and of ids that are none."""
    for table in nodes:
        names = set(_feature_names(table, settings))
        odd = sorted(names ^ set(_feature_names(nodes[0], settings)))
        if odd:
            found = f"other columns than before ({', '.join(odd)})"
            listed = ", ".join(map(yaml_name, odd))
            wanted = f"the same in all organisations (tables.yaml: `ignore: [{listed}]`)"
            yield Fault(table.path, 1, found, wanted, Fix({"ignore": odd}))
        clients = table.columns.get(settings.client, [None] * len(table))
        yield from check_ids(table, _id_column(table, settings), clients)


def _read_commas(table: TextTable, kept: set[str], settings: TableSettings) -> None:
    """Write decimal commas as points, in all columns but ids and names."""
    for name in table.columns if settings.decimal == "," else ():
        if name not in kept:
            table.columns[name] = with_points(table.columns[name])


def _take_nodes(
    gathered: Gathered,
    places: dict[str, int],
    table: TextTable,
    organisation: str,
    settings: TableSettings,
) -> None:
    id_column = _id_column(table, settings)
    ids = [None if text is None else plain_id(text) for text in table.column(id_column)]
    labels = table.columns.get(settings.label, [None] * len(table))
    splits = table.columns.get(settings.split, [None] * len(table))
    clients = table.columns.get(settings.client, [None] * len(table))
    table.faults += odd_ids(table, id_column)
    feature_names = _feature_names(table, settings)
    for name in feature_names:
        gathered.columns.setdefault(name, [])
        gathered.rows.columns.setdefault(name, [])
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
            organisation or holder is None or holder in gathered.holders[places[node]]
        ):
            table.fault(row, f"{id_column} {shown(node)} a second time", "every node once")
            continue
        seen.add(node)
        values = {name: table.columns[name][row] for name in feature_names}
        if node in places:
            _merge_node(
                gathered, places[node], table, row, values, labels[row], splits[row], settings
            )
        else:
            places[node] = len(gathered.ids)
            gathered.ids.append(node)
            gathered.origins.append((len(gathered.tables) - 1, row))
            gathered.labels.append(labels[row])
            gathered.splits.append(splits[row])
            gathered.holders.append([])
            for name, value in values.items():
                gathered.columns[name].append(value)
        if holder is not None:
            gathered.holders[places[node]].append(holder)
        gathered.rows.nodes.append(places[node])
        gathered.rows.labels.append(labels[row])
        gathered.rows.holders.append(() if holder is None else (holder,))
        for name, value in values.items():
            gathered.rows.columns[name].append(value)


def _merge_node(
    gathered: Gathered,
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
        before = gathered.columns[name][at]
        if before is None or value is None or before == value:
            gathered.columns[name][at] = value if before is None else before
        elif settings.shared == "same":
            differs = f"{name} {shown(value)} of a shared node, not {shown(before)} as elsewhere"
            wanted = f"one {name} for one node (or tables.yaml: `shared: mean`)"
            table.fault(row, differs, wanted, Fix({"shared": "mean"}))
    for kept, new, what in ((gathered.labels, label, "label"), (gathered.splits, split, "split")):
        if kept[at] is not None and new is not None and kept[at] != new:
            differs = f"{what} {shown(new)} of a shared node, not {shown(kept[at])} as elsewhere"
            table.fault(row, differs, f"one {what} for one node")
        kept[at] = new if kept[at] is None else kept[at]


def _average_shared(gathered: Gathered, settings: TableSettings) -> None:
    """Give nodes of several organisations the mean of their numbers.

    A mean of categories would be a value that no record has, so these keep the first one.
    """
    rows: dict[int, list[int]] = {}
    for row, node in enumerate(gathered.rows.nodes):
        rows.setdefault(node, []).append(row)
    several = {node: places for node, places in rows.items() if len(places) > 1}
    for name, column in gathered.columns.items():
        is_category = name in (*settings.categorical, *settings.values, *settings.date)
        cells = gathered.rows.columns[name]
        if not several or is_category or as_numbers([v for v in cells if v is not None]) is None:
            continue
        for node, places in several.items():
            values = [value for row in places if (value := cells[row]) is not None]
            if len(set(values)) > 1:
                column[node] = repr(sum(map(as_number, values)) / len(values))


def _take_edges(
    gathered: Gathered,
    places: dict[str, int],
    table: TextTable,
    settings: TableSettings,
) -> None:
    names = list(table.columns)
    if len(names) < 2:
        raise DataError(f"{table.path}, line 1: found {names}; wanted two columns of node ids")
    source, target = settings.source or names[0], settings.target or names[1]
    ends = [table.column(source), table.column(target)]
    looked_up = Ends(table, places)
    rest = [name for name in names if name not in (source, target)]
    for row in range(len(table)):
        if not _is_wanted(table, row, settings):
            gathered.filtered += 1
            continue
        pair = [places.get(plain_id(end[row] or ""), -1) for end in ends]
        if -1 in pair:
            unknown = ends[pair.index(-1)][row]
            if unknown is None:
                table.fault(row, "no node", "an id at both ends")
            else:
                looked_up.note(row, unknown)
                gathered.unknown_ends += settings.unknown_ends == "drop"
            continue
        gathered.edges.append((pair[0], pair[1]))
        for name in rest:
            gathered.edge_columns.setdefault(name, []).append(table.columns[name][row])
    table.faults += looked_up.faults(settings.unknown_ends == "drop")


def _note_transfers(
    gathered: Gathered,
    places: dict[str, int],
    table: TextTable,
    organisation: str,
    settings: TableSettings,
) -> None:
    """Keep every transfer for its ends that this organisation holds first, and for no other."""
    if settings.transfers is None:
        return
    names = list(table.columns)
    ends = (settings.source or names[0], settings.target or names[1])
    source, target = ([plain_id(text or "") for text in table.column(name)] for name in ends)
    columns = {name: table.column(name) for name in settings.transfers.columns}
    fixes: dict[str, Fix | None] = {}
    for row, pair in enumerate(zip(source, target, strict=True)):
        if "" in pair or pair[0] == pair[1] or not _is_wanted(table, row, settings):
            continue
        values = _read_transfer(table, row, columns, settings.transfers, fixes)
        for way, (own, partner) in enumerate((pair, pair[::-1])):
            at = places.get(own, -1)
            if at >= 0 and (not organisation or gathered.holders[at][0] == organisation):
                gathered.sightings.append((at, partner, way, values))


def _read_transfer(
    table: TextTable,
    row: int,
    columns: dict[str, list[str | None]],
    rule: TransferRule,
    fixes: dict[str, Fix | None],
) -> Values:
    """Return a transfer's numbers; what cannot be read is a fault and missing.

    fixes  the change that helps, by column or by a word for a gap, as they are met
    """
    values: list[float | None] = []
    for name, texts in columns.items():
        text, value = texts[row], None
        try:
            if text is not None:
                value = read_amount(text) if name in rule.amount else read_time(text, rule, name)
        except ValueError as error:
            key = str(text) if str(text).casefold() in GAPS else name
            if key not in fixes:
                fixes[key] = _transfer_fix(name, str(text), table, rule)
            table.fault(row, f"{name} {shown(text)}", str(error), fixes[key])
        values.append(value)
    return tuple(values)


def _transfer_fix(name: str, text: str, table: TextTable, rule: TransferRule) -> Fix | None:
    """Return the change that reads an amount or a day, if there is one."""
    if text.casefold() in GAPS:
        return Fix({"missing": [text]})
    if name in rule.amount:
        return Fix({"decimal": ","}) if COMMA_NUMBER.fullmatch(text) else None
    there = (v for v in table.columns[name] if v is not None and v.casefold() not in GAPS)
    forms = fitting_formats(dict.fromkeys(there))
    return Fix({"transfers": {"format": forms[0]}}) if forms else None


def _is_wanted(table: TextTable, row: int, settings: TableSettings) -> bool:
    return all(table.column(name)[row] in values for name, values in settings.where.items())


def split_by_time(gathered: Gathered, rule: TimeSplit) -> list[Fault]:
    """Deal labelled nodes to the parts by their day; return faults of days that cannot be read."""
    faults = []
    for node, (table, row) in enumerate(gathered.origins):
        text = gathered.tables[table].column(rule.column)[row]
        if gathered.splits[node] is not None:
            wanted = "a column or `split_by`, not both"
            return [gathered.fault_at(node, f"a split {shown(gathered.splits[node])}", wanted)]
        if text is None or gathered.labels[node] is None:
            continue
        try:
            day = as_date(text, rule.format)
        except ValueError:
            wanted = f"a day as {rule.format or '2025-01-31'} (tables.yaml: `split_by.format`)"
            faults.append(gathered.fault_at(node, f"{rule.column} {shown(text)}", wanted))
            continue
        gathered.splits[node] = PARTS[(day >= rule.val) + (day >= rule.test)]
    return faults


def client_names(found: Gathered) -> tuple[str, ...]:
    """The names of all organisations that hold a node, sorted."""
    return tuple(sorted({name for names in found.holders for name in names}))


def holdings_lines(found: Gathered) -> Iterator[tuple[int, int]]:
    """(node, client) for every holding, clients numbered in the order of their names."""
    number = {name: index for index, name in enumerate(client_names(found))}
    for node, names in enumerate(found.holders):
        for name in sorted(set(names)):
            yield node, number[name]
