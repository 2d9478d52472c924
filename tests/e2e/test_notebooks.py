"""The notebooks' cells run from top to bottom, and what they show is there."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted(Path("examples/notebooks").resolve().glob("*.ipynb"))


def cells(path: Path) -> list[str]:
    tree = json.loads(path.read_text())
    assert all(not cell.get("outputs") for cell in tree["cells"]), "stored outputs grow stale"
    return ["".join(cell["source"]) for cell in tree["cells"] if cell["cell_type"] == "code"]


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


def test_there_are_three() -> None:
    assert [path.name[0] for path in NOTEBOOKS] == ["1", "2", "3"]


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
