"""Server code names no client data, and nothing that comes from outside is unpickled."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
import typing
from abc import ABC
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import pytest

from securefg.federation.roles import Server
from securefg.methods.base import AveragingServer, Method
from securefg.methods.registry import get_method
from securefg.protocol.messages import Message
from securefg.settings.methods import SHIPPED

METHOD_FILES = sorted(
    path for path in Path("securefg/methods").rglob("*.py") if path.name != "__init__.py"
)
CLIENT_NAMES = {"Shard", "Site", "Graph", "shard", "shards", "graph", "features", "labels", "split"}
UNPICKLES = r"pickle\.loads?|(?<!safetensors\.)torch\.load\(|Unpickler|allow_pickle=True"


def server_classes(method: Method[Any]) -> list[type]:
    """Every class that the method's server is made of, wherever it is written."""
    made = method.make_server
    kind = made if isinstance(made, type) else typing.get_type_hints(made).get("return")
    assert isinstance(kind, type), f"{method.name}: make_server does not say which class it makes"
    assert issubclass(kind, Server), f"{method.name}: {kind} is no Server"
    assert not inspect.isabstract(kind), f"{method.name}: make_server says no class that can be"
    return [cls for cls in kind.__mro__ if cls not in (Server, ABC, object, Generic)]


def server_code(method: Method[Any]) -> list[ast.AST]:
    """The source of these classes, of the function that makes the server where it is one, and of
    what these call in their own modules or in any method's."""
    parts: list[Any] = list(server_classes(method))
    if not isinstance(method.make_server, type):
        parts.append(method.make_server)
    for part in parts:  # grows
        here = vars(sys.modules[part.__module__])
        for node in ast.walk(source_of(part)):
            called = here.get(node.id) if isinstance(node, ast.Name) else None
            home = getattr(called, "__module__", None) or ""
            own = home == part.__module__ or home.startswith("securefg.methods.")
            server = isinstance(called, type) and issubclass(called, Server)
            if own and (inspect.isfunction(called) or server) and called not in parts:
                parts.append(called)
    return [source_of(part) for part in parts]


def source_of(part: Any) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(part)))


def names_of_client_data(node: ast.AST) -> set[str]:
    data_names = set()
    for part in ast.walk(node):
        name = getattr(part, "id", None) or getattr(part, "attr", None)
        if isinstance(part, ast.Call) and getattr(part.func, "id", "") == "getattr":
            name = getattr(part.args[1], "value", "shard")  # a name that is made up may be any
        if isinstance(part, ast.Attribute) and getattr(part.value, "id", "") == "settings":
            continue  # a setting may have the name of what it switches
        if isinstance(name, str) and name.lstrip("_") in CLIENT_NAMES:
            data_names.add(name)
    return data_names


def test_server_code_names_no_client_data() -> None:
    sources = {name: server_code(get_method(name)) for name in SHIPPED}
    assert all(sources.values())
    found = {n: set().union(*map(names_of_client_data, codes)) for n, codes in sources.items()}
    assert {name: names for name, names in found.items() if names} == {}


def test_every_shipped_method_is_in_the_registry() -> None:
    exposing = [p for p in METHOD_FILES if re.search(r"^METHOD = ", p.read_text(), re.M)]
    modules = [importlib.import_module(".".join(p.with_suffix("").parts)) for p in exposing]
    assert {id(module.METHOD) for module in modules} == {id(get_method(name)) for name in SHIPPED}


class _Reaching(AveragingServer):
    def round(self, number: int) -> Message:
        return self._shard.features  # type: ignore[attr-defined, no-any-return]


class _Innocent(_Reaching):
    pass


@pytest.mark.parametrize("made", [_Innocent, lambda *_: None])
def test_the_fence_sees_a_base_class_that_reaches_for_a_shard(made: Any) -> None:
    method = replace(get_method("fedavg"), make_server=made)
    if isinstance(made, type):
        found = set[str]().union(*map(names_of_client_data, server_code(method)))
        assert found == {"_shard", "features"}
    else:
        with pytest.raises(AssertionError, match="does not say which class"):
            server_code(method)


def _peek(server: Any) -> Any:
    return server._host.features


class _Delegating(AveragingServer):
    def round(self, number: int) -> Message:
        found: Message = _peek(self)
        return found


class _ByName(AveragingServer):
    def round(self, number: int) -> Message:
        found: Message = getattr(self, "_sha" + "rd")
        return found


def _hides_its_class(*_: Any) -> AveragingServer:
    return _Delegating(*_)


def _says_nothing(*_: Any) -> Server:
    return _Delegating(*_)


@pytest.mark.parametrize("made", [_Delegating, _ByName, _hides_its_class])
def test_the_fence_sees_what_the_server_calls(made: Any) -> None:
    method = replace(get_method("fedavg"), make_server=made)
    assert set[str]().union(*map(names_of_client_data, server_code(method)))


def test_a_server_of_no_class_in_particular_is_refused() -> None:
    with pytest.raises(AssertionError, match="no class that can be"):
        server_code(replace(get_method("fedavg"), make_server=_says_nothing))


def test_the_fence_sees_a_server_that_reaches_for_a_shard() -> None:
    bad = ast.parse("class S(Server):\n    def round(self, n): return self._shard.features")
    assert names_of_client_data(bad) == {"_shard", "features"}


def test_methods_keep_no_state_in_their_module() -> None:
    found = {str(path): module_state(path.read_text()) for path in METHOD_FILES}
    assert len(found) > 20
    assert {path: states for path, states in found.items() if states} == {}


def module_state(source: str) -> list[str]:
    """Return the assignments of a module that make something mutable."""
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp)
    assigned = [n for n in ast.parse(source).body if isinstance(n, ast.Assign | ast.AnnAssign)]
    return [ast.unparse(node) for node in assigned if isinstance(node.value, mutable)]


def test_module_state_of_a_module_is_found() -> None:
    assert module_state("SEEN = []\nNAMES = ('a',)\nBY: dict = {}") == [
        "SEEN = []",
        "BY: dict = {}",
    ]


def test_nothing_unpickles_what_comes_from_outside() -> None:
    """torch-geometric unpickles Planetoid's files after `geometric` has checked their digests."""
    for path in Path("securefg").rglob("*.py"):
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
