"""Pseudonyms: alike where ids are, nothing without the key, and said and booked what they tell."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.data.tabular.prepare import prepared
from securefg.data.tabular.pseudonyms import (
    TELLS,
    new_key,
    pseudonym,
    read_key,
    write_pseudonymised,
)
from securefg.foundation.errors import DataError
from securefg.settings.tables import TableSettings, table_settings

KEY = bytes(range(32))


def test_a_pseudonym_is_the_known_hmac() -> None:
    # printf 'securefg pseudonym\\0AT-1' | openssl dgst -sha256 -mac HMAC -macopt hexkey:000102...1f
    assert pseudonym(KEY, "AT-1") == "ee953f9e90d541395bc3fd8f5e83bbc8"


def test_equal_ids_meet_and_other_keys_or_ids_do_not() -> None:
    assert pseudonym(KEY, "  caf\u00e9 ") == pseudonym(KEY, "cafe\u0301")
    assert pseudonym(KEY, "a") != pseudonym(KEY, "b")
    assert pseudonym(KEY, "a") != pseudonym(bytes(32), "a")


def test_a_key_is_private_and_never_replaced(tmp_path: Path) -> None:
    new_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    assert len(read_key(tmp_path / "key")) == 32
    with pytest.raises(DataError, match="not replaced"):
        new_key(tmp_path / "key")
    (tmp_path / "short").write_text("00ff")
    with pytest.raises(DataError, match="2 bytes"):
        read_key(tmp_path / "short")


def test_banks_are_aligned_by_pseudonyms_alone(tmp_path: Path) -> None:
    banks = tmp_path / "banks"
    for name, nodes, edges in (
        ("north", "id,age,label\nann,30,0\nsam,40,1\n", "a,b,amount\nann,sam,5\n"),
        ("south", "id,age,label\nbob,50,0\nsam,40,1\n", "a,b,amount\nbob,sam,7\n"),
    ):
        (banks / name).mkdir(parents=True)
        (banks / name / "nodes.csv").write_text(nodes)
        (banks / name / "edges.csv").write_text(edges)
    runner = CliRunner()
    key, out = str(tmp_path / "key"), tmp_path / "out"
    assert runner.invoke(app, ["data", "new-key", key]).exit_code == 0
    done = runner.invoke(app, ["data", "pseudonymise", str(banks), str(out), "--key", key])
    assert done.exit_code == 0, done.output
    assert all(line in done.output for line in TELLS)
    booked = json.loads((out / "pseudonyms.jsonl").read_text())
    assert booked["epsilon"] is None
    assert booked["rows"] == 4
    text = "".join(path.read_text() for path in out.rglob("*.csv"))
    assert not any(name in text for name in ("ann", "sam", "bob"))
    plain, hidden = (prepared(f, table_settings(f)) for f in (banks, out))
    assert hidden.gathered.shared == plain.gathered.shared == 1
    assert hidden.edges.tolist() == plain.edges.tolist()


def test_pseudonymised_files_are_their_owners_alone(tmp_path: Path) -> None:
    """Files that others can read become readable as soon as somebody opens the folder."""
    banks = tmp_path / "banks"
    for name in ("north", "south"):
        (banks / name).mkdir(parents=True)
        (banks / name / "nodes.csv").write_text("id,mail,age,label\nann,a@b.c,30,0\nsam,,40,1\n")
        (banks / name / "edges.csv").write_text("a,b,memo\nann,sam,for ann\n")
    (banks / "tables.yaml").write_text("ignore: [mail, memo]\nencoding: cp1252\n")
    before = os.umask(0)
    try:
        write_pseudonymised(banks, tmp_path / "out", bytes(32), table_settings(banks))
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert len(modes) == 8
    text = "".join(path.read_text() for path in modes if path.is_file())
    assert "ann" not in text
    assert "a@b.c" not in text
    assert table_settings(tmp_path / "out") == TableSettings()
