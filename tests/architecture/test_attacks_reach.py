"""No attack can reach the truth: attacks read no files and import nothing that does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ATTACKS = sorted(Path("attacks").rglob("*.py"))
ALLOWED = {
    "securefg.protocol.codec",
    "securefg.protocol.meanings",
    "securefg.protocol.secrets",  # names of what attacks are about, and no data
    "securefg.settings.execution",
    "securefg.data.graph",
    "securefg.data.shard",
    "securefg.foundation.errors",
    "securefg.foundation.ranks",
    "securefg.federation.roles",
    "securefg.secagg.exposure",
    "securefg.foundation.streams",
    "securefg.protocol.transcript",
}
READS = {"open", "read_text", "read_bytes", "load", "loadtxt", "fromfile", "memmap", "safe_open"}
READS |= {"genfromtxt", "fromregex", "from_file", "load_npz", "loadmat", "load_file"}
FINDS = {"eval", "exec", "compile", "__import__", "import_module", "__builtins__", "__globals__"}
LIBRARIES = {"numpy", "scipy", "torch", "sklearn", "securefg", "attacks"}
STANDARD = {
    "__future__",
    "collections",
    "dataclasses",
    "functools",
    "itertools",
    "math",
    "typing",
}
"""What an attack may import: an allowed list, since no list of what reads files is complete."""


def imports(tree: ast.AST) -> set[str]:
    imported_modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported_modules |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            imported_modules.add(node.module)
    return imported_modules


def reaches(tree: ast.AST) -> set[str]:
    """What lets code see more than it was given: modules with data, and calls that read files."""
    own_imports = {name for name in imports(tree) if name.partition(".")[0] == "securefg"}
    models = {name for name in own_imports if name.startswith("securefg.models.")}
    names = {
        getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
    }
    named = {
        part.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "getattr"
        for part in node.args[1:2]
        if isinstance(part, ast.Constant)
    }
    files = {name for name in imports(tree) if name.partition(".")[0] not in LIBRARIES | STANDARD}
    return (own_imports - models - ALLOWED) | files | ((names | named) & (READS | FINDS))


def test_attacks_read_nothing_but_their_view() -> None:
    found = {str(path): reaches(ast.parse(path.read_text())) for path in ATTACKS}
    finder = {"securefg.foundation.extensions", "importlib", "pkgutil", "import_module"}
    assert len(found) > 20
    assert {path: names for path, names in found.items() if names} == {
        "attacks/__init__.py": finder
    }


def test_the_fence_sees_an_attack_that_reads_the_private_folder() -> None:
    bad = "from pathlib import Path\nfrom securefg.runs.folder import RunFolder\nopen('private/x')"
    assert reaches(ast.parse(bad)) == {"pathlib", "securefg.runs.folder", "open"}


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("import subprocess", "subprocess"),
        ("from builtins import open as look", "open"),
        ("look = open", "open"),
        ("import numpy as np\nlook = np.load", "load"),
        ("import numpy as np\ngetattr(np, 'load')('private/x')", "load"),
        ("import numpy as np\nnp.genfromtxt('private/x')", "genfromtxt"),
        ("__import__('os')", "__import__"),
        ("eval('op' + 'en')", "eval"),
        ("import audits.truth", "audits.truth"),
    ],
)
def test_the_fence_sees_other_ways_to_a_file(source: str, seen: str) -> None:
    assert seen in reaches(ast.parse(source))
