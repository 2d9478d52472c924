"""Modules by name: plug-ins from anywhere, and a check that nobody shadows our own packages."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from securefg.foundation.errors import ConfigError, InputError
from securefg.foundation.quoting import shown
from securefg.foundation.suggestions import explain_unknown_name

LISTED: Final = ("methods", "defences", "datasets", "partitions", "attacks")
"""What `securefg list` lists."""

_closed = False
"""Whether module paths are refused; for all threads, since a folder is read by several."""


@contextmanager
def only_known_modules(unless: bool = False) -> Iterator[None]:
    """Import no module path within this context, because reading a folder must not run what it
    names.

    unless  the user trusts the folder (`--trust-modules`)
    """
    global _closed
    before, _closed = _closed, not unless
    try:
        yield
    finally:
        _closed = before


def require_own_packages(names: Sequence[str] = ("attacks", "audits")) -> None:
    """Refuse to start where another package takes the name of one that comes with securefg."""
    home = Path(__file__).parents[2]
    for name in names:
        spec, expected = importlib.util.find_spec(name), home / name / "__init__.py"
        found = Path(spec.origin) if spec and spec.origin else None
        if found is None or found.resolve() != expected.resolve():
            raise InputError(
                f"package {name!r}: found {found or 'none'}; expected {expected}, which comes with "
                "securefg; rename or uninstall the other package, or start in another folder"
            )


def import_path(what: str, path: str) -> ModuleType:
    """Import a module that a config names, unless that is not to be trusted here."""
    if _closed and path not in sys.modules:
        raise ConfigError(
            f"{what}: the module {shown(path)} is not imported because a folder names it; "
            "--trust-modules imports it, which runs its code"
        )
    return importlib.import_module(path)


def find_module(what: str, name: str, shipped: Mapping[str, str], group: str) -> ModuleType:
    """Return the module behind a name.

    what     for the error: `method.name`
    shipped  module by name, for those of this project
    group    the entry points of installed packages; each names a module

    A name that is none of these is a module path, looked up from the working folder too, so that
    `method: {name: my_package.my_method}` finds what lies beside the config.
    """
    here = str(Path.cwd())
    if name not in shipped and here not in sys.path:
        sys.path.append(here)
    path = (
        shipped.get(name) or installed(group).get(name) or (name if _module_exists(name) else None)
    )
    if path is None:
        raise ConfigError(_unknown_module(what, name, shipped, group))
    try:
        known = name in shipped or name in installed(group)
        return importlib.import_module(path) if known else import_path(what, path)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and f"{path}.".startswith(f"{error.name}."):
            raise ConfigError(_unknown_module(what, name, shipped, group)) from error
        raise _broken_import(what, path, error) from error
    except Exception as error:
        raise _broken_import(what, path, error) from error


def _unknown_module(what: str, name: str, shipped: Mapping[str, str], group: str) -> str:
    kind = group.rpartition(".")[2]
    where = f"securefg list {kind}" if kind in LISTED else ""
    known = [*shipped, *installed(group)]
    return explain_unknown_name(what, name, known, "a module path", where)


def _broken_import(what: str, path: str, error: Exception) -> ConfigError:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return ConfigError(
        f"{what}: importing {path!r} failed: {type(error).__name__}: {error} "
        f"({Path(where.filename).name}:{where.lineno})"
    )


def _module_exists(path: str) -> bool:
    if not all(part.isidentifier() for part in path.split(".")):
        return False
    try:
        return "." in path or importlib.util.find_spec(path) is not None
    except (ImportError, ValueError):
        return False


@cache
def installed(group: str) -> Mapping[str, str]:
    """Return what installed packages offer: module by name."""
    return {point.name: point.value for point in entry_points(group=group)}
