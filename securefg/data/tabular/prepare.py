"""From tables to a folder of numbers that runs and deployments read, and what is done in words."""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from securefg.data.readers.folder import EDGE_FEATURES
from securefg.data.tabular.column_look import Look, yaml_name
from securefg.data.tabular.dangers import (
    Danger,
    find_dangers,
    header_dangers,
    name_danger,
    twin_names,
)
from securefg.data.tabular.encoding import (
    COMMA_NUMBER,
    GAPS,
    Column,
    as_numbers,
    encode_column,
)
from securefg.data.tabular.faults import Fault, Fix, Unreadable
from securefg.data.tabular.gather import (
    Gathered,
    client_names,
    gather_tables,
    holdings_lines,
    split_by_time,
)
from securefg.data.tabular.identities import count_zero_twins
from securefg.data.tabular.labels import class_complaints, copied_label, telling_features
from securefg.data.tabular.naming import absent_label
from securefg.data.tabular.schema import (
    FILE,
    Schema,
    class_names,
    client_labels,
    describe_column,
    schema_text,
)
from securefg.data.tabular.transfers import (
    edge_rows,
    link_features,
    mirrored_entries,
    outside_windows,
    sum_over_links,
)
from securefg.foundation.errors import DataError
from securefg.foundation.files import PRIVATE
from securefg.foundation.quoting import shortened, shown
from securefg.settings.tables import TableSettings

UNLABELLED = -1


@dataclass(frozen=True)
class Prepared:
    """What a folder of tables is as numbers, and everything found on the way."""

    gathered: Gathered
    schema: Schema
    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    edges: NDArray[np.int64]
    faults: tuple[Fault, ...]
    self_loops: int
    repeated: int

    @property
    def between(self) -> int:
        """Edges whose two ends no one client holds."""
        holders = [set(names) for names in self.gathered.holders]
        if not any(holders):
            return 0
        return sum(not holders[a] & holders[b] for a, b in self.edges.tolist())


def prepared(folder: Path, settings: TableSettings, agreed: Schema | None = None) -> Prepared:
    """`agreed` is a schema made elsewhere: nothing is learnt from these tables then."""
    if agreed is not None:
        settings = settings.model_copy(update={"transfers": agreed.transfers})
    gathered = gather_tables(folder, settings)
    if settings.split_by is not None:
        gathered.faults += split_by_time(gathered, settings.split_by)
    schema = agreed or _make_schema(gathered, settings)
    faults = [*gathered.faults, *_header_faults(gathered)]
    if agreed is None:
        faults += _client_faults(gathered, settings) or [
            *_column_faults(gathered, settings),
            *(
                Fault(gathered.tables[0].path, 1, what, wanted, fix)
                for what, wanted, fix in class_complaints(
                    gathered.rows.labels, gathered.rows.holders, settings
                )
            ),
        ]
    agreed_names = {column.name for column in schema.columns}
    if set(gathered.columns) != agreed_names and gathered.ids:
        odd = ", ".join(sorted(set(gathered.columns) ^ agreed_names))
        surplus = sorted(set(gathered.columns) - agreed_names)
        wanted = f"the schema's own (tables.yaml: `ignore: [{', '.join(map(yaml_name, surplus))}]`)"
        fix = Fix({"ignore": surplus}) if surplus else None
        wanted = wanted if surplus else "the schema's own"
        what = f"other columns than the schema has ({odd})"
        raise Unreadable([Fault(gathered.tables[0].path, 1, what, wanted, fix)])
    parts = [np.zeros((len(gathered.ids), 0), np.float32)]
    for column in schema.columns:
        encoded, bad = encode_column(column, gathered.columns.get(column.name, []))
        parts.append(encoded)
        for row in bad:
            where = f"{column.name} {shown(gathered.columns[column.name][row])}"
            fix = _value_fix(column, str(gathered.columns[column.name][row]), settings)
            faults.append(gathered.fault_at(row, where, _accepted_words(column), fix))
    if schema.transfers is not None and schema.transfers.on_nodes:
        parts.append(sum_over_links(gathered.sightings, schema.transfers, len(gathered.ids)))
    labels, strange = _encode_labels(gathered, schema)
    for row in strange:
        wanted = f"one of {', '.join(schema.classes)}"
        faults.append(gathered.fault_at(row, f"label {shown(gathered.labels[row])}", wanted))
    edges = np.array(gathered.edges, np.int64).reshape(-1, 2)
    loops = edges[:, 0] == edges[:, 1]
    kept = np.unique(np.sort(edges[~loops], 1), axis=0)
    _judge_whole(folder, gathered, schema, parts, faults, len(kept), settings)
    return Prepared(
        gathered=gathered,
        schema=schema,
        features=np.concatenate(parts, 1),
        labels=labels,
        edges=kept,
        faults=tuple(faults),
        self_loops=int(loops.sum()),
        repeated=int((~loops).sum()) - len(kept),
    )


def _accepted_words(column: Column) -> str:
    """Return in words which texts a column holds."""
    if column.kind == "date":
        return f"a date as {column.format or '2025-01-31'}"
    if column.kind == "category":
        return f"one of {', '.join(map(shown, column.values[:5]))}"
    return "a number"


def _value_fix(column: Column, value: str, settings: TableSettings) -> Fix | None:
    """Return the change that reads a value which its column cannot hold, if there is one."""
    if value.casefold() in GAPS:
        return Fix({"missing": [value]})
    is_measured = column.kind in ("number", "range", "bins")
    if is_measured and settings.decimal == "." and COMMA_NUMBER.fullmatch(value):
        return Fix({"decimal": ","})
    return None


def _judge_whole(
    folder: Path,
    gathered: Gathered,
    schema: Schema,
    parts: list[NDArray[np.float32]],
    faults: list[Fault],
    num_edges: int,
    settings: TableSettings,
) -> None:
    """What is wrong with the whole rather than with a line."""
    path = gathered.tables[0].path
    if sum(part.shape[1] for part in parts) == 0:
        faults.append(Fault(path, 1, "no column besides ids and labels", "at least one feature"))
    if len(schema.classes) == 1:
        wanted = "two classes or more (tables.yaml: `classes: [...]`, `label: fraud`)"
        faults.append(Fault(path, 1, f"one class, {shown(schema.classes[0])}", wanted))
    if all(label is None for label in gathered.labels):
        nodes = [table for table in gathered.tables if table.path.stem == settings.nodes]
        faults.append(absent_label(nodes, settings))
    if not num_edges and not gathered.tables[-1].faults:
        faults.append(
            Fault(gathered.tables[-1].path, 1, "no edge between two nodes", "at least one")
        )
    alone = [i for i, names in enumerate(gathered.holders) if not names]
    if alone and len(alone) < len(gathered.holders):
        node = shown(gathered.ids[alone[0]])
        wanted = f"a {settings.client} on every line, or on none"
        faults.append(Fault(path, 1, f"no {settings.client} for node {node}", wanted))


def _make_schema(gathered: Gathered, settings: TableSettings) -> Schema:
    columns = tuple(
        describe_column(name, values, settings, gathered.rows.holders).model_copy(
            update={"from_edges": name in settings.from_edges}
        )
        for name, values in gathered.rows.columns.items()
    )
    held = Counter(name for names in gathered.holders for name in set(names))
    clients = client_labels(
        client_names(gathered), not gathered.by_folder, held, settings.min_records
    )
    return Schema(
        columns=columns,
        classes=class_names(gathered.labels, settings),
        clients=clients,
        declared_classes=bool(settings.classes),
        min_records=settings.min_records,
        transfers=settings.transfers,
    )


def _header_faults(found: Gathered) -> Iterator[Fault]:
    """First lines that are records: their values would pass for the names of columns."""
    for table in found.tables:
        for danger in header_dangers(table.columns):
            named = f"{danger.found}: {shown(danger.column)}"
            yield Fault(table.path, 1, named, danger.advice, danger.fix)


def _client_faults(gathered: Gathered, settings: TableSettings) -> list[Fault]:
    """A column that is called as clients are may name a bank's customers."""
    if gathered.by_folder or "client" in settings.model_fields_set:
        return []
    holders = [name for names in gathered.holders for name in set(names)]
    counts = Counter(holders)
    few = sum(count for count in counts.values() if count < settings.min_records)
    person = name_danger(settings.client, holders, settings)
    if few <= len(holders) / 2 and person is None:
        return []
    what = person.found if person else f"{len(counts)} values, most of them in few rows"
    wanted = "names of organisations; in tables.yaml `client: organisation` names another column"
    return [Fault(gathered.tables[0].path, 1, f"column {shown(settings.client)}: {what}", wanted)]


def _column_faults(gathered: Gathered, settings: TableSettings) -> Iterator[Fault]:
    """Columns that must not become features as they stand."""
    path = gathered.tables[0].path
    for danger in (
        *twin_names(gathered.columns),
        *find_dangers(gathered.rows.columns, settings, gathered.rows.holders),
        *_find_copies(gathered, settings),
    ):
        where = "in tables.yaml" if danger.advice.startswith("`") else "in the table"
        wanted = f"{where} {danger.advice}"
        named = f"column {shown(danger.column)}: {danger.found}"
        yield Fault(path, 1, named, wanted, danger.fix)


def _find_copies(gathered: Gathered, settings: TableSettings) -> Iterator[Danger]:
    """Columns that are the label under another name, unless a rule of tables.yaml names them."""
    for name, values in gathered.columns.items():
        if name not in settings.ruled and copied_label(gathered.labels, values):
            look = Look(name, values, settings, gathered.holders)
            advice = f"{look.ignore}; {look.category} if it is known before the label is"
            fix = Fix({"ignore": [name]})
            yield Danger(name, "the label under another name", advice, fix)


def _encode_labels(gathered: Gathered, schema: Schema) -> tuple[NDArray[np.int64], list[int]]:
    number = {name: index for index, name in enumerate(schema.classes)}
    labels = np.full(len(gathered.labels), UNLABELLED, np.int64)
    strange = []
    for row, label in enumerate(gathered.labels):
        if label is not None and label not in number:
            strange.append(row)
        elif label is not None:
            labels[row] = number[label]
    return labels, strange


def write_prepared(made: Prepared, out: Path) -> None:
    """All files or none; ids and tables are about persons, so only the owner can read them."""
    if made.faults:
        more = f"\nand {len(made.faults) - 1} more: securefg data check" if made.faults[1:] else ""
        raise DataError(f"{made.faults[0]}{more}")
    if out.exists():
        raise DataError(f"{out} exists; wanted a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        np.savez_compressed(temporary / "features.npz", x=made.features)
        np.savez_compressed(temporary / "labels.npz", y=made.labels)
        np.savez_compressed(temporary / "edges.npz", edge_index=made.edges.T)
        gathered, rule = made.gathered, made.schema.transfers
        if rule is not None and rule.on_edges:
            rows = edge_rows(made.edges, gathered.ids, gathered.sightings, rule)
            mirrored = mirrored_entries(rule)
            np.savez_compressed(temporary / EDGE_FEATURES, edge_attr=rows, mirrored=mirrored)
        (temporary / "ids.csv").write_text(_to_csv(("node", "id"), enumerate(gathered.ids)))
        (temporary / FILE).write_text(schema_text(made.schema), encoding="utf-8")
        splits = [(node, part) for node, part in enumerate(gathered.splits) if part is not None]
        if splits:
            (temporary / "split.csv").write_text(_to_csv(("node", "split"), splits))
        if client_names(gathered):  # an agreed schema may name some where these tables name none
            (temporary / "clients.csv").write_text(
                _to_csv(("node", "client"), holdings_lines(gathered))
            )
        for path in temporary.iterdir():
            path.chmod(PRIVATE)
        os.rename(temporary, out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _to_csv(header: tuple[str, str], rows: object) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)  # type: ignore[arg-type]
    return buffer.getvalue()


Row = tuple[str, str, str]


def describe_prepared(made: Prepared) -> list[Row]:
    """(what, what was found, what is done) line by line."""
    parts = (_file_rows, _node_rows, _column_rows, _edge_rows, _telling_rows, _sharing_rows)
    return [row for part in parts for row in part(made)]


def _file_rows(made: Prepared) -> Iterator[Row]:
    for table in made.gathered.tables:
        way = table.encoding if not table.separator else f"{table.encoding}, {table.separator!r}"
        yield str(table.path), f"{len(table)} rows ({way})", ", ".join(table.columns)


def _node_rows(made: Prepared) -> Iterator[Row]:
    gathered, schema = made.gathered, made.schema
    counts = Counter(made.labels.tolist())
    yield (
        "nodes",
        str(len(gathered.ids)),
        "numbered from 0 in order of appearance; ids.csv leads back",
    )
    for number, name in enumerate(schema.classes):
        share = counts[number] / max(1, len(made.labels) - counts[UNLABELLED])
        note = f"class {number}, {share:.1%} of those with a label"
        yield f"label {shortened(name)}", str(counts[number]), note
    if counts[UNLABELLED]:
        note = "stay in the graph, outside training, validation and test"
        yield "without a label", str(counts[UNLABELLED]), note
    for number, name in enumerate(schema.clients):
        held = sum(name in names for names in gathered.holders)
        yield f"client {shortened(name)}", f"{held} nodes", f"client {number} of `partition: given`"
    twins = count_zero_twins(gathered.ids)
    if twins:
        note = "differ by zeros in front alone, and are different nodes: did a table lose zeros?"
        yield "LOOK AT ids", str(twins), note
    if gathered.shared:
        note = "one node, with all its holders: what one knows of it, they all know"
        yield "shared by several clients", str(gathered.shared), note
    parts = Counter(part for part in gathered.splits if part is not None)
    if parts:
        sizes = ", ".join(f"{name} {parts[name]}" for name in ("train", "val", "test"))
        yield "split", sizes, "`data.split.kind: public`"
    else:
        yield "split", "none", "`data.split.kind: shares`, random or folds"


def _column_rows(made: Prepared) -> Iterator[Row]:
    for column in made.schema.columns:
        values = made.gathered.columns.get(column.name, [])
        gone, width = sum(value is None for value in values), len(column.features)
        held = f"{column.kind}, {gone} missing" if gone else column.kind
        done = _column_words(column)
        done += (
            "; missing is a feature of its own" if column.missing else "; missing is 0" * (gone > 0)
        )
        done += f": {width} feature{'s' * (width != 1)}"
        if len(set(values)) < 2:
            done += "; the same for all, so it tells nothing (tables.yaml: `ignore`)"
        yield f"column {shortened(column.name)}", held, done


def _column_words(column: Column) -> str:
    """Return what is done with a column, in words."""
    if column.kind == "number":
        return f"(x - {column.mean:g}) / {column.scale:g}, cut to -10..10"
    if column.kind == "category":
        return f"one-hot of {len(column.values)}" + (", others together" * column.other)
    if column.kind == "date":
        return f"{' and '.join(column.parts)}, from {column.reference}"
    if column.kind == "bins":
        return f"one-hot of {len(column.edges) + 1} public intervals"
    return f"cut to {column.low:g}..{column.high:g}, as -1..1"


def _telling_rows(made: Prepared) -> Iterator[Row]:
    """Features that give the label away."""
    for place, area in telling_features(made.features, made.labels).items():
        note = "tells the label almost alone: is it known before the label is? (`ignore`)"
        yield f"LOOK AT {shortened(made.schema.features[place])}", f"ROC AUC {area:.3f}", note


def _sharing_rows(made: Prepared) -> Iterator[Row]:
    for fact in made.schema.learnt:
        yield f"shared in {FILE}", fact, "no epsilon covers this"
    if made.schema.from_edges:
        names = ", ".join(made.schema.from_edges)
        yield "computed from edges", shortened(names), "no epsilon covers an edge in these columns"


def _edge_rows(made: Prepared) -> Iterator[Row]:
    gathered = made.gathered
    yield "edges", str(len(made.edges)), "undirected, each once"
    counts = (
        ("edges listed again, or backwards", made.repeated, "one edge"),
        ("edges from a node to itself", made.self_loops, "left out"),
        ("edges filtered by `where`", gathered.filtered, "left out"),
        ("edges to unknown nodes", gathered.unknown_ends, "left out"),
        ("edges between clients", made.between, "held by nobody: no client has both ends"),
    )
    for what, count, done in counts:
        if count:
            yield what, str(count), done
    summed = made.schema.summed
    if made.schema.transfers is not None and made.schema.transfers.on_edges:
        width = len(link_features(made.schema.transfers))
        note = f"`method.arguments: {{edge_dim: {width}}}` of a network that reads them"
        yield "features of edges", str(width), note
    if summed:
        note = f"`method.link_columns: {len(summed)}` counts them in what a link moves"
        yield "sums over links", f"the last {len(summed)} features", note
    rule = made.schema.transfers
    outside = {} if rule is None else outside_windows(gathered.sightings, rule)
    for name, values in gathered.edge_columns.items():
        done = "for `where`; no feature, see the docs"
        if rule is not None and name in rule.columns:
            done = "summed over links"
        if outside.get(name):
            share = outside[name] / len(gathered.sightings)
            done += f"; {share:.0%} of the transfers are outside all windows"
        yield f"edge column {shortened(name)}", _kind_words(values), done


def _kind_words(values: Sequence[str | None]) -> str:
    there = [value for value in values if value is not None]
    gone = f", {len(values) - len(there)} missing" if len(there) < len(values) else ""
    if as_numbers(there) is not None:
        return f"number{gone}"
    return f"{len(set(there))} values{gone}"
