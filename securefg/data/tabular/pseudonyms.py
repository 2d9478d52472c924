"""Keyed pseudonyms: organisations name shared customers alike without saying who they are.

A pseudonym is HMAC-SHA256 of the id under a key that the organisations share and the server does
not have, cut to 128 bits. What it hides: ids, from whoever lacks the key, even if every possible id
can be listed. What it tells whoever gets two lists: how many ids and which rows they share, and,
under one key, that a person of today is a person of yesterday. Whoever has the key can test any id.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import json
import secrets
import shutil
import tempfile
import unicodedata
from pathlib import Path

from securefg.data.tabular.drafting import apply_fixes, write_settings
from securefg.data.tabular.faults import Fix
from securefg.data.tabular.gather import list_organisations
from securefg.data.tabular.identities import plain_id
from securefg.data.tabular.text_table import TextTable, find_table, read_text_table
from securefg.foundation.errors import DataError
from securefg.foundation.files import PRIVATE, PRIVATE_FOLDER
from securefg.settings.tables import FILE, TableSettings

KEY_BYTES = 32
TELLS = (
    "how many customers any two organisations share, and which rows are theirs",
    "that two tables made under one key speak of the same person",
    "to whoever holds the key: whether any given id is in a table",
    "every column but the ids, as it is; columns under `ignore` are left out",
)
"""What pseudonyms tell whoever gets the tables; `securefg data pseudonymise` says and stores it."""


def new_key(path: Path) -> None:
    """A new key, readable by its owner alone; an existing file is never replaced."""
    try:
        with path.open("x") as file:
            path.chmod(0o600)
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
    except FileExistsError:
        raise DataError(f"{path} exists; a key is not replaced") from None


def read_key(path: Path) -> bytes:
    """Read a key of `new_key`. Raise `DataError` for any other file."""
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: no key can be read; wanted {KEY_BYTES} bytes in hex") from error
    if len(key) != KEY_BYTES:
        raise DataError(f"{path}: found a key of {len(key)} bytes; wanted {KEY_BYTES}")
    return key


def pseudonym(key: bytes, identity: str) -> str:
    """The same for every spelling that Unicode holds equal. Outer blanks and invisible characters
    do not count, as in tables."""
    if len(key) != KEY_BYTES:
        raise DataError(f"found a key of {len(key)} bytes; wanted {KEY_BYTES}")
    text = unicodedata.normalize("NFKC", plain_id(identity)).strip()
    return hmac.new(key, b"securefg pseudonym\0" + text.encode(), hashlib.sha256).hexdigest()[:32]


BOOKS = "pseudonyms.jsonl"


def write_pseudonymised(folder: Path, out: Path, key: bytes, settings: TableSettings) -> int:
    """The number of ids replaced; `out` is there whole or not at all."""
    if out.exists():
        raise DataError(f"{out} exists; wanted a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary, count = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent)), 0
    left_out: set[str] = set()
    try:
        for name, path in list_organisations(folder, settings):
            target = temporary / name
            target.mkdir(exist_ok=True)
            nodes = read_text_table(find_table(path, settings.nodes), settings)
            edges = read_text_table(find_table(path, settings.edges), settings)
            id_column = settings.id or next(iter(nodes.columns))
            kept = {id_column, *([settings.split_by.column] if settings.split_by else [])}
            names = [*edges.columns, "", ""]
            ends = [settings.source or names[0], settings.target or names[1]]
            used = {*ends, *settings.where, *_transfer_columns(settings)}
            left_out |= _leave_out(nodes, settings, kept) | _leave_out(edges, settings, used)
            count += _write_table(nodes, target, [id_column], key)
            _write_table(edges, target, ends, key)
        left = Fix(settings={"encoding": None}, gone=tuple(sorted(left_out)))
        write_settings(apply_fixes(settings, [left]), temporary / FILE)
        booked = {"released": "pseudonyms of ids", "rows": count, "epsilon": None, "tells": TELLS}
        (temporary / BOOKS).write_text(json.dumps(booked) + "\n")
        for path in temporary.rglob("*"):
            path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE)
        temporary.rename(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return count


def _leave_out(table: TextTable, settings: TableSettings, kept: set[str]) -> set[str]:
    """Leave out the columns under `ignore` and return their names."""
    names = (set(settings.ignore) & set(table.columns)) - kept
    for name in names:
        del table.columns[name]
    return names


def _transfer_columns(settings: TableSettings) -> tuple[str, ...]:
    return settings.transfers.columns if settings.transfers else ()


def _write_table(table: TextTable, folder: Path, columns: list[str], key: bytes) -> int:
    if table.faults:
        raise DataError(str(table.faults[0]))
    replaced = {name: _name_ids(table.column(name), key) for name in columns}
    shown = {**table.columns, **replaced}
    with (folder / f"{table.path.stem}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=table.separator or ",", lineterminator="\n")
        writer.writerow(shown)
        writer.writerows(
            zip(*([v or "" for v in column] for column in shown.values()), strict=True)
        )
    return len(table)


def _name_ids(ids: list[str | None], key: bytes) -> list[str | None]:
    return [None if identity is None else pseudonym(key, identity) for identity in ids]
