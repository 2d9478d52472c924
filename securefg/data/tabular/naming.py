"""Names in tables.yaml that tables do not have, and files and columns that may be meant."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from securefg.data.tabular.column_look import yaml_name
from securefg.data.tabular.faults import Fault, Fix, Unreadable
from securefg.data.tabular.text_table import ENDINGS, TextTable, read_text_table
from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shown
from securefg.foundation.suggestions import list_names, suggest_name
from securefg.settings.tables import TableSettings

LABELS: tuple[str, ...] = (
    "label",
    "labels",
    "fraud",
    "is_fraud",
    "isfraud",
    "fraudulent",
    "target",
    "class",
    "y",
)
LABELS += ("betrug", "betrugsfall", "verdacht", "suspicious", "sar", "is_sar", "laundering")
LABELS += ("is_laundering", "diagnosis", "diagnose", "outcome", "klasse")
"""Names that columns of labels often have, in lower case."""
PACKED = (".xlsx", ".xls", ".ods", ".gz", ".zip", ".xz", ".bz2", ".json", ".sqlite", ".db")
MOST_CLASSES = 10
LOOKED_AT = 2000


def missing_files(folders: Sequence[Path], settings: TableSettings) -> list[Fault]:
    """Return a fault if a table is not in every folder, with the names of files that fit."""
    stems = [{path.stem for path in folder.iterdir() if _is_table(path)} for folder in folders]
    wanted = {settings.nodes, settings.edges}
    absent = [(f, s) for f, s in zip(folders, stems, strict=True) if not wanted <= s]
    if not absent:
        return []
    folder, there = absent[0]
    found_text = f"{shown(', '.join(sorted(there)) or 'no table', 90)}"
    found_text += f", and no {' and no '.join(sorted(wanted - there))} (.csv, .tsv, .txt, .parquet)"
    meant = _guess_files(folders[0], sorted(set.intersection(*stems)), settings)
    if meant is None:
        packed = [path.name for path in folder.iterdir() if path.suffix in PACKED]
        found_text += f", but {shown(', '.join(sorted(packed)), 60)}" if packed else ""
        wanted_text = "text tables (.csv) of " if packed else ""
        wanted_text += "these names in every organisation's folder, or in tables.yaml the names "
        wanted_text += "that all folders have: `nodes: accounts`, `edges: transfers`"
        return [Fault(folder, 0, found_text, wanted_text)]
    advice = f"in tables.yaml `nodes: {meant[0]}` and `edges: {meant[1]}`"
    return [Fault(folder, 0, found_text, advice, Fix({"nodes": meant[0], "edges": meant[1]}))]


def _is_table(path: Path) -> bool:
    return path.is_file() and path.suffix in ENDINGS


def _guess_files(
    folder: Path, stems: Sequence[str], settings: TableSettings
) -> tuple[str, str] | None:
    """Return the two tables of which one has two columns of the other one's ids."""
    tables = {stem: table for stem in stems if (table := _peek(folder, stem, settings))}
    best: tuple[float, tuple[str, str] | None] = (0.5, None)
    for nodes, edges in itertools.permutations(tables, 2):
        shares = sorted(
            (_share_of_ids(values, tables[nodes]) for values in tables[edges].columns.values()),
            reverse=True,
        )
        if len(shares) > 1 and shares[1] > best[0]:
            best = (shares[1], (nodes, edges))
    return best[1]


def _peek(folder: Path, stem: str, settings: TableSettings) -> TextTable | None:
    """Return a table in whatever western encoding it is, or None if it cannot be read."""
    paths = [path for ending in ENDINGS if (path := folder / f"{stem}{ending}").is_file()]
    for encoding in (settings.encoding, "latin-1"):
        try:
            return read_text_table(paths[0], settings.model_copy(update={"encoding": encoding}))
        except DataError:
            continue
    return None


def _share_of_ids(values: Sequence[str | None], nodes: TextTable) -> float:
    """Return the share of values that are in the column of the nodes' table that has most."""
    looked_at = {value for value in values[:LOOKED_AT] if value is not None}
    shares = [
        len(looked_at.intersection(filter(None, column))) / max(1, len(looked_at))
        for column in nodes.columns.values()
        if len(set(column)) == len(column)
    ]
    return max(shares, default=0.0)


def unknown_names(
    nodes: Sequence[TextTable], edges: Sequence[TextTable], settings: TableSettings
) -> list[Fault]:
    """Return a fault for every name in tables.yaml that no table has. Raise `Unreadable` if it is
    the name of a column without which no table can be read."""
    nodes_names = list(dict.fromkeys(name for table in nodes for name in table.columns))
    edges_names = list(dict.fromkeys(name for table in edges for name in table.columns))
    needed = [
        *_scalar_faults(nodes, nodes_names, {"id": settings.id}),
        *_scalar_faults(edges, edges_names, {"source": settings.source, "target": settings.target}),
        *_listed_faults(edges, edges_names, {"where": list(settings.where)}),
        *_inner_faults(nodes, nodes_names, edges, edges_names, settings),
    ]
    keys = [key for key in ("label", "split", "client") if key in settings.model_fields_set]
    held: dict[str, str | None] = {
        key: getattr(settings, key)
        for key in keys
        if key == "label" or _nearest(getattr(settings, key), nodes_names)
    }
    listed = {
        key: list(getattr(settings, key))
        for key in ("categorical", "date", "bins", "range", "values", "gaps", "from_edges")
    }
    optional = [
        *_scalar_faults(nodes, nodes_names, held),
        *_listed_faults(nodes, nodes_names, listed),
        *_listed_faults(nodes, [*nodes_names, *edges_names], {"ignore": list(settings.ignore)}),
    ]
    if needed:
        raise Unreadable([*needed, *optional])
    return optional


def _scalar_faults(
    tables: Sequence[TextTable], known: list[str], given: Mapping[str, str | None]
) -> Iterator[Fault]:
    for key, name in given.items():
        if name is None or name in known:
            continue
        near = _nearest(name, known) or (_guess_label(known) if key == "label" else None)
        advice = f"in tables.yaml `{key}: {near}`" if near else "a column that is there"
        wanted = f"{advice}, one of {list_names(known)}"
        fix = Fix({key: near})
        yield Fault(tables[0].path, 1, f"no column {name!r} (tables.yaml: `{key}`)", wanted, fix)


def _listed_faults(
    tables: Sequence[TextTable], known: list[str], given: Mapping[str, list[str]]
) -> Iterator[Fault]:
    for key, names in given.items():
        for name in names:
            if name not in known:
                wanted = f"one of {list_names(known)}"
                hint = suggest_name(name, known)
                yield Fault(
                    tables[0].path,
                    1,
                    f"no column {name!r} (tables.yaml: `{key}`)",
                    f"{wanted}; {hint}" if hint else wanted,
                    Fix(gone=(name,)),
                )


def _inner_faults(
    nodes: Sequence[TextTable],
    nodes_names: list[str],
    edges: Sequence[TextTable],
    edges_names: list[str],
    settings: TableSettings,
) -> Iterator[Fault]:
    if settings.split_by is not None:
        given = {"split_by": [settings.split_by.column]}
        yield from _listed_faults(nodes, nodes_names, given)
    if settings.transfers is not None:
        given = {"transfers": list(settings.transfers.columns)}
        yield from _listed_faults(edges, edges_names, given)


def _nearest(name: str, known: list[str]) -> str | None:
    hint = suggest_name(name, known)
    return hint.removeprefix("did you mean ").removesuffix("?") or None


def _guess_label(known: Sequence[str]) -> str | None:
    return next((name for name in known if name.casefold() in LABELS), None)


def meant_columns(
    nodes: Sequence[TextTable], edges: Sequence[TextTable], settings: TableSettings
) -> Iterator[Fault]:
    """Yield a fault if most ends are no ids, and other columns fit better."""
    table = edges[0]
    if len(table.columns) < 2 or not len(table):
        return
    first, second, *_ = table.columns
    used = (settings.source or first, settings.target or second)
    id_column = settings.id or next(iter(nodes[0].columns))
    if min(_shares_in(nodes, id_column, table)[name] for name in used) > 0.5:
        return
    best: tuple[float, tuple[str, str, str] | None] = (0.5, None)
    for name, values in nodes[0].columns.items():
        shares = _shares_in(nodes, name, table) if len(set(values)) == len(values) else {}
        ends = [column for column, share in shares.items() if share > 0.5][:2]
        if len(ends) == 2 and (least := min(map(shares.__getitem__, ends))) > best[0]:
            best = (least, (name, ends[0], ends[1]))
    if best[1] is None:
        return
    pairs = zip(("id", "source", "target"), best[1], (id_column, *used), strict=True)
    meant = {key: name for key, name, before in pairs if name != before}
    listed = " and ".join(f"`{key}: {yaml_name(name)}`" for key, name in meant.items())
    found = f"no nodes' ids in columns {used[0]!r} and {used[1]!r}"
    wanted = f"ids of the node table: in tables.yaml {listed}"
    yield Fault(table.path, 1, found, wanted, Fix(meant))


def _shares_in(nodes: Sequence[TextTable], name: str, table: TextTable) -> dict[str, float]:
    """Return by column of a table the share of its values that are in a column of the nodes."""
    ids = {value for nodes_table in nodes for value in nodes_table.columns.get(name, ())} - {None}
    shares = {}
    for column, values in table.columns.items():
        looked_at = [value for value in values[:LOOKED_AT] if value is not None]
        shares[column] = sum(value in ids for value in looked_at) / max(1, len(looked_at))
    return shares


def absent_label(nodes: Sequence[TextTable], settings: TableSettings) -> Fault:
    """Return the fault of tables without any label, with columns that may be the label."""
    known = list(nodes[0].columns)
    meant = _guess_label([name for name in known if name != settings.label])
    wanted = f"a column {settings.label!r} with labels (tables.yaml: `label: {meant or 'fraud'}`"
    few = [
        name
        for name, values in list(nodes[0].columns.items())[1:]
        if 2 <= len(set(values) - {None}) <= MOST_CLASSES
    ]
    if few:
        wanted += f"; columns with a few values are {list_names(few)}"
    fix = Fix({"label": meant}) if meant else None
    return Fault(nodes[0].path, 1, "no label", f"{wanted})", fix)
