"""Postponed modules are executed on first use, and others as ever."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from securefg.foundation.postponed_imports import execute_postponed, postpone_imports


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "postponed_sample"
    folder.mkdir()
    note = "import sys\nsys.executed_here = [*getattr(sys, 'executed_here', []), __name__]\n"
    (folder / "__init__.py").write_text(f"import {folder.name}.big\nimport {folder.name}.small\n")
    (folder / "big.py").write_text(f"{note}ANSWER = 42\n")
    (folder / "small.py").write_text(note)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "executed_here", [], raising=False)
    yield folder.name
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def test_postponed_module_is_executed_on_first_attribute(package: str) -> None:
    with postpone_imports(f"{package}.big"):
        found = importlib.import_module(package)
    assert sys.executed_here == [f"{package}.small"]
    assert found.big.ANSWER == 42
    assert sys.executed_here == [f"{package}.small", f"{package}.big"]


def test_imports_after_postponing_are_executed_at_once(package: str) -> None:
    before = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError), postpone_imports(f"{package}.big"):
        raise ZeroDivisionError
    assert sys.meta_path == before
    importlib.import_module(package)
    assert sys.executed_here == [f"{package}.big", f"{package}.small"]


def test_missing_module_postponed_is_still_missing() -> None:
    with postpone_imports("json.nothing_here"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("json.nothing_here")


def test_postponed_modules_are_executed_before_a_library_looks_at_all(package: str) -> None:
    with postpone_imports(f"{package}.big"):
        importlib.import_module(package)
    execute_postponed()
    assert sys.executed_here == [f"{package}.small", f"{package}.big"]


@pytest.mark.slow
def test_opacus_is_imported_after_a_graph_library_was_postponed() -> None:
    lines = (
        "from securefg.models.any_network import UNUSED_PARTS",
        "from securefg.foundation.postponed_imports import postpone_imports",
        "from securefg.privacy.defences.dp_sgd import watch_module",
        "import importlib, torch",
        "with postpone_imports(*UNUSED_PARTS):",
        "    importlib.import_module('torch_geometric.nn.models')",
        "watch_module(torch.nn.Linear(2, 2))",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)
