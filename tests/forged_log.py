"""Logs with a chain that fits, and entries that no writer makes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from securefg.foundation.log import FORMAT, first_link, next_link


def forge_log(path: Path, name: str, entries: Iterable[dict[str, Any]]) -> None:
    """Write a log as somebody would who makes all links anew: NaN and infinity included."""
    link, lines = first_link(name), []
    for entry in entries:
        text = json.dumps({"format": FORMAT, **entry}, separators=(",", ":"))[:-1]
        link = next_link(link, text.encode())
        lines.append(f'{text},"link":"{link}"}}\n')
    path.write_text("".join(lines))


def set_back_head(path: Path) -> None:
    """Give a log that was cut the head that it had when it ended there."""
    lines = path.read_bytes().splitlines()
    head = {"format": FORMAT, "length": len(lines), "link": json.loads(lines[-1])["link"]}
    path.with_name(f"{path.name}.head").write_text(json.dumps(head))
