"""Rooms are layers: the page on rooms says who may import whom, and the code obeys."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PAGE = Path("docs/reference/rooms.md")
PACKAGES = ("securefg", "attacks", "audits", "papers")
ROW = re.compile(r"^\| `(\w+)` \|[^|]*\| ([\w, ]*) ?\|$", re.M)
BELOW_AUDITS = ("findings", "answer")
LOOKS_UP = "everything"
FRONT, RELATIVE = "api", "a relative import"
IMPORTERS = {"import_module", "__import__", "import_path", "find_spec"}


@cache
def table() -> dict[str, set[str]]:
    rows = {
        room: {n.strip() for n in may.split(",") if n.strip()}
        for room, may in ROW.findall(PAGE.read_text())
    }
    return {room: set(rows) - {room} if may == {LOOKS_UP} else may for room, may in rows.items()}


def room_of(module: str) -> str | None:
    """`attacks`, or the part of `securefg` that a module is in; None for other packages.

    What audits found (`audits.findings`) and the answer made of it (`audits.answer`) are rooms of
    their own, which pages may read.
    """
    first, _, rest = module.partition(".")
    if first == "securefg":
        return rest.partition(".")[0] or None
    for room in BELOW_AUDITS:
        if f"{module}.".startswith(f"audits.{room}."):
            return room
    if module == RELATIVE:
        return module
    return first if first in PACKAGES else None


def imported(tree: ast.AST) -> set[str]:
    imported_names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported_names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            imported_names.add(RELATIVE)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported_names |= {
                node.module,
                *(f"{node.module}.{alias.name}" for alias in node.names),
            }
        elif isinstance(node, ast.Attribute) and _root(node) == "securefg":
            imported_names.add(ast.unparse(node))  # securefg.runs.folder, after `import securefg`
        elif isinstance(node, ast.Call) and _called(node) in IMPORTERS:
            texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            imported_names |= {text for text in texts if isinstance(text, str)}
    return imported_names


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return getattr(node, "id", None)


def _called(node: ast.Call) -> str | None:
    return getattr(node.func, "id", None) or getattr(node.func, "attr", None)


def trespasses(room: str, source: str, rooms: dict[str, set[str]]) -> set[str]:
    """The rooms that this code imports and may not."""
    reached = {room_of(module) for module in imported(ast.parse(source))}
    fronts = set() if room == "cli" else {FRONT}
    reached &= {*rooms, RELATIVE, *fronts}
    return {other for other in reached if other and other != room} - rooms[room]


def files() -> list[Path]:
    return [path for package in PACKAGES for path in Path(package).rglob("*.py")]


def test_every_folder_is_a_room_of_the_table() -> None:
    folders = {path.parent.name for path in Path("securefg").glob("*/*.py")}
    assert folders | set(PACKAGES[1:]) | set(BELOW_AUDITS) == set(table())


def test_rooms_import_only_what_their_rows_allow() -> None:
    offenders = {}
    for path in files():
        module = ".".join(path.with_suffix("").parts)
        room = room_of(module.removesuffix(".__init__"))
        if room in table():
            offenders[str(path)] = trespasses(room, path.read_text(), table())
    assert len(offenders) > 300
    assert {path: rooms for path, rooms in offenders.items() if rooms} == {}


def test_site_package_without_nvflare_imports() -> None:
    """Another engine than NVIDIA FLARE can use a site's policy, books, gate and answers."""
    modules = [".".join(path.with_suffix("").parts) for path in Path("securefg/site").glob("*.py")]
    code = "import sys, importlib; sys.modules['nvflare'] = None\n" + "".join(
        f"importlib.import_module({module.removesuffix('.__init__')!r})\n" for module in modules
    )
    code += "assert not [name for name in sys.modules if name.startswith('securefg.flare')]"
    assert len(modules) > 10
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_table_has_no_cycle() -> None:
    rooms = {room: may for room, may in table().items() if room != "cli"}
    assert len(list(TopologicalSorter(rooms).static_order())) == len(rooms)


def test_the_fence_sees_a_room_that_imports_upward() -> None:
    rooms = table()
    assert trespasses("protocol", "from securefg.federation.roles import Host", rooms) == {
        "federation"
    }
    assert trespasses("secagg", "def f():\n    from securefg import runs", rooms) == {"runs"}
    assert trespasses("runs", "import audits.verdicts", rooms) == {"audits"}


@pytest.mark.parametrize(
    "source",
    [
        "from ..runs import folder",
        "from .. import runs",
        "from securefg import api",
        "from securefg.api import run",
        "import securefg\nsecurefg.runs.folder.RunFolder",
        "import importlib\nimportlib.import_module('securefg.runs.folder')",
        "from importlib import import_module\nimport_module(f'securefg.runs.{x}')",
        "__import__('securefg.runs')",
    ],
)
def test_the_fence_sees_other_ways_up(source: str) -> None:
    assert trespasses("protocol", source, table()) & {"runs", FRONT, RELATIVE}


def test_settings_import_no_network() -> None:
    """A config is read in a moment: whatever it needs of torch is imported later."""
    heavy = {"torch", "scipy", "sklearn", "torch_geometric", "opacus", "dp_accounting", "networkx"}
    for path in [
        *Path("securefg/settings").rglob("*.py"),
        *Path("securefg/methods").glob("*/settings.py"),
        *Path("securefg/foundation").glob("*.py"),
    ]:
        body = ast.Module(ast.parse(path.read_text()).body, [])
        top = ast.Module([n for n in body.body if isinstance(n, ast.Import | ast.ImportFrom)], [])
        found = {name.partition(".")[0] for name in imported(top)} & heavy
        assert not found or path.name == "streams.py", (path, found)
