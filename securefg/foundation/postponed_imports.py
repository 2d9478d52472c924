"""Imports of other libraries' parts that most runs never use, carried out on first use.

A library that imports all of its parts at once would cost every command seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader, _LazyModule  # type: ignore[attr-defined]
from types import ModuleType


class _Postponing(MetaPathFinder):
    """A finder that gives some modules a loader which waits for the first use."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the usual spec with a lazy loader, or None for all other modules."""
        if fullname not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def postpone_imports(*names: str) -> Iterator[None]:
    """Let imports of these modules wait until one of their attributes is read.

    Modules that are loaded already stay as they are.
    """
    finder = _Postponing(frozenset(names))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def execute_postponed() -> None:
    """Execute all modules that still wait.

    A library that looks at every loaded module while it is imported would execute them in the
    middle of its own import, and find itself half imported.
    """
    for module in list(sys.modules.values()):
        if isinstance(module, _LazyModule):
            module.__dict__  # noqa: B018 - reading any attribute executes it
