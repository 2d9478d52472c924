"""Files that are whole or absent: written beside, flushed, then moved into place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file so that a crash leaves either the old one or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.tmp{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_json(path: Path, value: Any) -> None:
    """JSON without NaN or infinity: those have no place in a file that others parse."""
    write_atomically(path, json.dumps(value, indent=2, allow_nan=False) + "\n")
