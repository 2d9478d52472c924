"""Tables with ids replaced by keyed pseudonyms, and a line that books what they tell."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from pathlib import Path

from securefg.data.pseudonyms import TELLS, pseudonym
from securefg.data.tabular.gather import organisations
from securefg.data.tabular.text import TextTable, find_table, read_text_table
from securefg.foundation.errors import DataError
from securefg.settings.tables import FILE, TableSettings

BOOKS = "pseudonyms.jsonl"


def write_pseudonymised(folder: Path, out: Path, key: bytes, settings: TableSettings) -> int:
    """The number of ids replaced; `out` is there whole or not at all."""
    if out.exists():
        raise DataError(f"{out} exists; wanted a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary, count = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent)), 0
    try:
        for name, path in organisations(folder, settings):
            target = temporary / name
            target.mkdir(exist_ok=True)
            nodes = read_text_table(find_table(path, settings.nodes), settings)
            edges = read_text_table(find_table(path, settings.edges), settings)
            count += _write(nodes, target, [settings.id or next(iter(nodes.columns))], key)
            names = [*edges.columns, "", ""]
            ends = [settings.source or names[0], settings.target or names[1]]
            _write(edges, target, ends, key)
        if (folder / FILE).is_file():
            shutil.copy(folder / FILE, temporary / FILE)
        booked = {"released": "pseudonyms of ids", "rows": count, "epsilon": None, "tells": TELLS}
        (temporary / BOOKS).write_text(json.dumps(booked) + "\n")
        temporary.rename(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return count


def _write(table: TextTable, folder: Path, columns: list[str], key: bytes) -> int:
    if table.faults:
        raise DataError(str(table.faults[0]))
    replaced = {name: _named(table.column(name), key) for name in columns}
    shown = {**table.columns, **replaced}
    with (folder / f"{table.path.stem}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=table.separator or ",", lineterminator="\n")
        writer.writerow(shown)
        writer.writerows(
            zip(*([v or "" for v in column] for column in shown.values()), strict=True)
        )
    return len(table)


def _named(ids: list[str | None], key: bytes) -> list[str | None]:
    return [None if identity is None else pseudonym(key, identity) for identity in ids]
