"""JSON files of bounded size and depth. Every fault of a file is a `ValueError`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 32 * 2**20
"""Of a file that describes something: parsed, it may take twenty times as much memory."""


def read_json(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    """Return the file's value. OSError where it cannot be read, ValueError for all that is in
    it."""
    return parse_json(read_bounded(path, most_bytes))


def read_bounded(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return all bytes of a file that has no more than these. No more are read of a larger one."""
    with path.open("rb") as file:
        found = file.read(most_bytes + 1)
    if len(found) > most_bytes:
        raise ValueError(f"more than {most_bytes // 2**20} MiB")
    return found


def parse_json(text: bytes | str) -> Any:
    """Return the value of JSON text. Every fault of it is a `ValueError`."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
