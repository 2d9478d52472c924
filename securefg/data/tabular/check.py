"""What was found in tables and what would be done about it, in words: `securefg data check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from securefg.data.tabular.prepare import UNLABELLED, Prepared
from securefg.data.tabular.schema import as_numbers
from securefg.foundation.quoting import shortened

Row = tuple[str, str, str]


def described(made: Prepared) -> list[Row]:
    """(what, what was found, what is done) line by line."""
    return [*_files(made), *_nodes(made), *_columns(made), *_edges(made)]


def _files(made: Prepared) -> Iterator[Row]:
    for table in made.gathered.tables:
        way = table.encoding if not table.separator else f"{table.encoding}, {table.separator!r}"
        yield str(table.path), f"{len(table)} rows ({way})", ", ".join(table.columns)


def _nodes(made: Prepared) -> Iterator[Row]:
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


def _columns(made: Prepared) -> Iterator[Row]:
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


def _edges(made: Prepared) -> Iterator[Row]:
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
