"""Mutate code whose guards matter, run the unit tests that import it, and count the kills.

    python tests/mutants.py --count 60 --seed 0            # one line per mutant, then the counts
    python tests/mutants.py --count 60 --seed 0 --tests ../older/tests   # an older checkout's

A mutant is one module with one small change: a comparison, a sum, a constant, `and` for `or`, or a
`raise` that is gone. A fork of this process imports it in place of the module and runs the tests of
the same room that import the module, up to the first failure. A seed always gives the same mutants.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.abc
import importlib.machinery
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

ROOMS = {
    "privacy": ("securefg/privacy/**/*.py", "unit/privacy"),
    "secagg": ("securefg/secagg/*.py", "unit/secagg"),
    "verdicts": ("audits/*verdict*.py", "unit/audits"),
}
HEAVY = ("torch", "numpy", "scipy.stats", "pydantic", "cryptography.x509", "yaml")
SECONDS = 60
NO_TESTS, BROKEN = 5, 99
OTHER = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    room: str
    path: Path
    site: int | None

    @property
    def module(self) -> str:
        return ".".join(self.path.with_suffix("").parts)

    def tree(self) -> tuple[ast.Module, str]:
        """Return the changed module, and the line with what it became."""
        tree = ast.parse(self.path.read_text())
        if self.site is None:
            return tree, "unchanged"
        node, change = list(sites_of(tree))[self.site]
        before = ast.unparse(node)
        change()
        ast.fix_missing_locations(tree)
        after = ast.unparse(node)
        return tree, " ".join(f"{node.lineno}: {before} -> {after}".split())


def sites_of(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, Callable[[], None]]]:
    """Yield every place that can be changed, with what changes it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
            yield node, lambda n=node: n.ops.__setitem__(0, OTHER[type(n.ops[0])]())
        elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in OTHER:
            yield node, lambda n=node: setattr(n, "op", OTHER[type(n.op)]())
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node, lambda n=node: setattr(n, "value", n.value + 1)
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            yield node, lambda n=node: n.body.__setitem__(-1, ast.Pass())


def draw_mutants(count: int, seed: int) -> list[Mutant]:
    """Draw as many mutants of every room, among all of its sites."""
    drawn = []
    for room, (pattern, _) in ROOMS.items():
        every = [
            Mutant(room, path, site)
            for path in sorted(Path().glob(pattern))
            for site in range(len(list(sites_of(ast.parse(path.read_text())))))
        ]
        drawn += Random(f"{seed} {room}").sample(every, count // len(ROOMS))
    return drawn


def matching_tests(mutant: Mutant, tests: Path) -> list[str]:
    """Return the test files of the room that import the module, the shortest first."""
    files = (tests / ROOMS[mutant.room][1]).glob("test_*.py")
    found = [file for file in files if mutant.module in imported(ast.parse(file.read_text()))]
    return [str(file) for file in sorted(found, key=lambda file: file.stat().st_size)]


def imported(tree: ast.Module) -> set[str]:
    """Return the modules that a file imports, and all names that it imports from modules."""
    nodes = list(ast.walk(tree))
    plain = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    homes = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return plain.union(*({n.module, *(f"{n.module}.{a.name}" for a in n.names)} for n in homes))


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An importer that gives the mutant in place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.mutant.module:
            return None
        file = str(self.mutant.path.resolve())
        spec = importlib.machinery.ModuleSpec(name, self, origin=file)
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.mutant.tree()[0], str(module.__file__), "exec"), module.__dict__)


def fate_of(mutant: Mutant, tests: Path) -> str:
    """Run the matching tests in a fork: killed by a failure, stopped by the limit, or alive."""
    files = matching_tests(mutant, tests)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.chdir(tests.parent)
        sys.meta_path.insert(0, Mutated(mutant))
        options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
        os._exit(run_tests([*options, *files]) if files else NO_TESTS)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == BROKEN:
        raise RuntimeError(f"{mutant.module}: pytest did not start; nothing is known of mutants")
    if code < 0:
        return "stopped"
    return "alive" if code in (0, NO_TESTS) else "killed"


def run_tests(arguments: list[str]) -> int:
    """Return the exit status of pytest, or one of its own where pytest itself breaks."""
    try:
        code = int(pytest.main(arguments))
    except BaseException:
        return BROKEN
    return BROKEN if code in (3, 4) else code


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", type=Path, default=Path("tests"))
    parser.add_argument("--unchanged", action="store_true", help="a control: none may be killed")
    chosen = parser.parse_args(arguments)
    for name in HEAVY:
        importlib.import_module(name)
    sys.path.insert(0, str(Path.cwd()))
    mutants = draw_mutants(chosen.count, chosen.seed)
    if chosen.unchanged:
        mutants = list(dict.fromkeys(replace(mutant, site=None) for mutant in mutants))
    fates = Counter[str]()
    for mutant in mutants:
        fate = fate_of(mutant, chosen.tests.resolve())
        fates[fate] += 1
        print(f"{fate:8}", mutant.module, mutant.tree()[1], flush=True)
    print(f"of {len(mutants)} mutants:", dict(fates))
    return 0


if __name__ == "__main__":
    sys.exit(main())
