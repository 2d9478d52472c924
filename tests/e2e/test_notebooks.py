"""The notebooks' cells run from top to bottom, and what they show is there."""

from __future__ import annotations

import ast
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted(Path("examples/notebooks").resolve().glob("*.ipynb"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    tree = json.loads(path.read_text())
    return [cell for cell in tree["cells"] if cell["cell_type"] == "code"]


def cells(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in code_cells(path)]


def stored_tables(path: Path) -> list[list[str]]:
    """The cells of every table that the notebook stores, in order."""
    stored = [output for cell in code_cells(path) for output in cell["outputs"]]
    html = ["".join(output.get("data", {}).get("text/html", "")) for output in stored]
    return [table_cells(text) for text in html if text]


def table_cells(html: str) -> list[str]:
    return re.findall(r"<td><(?:b|span)[^>]*>([^<]*)</", html)


def executed(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """The names that the cells leave, and what each cell would show, as a kernel does it: a file
    of all cells in the working folder, in which what a cell ends with is kept."""
    lines = ["shown = []"]
    for source in cells(path):
        *before, last = ast.parse(source).body
        if isinstance(last, ast.Expr):
            shown = ast.unparse(last.value)
            last = ast.parse(f"shown.append({shown})").body[0]
        lines += [ast.unparse(one) for one in (*before, last)]
    Path("cells.py").write_text("\n".join(lines) + "\n")
    names = runpy.run_path("cells.py", run_name="__main__")
    return names, [one for one in names["shown"] if one is not None]


def test_there_are_four() -> None:
    assert [path.name[0] for path in NOTEBOOKS] == ["1", "2", "3", "4"]


def test_a_run_is_attacked_and_noise_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names, shown = executed(NOTEBOOKS[0])
    verdicts = {f.attack: str(f.verdict) for f in names["audit"].findings}
    assert verdicts["whitened_links"] == "LEAK"
    quiet = {f.attack: str(f.verdict) for f in names["quiet"].findings}
    assert quiet["whitened_links"] != "LEAK"
    assert all("<table" in one._repr_html_() for one in shown)
    today = [table_cells(names[name]._repr_html_()) for name in ("audit", "quiet")]
    assert all(today)
    assert [table for table in stored_tables(NOTEBOOKS[0]) if table] == today


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_stores_its_outputs_and_no_machine_path(path: Path) -> None:
    text = path.read_text()
    for cell in code_cells(path):
        last = ast.parse("".join(cell["source"])).body[-1]
        assert bool(cell["outputs"]) or not isinstance(last, ast.Expr), cell["source"]
        assert all(output.get("name") != "stderr" for output in cell["outputs"])
    assert not re.search(r"/(home|work|tmp|root|usr)/", text)


def test_notebooks_of_runs_store_plots() -> None:
    for path in (*NOTEBOOKS[:2], NOTEBOOKS[3]):
        assert "<svg" in path.read_text()


def test_a_graph_and_a_network_of_ones_own_train_under_masks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names, shown = executed(NOTEBOOKS[1])
    assert names["run"].summary.masked
    assert len(capsys.readouterr().out.splitlines()) >= 4
    assert set(shown[-1]["verdict"]) <= {"NOT_DETECTED", "INCONCLUSIVE"}
    assert "NOT_DETECTED" in set(shown[-1]["verdict"])


@pytest.mark.slow
def test_messy_tables_of_four_banks_are_trained_on_in_three_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names, shown = executed(NOTEBOOKS[3])
    assert 'decimal: ","' in Path("banks/tables.yaml").read_text()
    assert names["runs"]["private"].summary.epsilon["node"].epsilon <= 4
    assert names["runs"]["private"].summary.masked
    assert all(len(run.summary.alerts) == 4 for run in names["runs"].values())
    assert "NOT_DETECTED" in set(shown[-1]["verdict"])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_a_kernel(path: Path, tmp_path: Path) -> None:
    import nbclient
    import nbformat

    read = nbformat.read(path, as_version=4)
    nbformat.validate(read)
    done = nbclient.NotebookClient(
        read, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert done.cells[-1].outputs
