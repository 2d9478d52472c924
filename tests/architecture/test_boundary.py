"""Server code names no client data, imports point one way, and nothing is pickled from outside."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

METHOD_FILES = sorted(
    path for path in Path("securefg/methods").rglob("*.py") if path.name != "__init__.py"
)
CLIENT_NAMES = {"Shard", "Site", "Graph", "shard", "shards", "graph", "features", "labels", "split"}
UNPICKLES = r"pickle\.loads?|(?<!safetensors\.)torch\.load\(|Unpickler|allow_pickle=True"
LAYERS: dict[str, set[str]] = {
    "securefg": set(),
    "attacks": {"securefg"},
    "audits": {"securefg", "attacks"},
}


def server_classes(path: Path) -> list[ast.ClassDef]:
    """Classes that derive from Server, in this file."""
    classes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ClassDef)]
    return [c for c in classes if any(getattr(b, "id", "") == "Server" for b in c.bases)]


def names_of_client_data(node: ast.AST) -> set[str]:
    found = set()
    for part in ast.walk(node):
        name = getattr(part, "id", None) or getattr(part, "attr", None)
        if isinstance(name, str) and name.lstrip("_") in CLIENT_NAMES:
            found.add(name)
    return found


@pytest.mark.parametrize("path", METHOD_FILES, ids=lambda path: path.stem)
def test_server_code_names_no_client_data(path: Path) -> None:
    servers = server_classes(path)
    assert servers, f"{path} has no class that derives from Server"
    for server in servers:
        assert names_of_client_data(server) == set()


def test_the_fence_sees_a_server_that_reaches_for_a_shard() -> None:
    bad = ast.parse("class S(Server):\n    def round(self, n): return self._shard.features")
    assert names_of_client_data(bad) == {"_shard", "features"}


@pytest.mark.parametrize("path", METHOD_FILES, ids=lambda path: path.stem)
def test_methods_keep_no_state_in_their_module(path: Path) -> None:
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp)
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            assert not isinstance(node.value, mutable), ast.unparse(node)


@pytest.mark.parametrize("package", LAYERS)
def test_imports_point_one_way(package: str) -> None:
    forbidden = set(LAYERS) - LAYERS[package] - {package}
    for path in Path(package).rglob("*.py"):
        if path.as_posix() in ("securefg/cli.py", "securefg/catalogue.py"):
            continue  # only the command line looks up
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            assert not {m.partition(".")[0] for m in modules} & forbidden, path


def test_nothing_unpickles_what_comes_from_outside() -> None:
    """Planetoid's files are pickles and go through a reader that admits arrays alone."""
    allowed = {Path("securefg/data/readers/pickles.py")}
    for path in Path("securefg").rglob("*.py"):
        if path not in allowed:
            assert not re.search(UNPICKLES, path.read_text()), path


def test_no_private_data_is_printed() -> None:
    """Library code does not print or log; only the command line speaks."""
    allowed = {"cli.py", "progress.py"}
    for path in Path("securefg").rglob("*.py"):
        if path.name in allowed:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert getattr(node.func, "id", "") != "print", path
