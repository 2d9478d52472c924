"""`securefg reproduce` from the command line, on an entry that takes a second."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from papers import catalogue
from papers.drawings import over_columns, over_rounds, over_seeds, partitions
from papers.embeddings import scatters, silhouette
from papers.entry import SCORE, Cell, Entry, Source
from papers.readers import client_accuracy, global_accuracy, uplink_mebibytes
from securefg.cli import main as cli
from securefg.sweep import pool
from tests.forks import fork_worker
from tests.small import tree


def entry(*more: Cell) -> Entry:
    plain = Source("tiny.yaml", ("method.pseudo_graph=false",))
    cells = (
        Cell("Tiny FedGL", "accuracy", (Source("tiny.yaml"),), global_accuracy, 50.0, 50.0),
        Cell("Tiny FedGL", "uplink", (Source("tiny.yaml"),), uplink_mebibytes),
        Cell("Tiny FedGL", "silhouette", (plain,), silhouette, unit=SCORE),
        Cell("Tiny FedGL", "first client", (plain,), client_accuracy(0), 0.0),
        *more,
    )
    curves = over_rounds("test_accuracy", "accuracy", "Over the rounds.")
    lines = over_columns("metric", "All of them.")
    draw = (curves, lines, over_seeds("Seeds", "All of them."), scatters, partitions)
    return Entry("tiny", "Tiny", "Nobody.", cells, 3, ("training.rounds=2",), draw=draw)


@pytest.fixture(autouse=True)
def _checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "tiny.yaml").write_text(yaml.safe_dump(tree(tmp_path / "unused")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "launch", fork_worker)
    monkeypatch.setattr(catalogue, "ENTRIES", (entry(),))


def securefg(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["securefg", "reproduce", *arguments])
    try:
        cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_a_table_is_run_written_and_not_run_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert securefg(monkeypatch, "tiny", "--seeds", "2", "--docs", "docs.md") == 0
    tables = tmp_path / "runs" / "reproduce" / "tables" / "tiny"
    text = (tables / "table.md").read_text()
    assert "within the paper's interval" in text
    assert "above" in text
    assert (tables / "table.csv").read_text().count("\n") == 5
    html = (tables / "index.html").read_text()
    assert html.count("<svg viewBox") >= 5
    assert text.partition("\n\n")[2] in (tmp_path / "docs.md").read_text()
    assert len(list((tmp_path / "runs" / "reproduce").glob("tiny-s*"))) == 4
    capsys.readouterr()
    assert securefg(monkeypatch, "tiny", "--seeds", "2") == 0
    assert "4 of 4 done (4 cached)" in capsys.readouterr().out


def test_a_quick_table_is_marked_and_judges_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert securefg(monkeypatch, "tiny", "--quick", "--out", "out", "--root", "r") == 0
    printed = capsys.readouterr().out
    assert re.search(r"^\S.* \d+\.\d", printed, re.MULTILINE), printed
    assert "not the paper's setting" in printed
    text = (tmp_path / "out" / "tiny-quick" / "table.md").read_text()
    assert "**Quick**" in text
    assert "the paper's interval" not in text
    assert "above" not in text
    assert securefg(monkeypatch, "tiny", "--quick", "--docs", "docs.md") == 2


def test_a_failed_point_is_told_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Source("tiny.yaml", ("partition.shares=[0.0001]",))
    monkeypatch.setattr(
        catalogue, "ENTRIES", (entry(Cell("Bad", "accuracy", (bad,), global_accuracy, 50.0)),)
    )
    assert securefg(monkeypatch, "tiny", "--seeds", "1") == 1
    told = capsys.readouterr().err
    assert "failed: tiny: Bad / accuracy, seed 0: partition.shares" in told
    text = (tmp_path / "runs" / "reproduce" / "tables" / "tiny" / "table.md").read_text()
    assert "| Bad | missing (50.0) |" in text
    assert "- tiny: Bad / accuracy, seed 0: partition.shares" in text


def test_an_entry_that_cannot_be_written_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = Cell("Tiny", "accuracy", (Source("tiny.yaml"),), client_accuracy(99))
    good = Cell("Tiny", "accuracy", (Source("tiny.yaml"),), global_accuracy)
    entries = [Entry(n, n, "", (c,), 1, ()) for n, c in (("bad", nobody), ("good", good))]
    monkeypatch.setattr(catalogue, "ENTRIES", tuple(entries))
    assert securefg(monkeypatch, "all") == 1
    assert "local_test_accuracy.by_client.99: found None" in capsys.readouterr().err
    tables = tmp_path / "runs" / "reproduce" / "tables"
    assert [path.name for path in tables.iterdir()] == ["good"]


@pytest.mark.parametrize(
    ("arguments", "message_text"),
    [
        (["nothing"], "entry: found 'nothing'"),
        (["tiny", "--rows", "Big"], "--rows: found Big"),
        (["tiny", "--set", "method.nothing=1"], "method.nothing: found an unknown key"),
        (["tiny", "--set", "data={name: acm}"], "dataset 'acm'"),
    ],
)
def test_bad_input_is_told_in_a_line_before_anything_runs(
    arguments: list[str],
    message_text: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SECUREFG_DATA", str(tmp_path))
    assert securefg(monkeypatch, *arguments) == 2
    told = capsys.readouterr().err
    assert message_text in told
    assert "Traceback" not in told
    assert not (tmp_path / "runs").exists()


def test_a_missing_config_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "configs" / "tiny.yaml").unlink()
    assert securefg(monkeypatch, "tiny") == 2
    assert "configs/tiny.yaml: not found" in capsys.readouterr().err


def test_the_installed_command_finds_the_papers_of_its_checkout(tmp_path: Path) -> None:
    """Also beside another package of that name, which comes first where Python is asked for a
    module."""
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "__init__.py").write_text("raise SystemExit('somebody else')")
    command = [sys.executable, "-m", "securefg", "reproduce", "list"]
    listed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert listed.returncode == 0, listed.stderr
    assert "fedgl-table2" in listed.stdout
