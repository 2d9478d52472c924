"""Files that outlive a crash: written whole or not at all, or by lines that are there or not."""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

RESULT: Final = 0o666
"""The mode of a file that others may read, as far as the umask allows it."""
PRIVATE: Final = 0o600
"""The mode of a file that its owner alone reads."""
PRIVATE_FOLDER: Final = 0o700


def make_private_folder(path: Path) -> None:
    """Make a folder that its owner alone enters. Close a folder that is there and open to
    others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    if path.stat().st_mode & 0o077:
        path.chmod(PRIVATE_FOLDER)


def write_atomically(
    path: Path,
    content: bytes | str | Sequence[bytes | memoryview],
    *,
    sync: bool = True,
    mode: int = RESULT,
) -> None:
    """Write a file so that a crash leaves either the old one or the new one, never a part.

    content  the whole file, or its parts in order: large arrays need no copy in memory
    sync     without it the machine's end may leave the old file for a while, or an unreadable one
    mode     the umask takes bits from it
    """
    whole = content.encode() if isinstance(content, str) else content
    parts = [whole] if isinstance(whole, bytes) else whole
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any, *, sync: bool = True, mode: int = RESULT) -> None:
    """Write a value as JSON, whole or not at all."""
    write_atomically(path, json_text(value), sync=sync, mode=mode)


def json_text(value: Any) -> str:
    """Return JSON without NaN or infinity: those have no place in a file that others parse."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def append_lines(path: Path, lines: list[str], *, sync: bool = True) -> None:
    """Add whole lines after the whole lines that are there. A torn line is cut off first.

    If it fails (a full disk) the file is as it was. With `sync` it returns once the lines would
    outlive the machine's end.
    """
    with path.open("ab+", buffering=0) as file:
        append_bytes(file, None, "".join(f"{line}\n" for line in lines).encode(), sync=sync)


def append_bytes(file: io.FileIO, start: int | None, data: bytes, *, sync: bool) -> None:
    """Write data at `start`, or after the last whole line, and let the file end there.

    A write that fails leaves what was there before `start`.
    """
    start = whole_lines_length(file) if start is None else start
    file.truncate(start)
    file.seek(start)
    left = memoryview(data)
    try:
        while left:
            left = left[file.write(left) :]
        if sync:
            os.fsync(file.fileno())
    except BaseException:
        file.truncate(start)
        raise


def whole_lines_length(file: io.FileIO) -> int:
    """Return where the last whole line of an open file ends."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 65536)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def sync_path(path: Path) -> None:
    """Make a file, or the names in a folder, outlive the machine's end."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
