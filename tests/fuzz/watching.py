"""What this process touches while an input is read: files outside a folder, programs, sockets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CALLS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect")
CHANGES = {  # which arguments of an event are paths that it changes
    **dict.fromkeys(("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod"), (0,)),
    **dict.fromkeys(("os.rename", "os.link", "shutil.rmtree"), (0, 1)),
    "os.symlink": (1,),
}
_seen: list[tuple[str, str]] | None = None
_inside = Path()
_hooked = False


@contextmanager
def watched(inside: Path | None) -> Iterator[list[tuple[str, str]]]:
    """The list is what was touched that should not have been: (what was done, to what)."""
    global _seen, _inside, _hooked
    if not _hooked:
        sys.addaudithook(_hook)  # it stays as long as the process does
        _hooked = True
    _inside, found = Path(os.devnull) if inside is None else inside.resolve(), []
    _seen = found
    try:
        yield found
    finally:
        _seen = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event in CALLS:
        _seen.append((event, repr(arguments)[:200]))
    for path in _changed(event, arguments):
        if not _may_change(path):
            _seen.append((event, os.fsdecode(path)))


def _changed(event: str, arguments: tuple[Any, ...]) -> list[str | bytes]:
    places: tuple[int, ...] = CHANGES.get(event, ())
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        writes = flags & (os.O_WRONLY | os.O_RDWR) if mode is None else set(mode) & set("wax+")
        places = (0,) if writes else ()
    given = [arguments[place] for place in places if place < len(arguments)]
    given_paths = [os.fspath(path) for path in given if isinstance(path, str | bytes | os.PathLike)]
    if event in ("os.mkdir", "os.remove", "os.rmdir") and arguments[-1] >= 0:  # within a folder
        folder = os.readlink(f"/proc/self/fd/{arguments[-1]}")
        return [os.path.join(folder, os.fsdecode(path)) for path in given_paths]
    return given_paths


def _may_change(path: str | bytes) -> bool:
    found = Path(os.fsdecode(path)).absolute()
    where = found.parent.resolve() / found.name
    return where.is_relative_to(_inside) or "__pycache__" in where.parts
