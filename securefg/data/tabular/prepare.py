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

from securefg.data.tabular.gather import Fault, Gathered, client_names, gather, holdings_lines
from securefg.data.tabular.schema import Schema, as_numbers, describe, encode
from securefg.foundation.errors import DataError
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
    found = gather(folder, settings)
    schema = agreed or _schema(found, settings)
    faults = list(found.faults)
    if set(found.columns) != {column.name for column in schema.columns} and found.ids:
        odd = sorted(set(found.columns) ^ {column.name for column in schema.columns})
        raise DataError(
            f"{folder}: the schema has other columns ({', '.join(odd)}); wanted its own"
        )
    first = found.tables[0]
    parts = [np.zeros((len(found.ids), 0), np.float32)]
    for column in schema.columns:
        encoded, bad = encode(column, found.columns.get(column.name, []))
        parts.append(encoded)
        for row in bad[:20]:
            value = found.columns[column.name][row]
            where = f"{column.name} {shown(value)} of node {shown(found.ids[row])}"
            faults.append(
                Fault(first.path, 1, where, f"a value that the schema has ({column.kind})")
            )
    labels, strange = _labels(found, schema)
    for row in strange[:20]:
        where = f"label {shown(found.labels[row])} of node {shown(found.ids[row])}"
        faults.append(Fault(first.path, 1, where, f"one of {', '.join(schema.classes)}"))
    edges = np.array(found.edges, np.int64).reshape(-1, 2)
    loops = edges[:, 0] == edges[:, 1]
    kept = np.unique(np.sort(edges[~loops], 1), axis=0)
    _judge(folder, found, schema, parts, faults, len(kept), settings)
    return Prepared(
        gathered=found,
        schema=schema,
        features=np.concatenate(parts, 1),
        labels=labels,
        edges=kept,
        faults=tuple(faults),
        self_loops=int(loops.sum()),
        repeated=int((~loops).sum()) - len(kept),
    )


def _judge(
    folder: Path,
    found: Gathered,
    schema: Schema,
    parts: list[NDArray[np.float32]],
    faults: list[Fault],
    num_edges: int,
    settings: TableSettings,
) -> None:
    """What is wrong with the whole rather than with a line."""
    path = found.tables[0].path
    if sum(part.shape[1] for part in parts) == 0:
        faults.append(Fault(path, 1, "no column besides ids and labels", "at least one feature"))
    if not schema.classes:
        wanted = f"a column {settings.label!r} with labels (tables.yaml: `label: fraud`)"
        faults.append(Fault(path, 1, "no label", wanted))
    if not num_edges:
        faults.append(Fault(found.tables[-1].path, 1, "no edge between two nodes", "at least one"))
    alone = [i for i, names in enumerate(found.holders) if not names]
    if alone and len(alone) < len(found.holders):
        node = shown(found.ids[alone[0]])
        wanted = f"a {settings.client} on every line, or on none"
        faults.append(Fault(path, 1, f"no {settings.client} for node {node}", wanted))


def _schema(found: Gathered, settings: TableSettings) -> Schema:
    for name in (*settings.categorical,):
        if name not in found.columns:
            raise DataError(
                f"tables.yaml: categorical: found no column {name!r}; wanted one of "
                f"{', '.join(found.columns)}"
            )
    columns = tuple(
        describe(name, values, name in settings.categorical, settings.max_categories)
        for name, values in found.columns.items()
    )
    names = {label for label in found.labels if label is not None}
    whole = all(name.isdecimal() for name in names)
    classes = tuple(sorted(names, key=lambda name: (int(name) if whole else 0, name)))
    return Schema(columns=columns, classes=classes, clients=client_names(found))


def _labels(found: Gathered, schema: Schema) -> tuple[NDArray[np.int64], list[int]]:
    number = {name: index for index, name in enumerate(schema.classes)}
    labels = np.full(len(found.labels), UNLABELLED, np.int64)
    strange = []
    for row, label in enumerate(found.labels):
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
        found = made.gathered
        (temporary / "ids.csv").write_text(_csv(("node", "id"), enumerate(found.ids)))
        (temporary / "schema.json").write_text(made.schema.model_dump_json(indent=2))
        splits = [(node, part) for node, part in enumerate(found.splits) if part is not None]
        if splits:
            (temporary / "split.csv").write_text(_csv(("node", "split"), splits))
        if client_names(found):  # an agreed schema may name some where these tables name none
            (temporary / "clients.csv").write_text(_csv(("node", "client"), holdings_lines(found)))
        os.rename(temporary, out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _csv(header: tuple[str, str], rows: object) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)  # type: ignore[arg-type]
    return buffer.getvalue()


Row = tuple[str, str, str]


def described(made: Prepared) -> list[Row]:
    """(what, what was found, what is done) line by line."""
    return [*_file_rows(made), *_node_rows(made), *_column_rows(made), *_edge_rows(made)]


def _file_rows(made: Prepared) -> Iterator[Row]:
    for table in made.gathered.tables:
        way = table.encoding if not table.separator else f"{table.encoding}, {table.separator!r}"
        yield str(table.path), f"{len(table)} rows ({way})", ", ".join(table.columns)


def _node_rows(made: Prepared) -> Iterator[Row]:
    found, schema = made.gathered, made.schema
    counts = Counter(made.labels.tolist())
    yield "nodes", str(len(found.ids)), "numbered from 0 in order of appearance; ids.csv leads back"
    for number, name in enumerate(schema.classes):
        share = counts[number] / max(1, len(made.labels) - counts[UNLABELLED])
        note = f"class {number}, {share:.1%} of those with a label"
        yield f"label {shortened(name)}", str(counts[number]), note
    if counts[UNLABELLED]:
        note = "stay in the graph, outside training, validation and test"
        yield "without a label", str(counts[UNLABELLED]), note
    for number, name in enumerate(schema.clients):
        held = sum(name in names for names in found.holders)
        yield f"client {shortened(name)}", f"{held} nodes", f"client {number} of `partition: given`"
    if found.shared:
        note = "one node, with all its holders: what one knows of it, they all know"
        yield "shared by several clients", str(found.shared), note
    parts = Counter(part for part in found.splits if part is not None)
    if parts:
        sizes = ", ".join(f"{name} {parts[name]}" for name in ("train", "val", "test"))
        yield "split", sizes, "`data.split.kind: public`"
    else:
        yield "split", "none", "`data.split.kind: shares`, random or folds"


def _column_rows(made: Prepared) -> Iterator[Row]:
    found = made.gathered
    for column in made.schema.columns:
        values = found.columns.get(column.name, [])
        gone = sum(value is None for value in values)
        width = len(column.features)
        held = f"{column.kind}, {gone} missing" if gone else column.kind
        if column.kind == "number":
            done = f"(x - {column.mean:g}) / {column.scale:g}"
        else:
            done = f"one-hot of {len(column.values)}" + (", others together" * column.other)
        done += "; missing is a feature of its own" if column.missing else ""
        note = f"{done}: {width} feature{'s' * (width != 1)}"
        if len(column.values) == len([v for v in values if v]) > 20:
            note += "; every value once: perhaps an id (tables.yaml: `ignore`)"
        yield f"column {shortened(column.name)}", held, note


def _edge_rows(made: Prepared) -> Iterator[Row]:
    found = made.gathered
    yield "edges", str(len(made.edges)), "undirected, each once"
    counts = (
        ("edges listed again, or backwards", made.repeated, "one edge"),
        ("edges from a node to itself", made.self_loops, "left out"),
        ("edges filtered by `where`", found.filtered, "left out"),
        ("edges to unknown nodes", found.unknown_ends, "left out"),
        ("edges between clients", made.between, "held by nobody: no client has both ends"),
    )
    for what, count, done in counts:
        if count:
            yield what, str(count), done
    for name, values in found.edge_columns.items():
        yield (
            f"edge column {shortened(name)}",
            _kind(values),
            "for `where`; no feature, see the docs",
        )


def _kind(values: Sequence[str | None]) -> str:
    there = [value for value in values if value is not None]
    gone = f", {len(values) - len(there)} missing" if len(there) < len(values) else ""
    if as_numbers(there) is not None:
        return f"number{gone}"
    return f"{len(set(there))} values{gone}"
