"""No attack can reach the truth: attacks read no files and import nothing that does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ATTACKS = sorted(Path("attacks").glob("*.py"))
ALLOWED = {
    "securefg.protocol.codec",
    "securefg.protocol.meanings",
    "securefg.settings.execution",
    "securefg.data.graph",
    "securefg.data.shard",
    "securefg.foundation.errors",
    "securefg.federation.roles",
    "securefg.secagg.exposure",
    "securefg.foundation.streams",
    "securefg.protocol.transcript",
}
READS = {"open", "read_text", "read_bytes", "load", "loadtxt", "fromfile", "memmap", "safe_open"}


def imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def reaches(tree: ast.AST) -> set[str]:
    """What lets code see more than it was given: modules with data, and calls that read files."""
    own = {name for name in imports(tree) if name.partition(".")[0] == "securefg"}
    models = {name for name in own if name.startswith("securefg.models.")}
    calls = {
        getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    files = {name for name in imports(tree) if name.partition(".")[0] in ("os", "pathlib", "io")}
    return (own - models - ALLOWED) | files | {call for call in calls if call in READS}


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.stem)
def test_an_attack_reads_nothing_but_its_view(path: Path) -> None:
    finder = {"securefg.foundation.extensions"} if path.name == "__init__.py" else set()
    assert reaches(ast.parse(path.read_text())) == finder


def test_the_fence_sees_an_attack_that_reads_the_private_folder() -> None:
    bad = "from pathlib import Path\nfrom securefg.run.folder import RunFolder\nopen('private/x')"
    assert reaches(ast.parse(bad)) == {"pathlib", "securefg.run.folder", "open"}
