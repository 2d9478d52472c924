"""Lines of JSON, each with a hash over all before it: one that was changed or left out shows.

    line = {..., "chain": SHA-256(the chain before | the line without `chain`)}

What is appended is on the disk before the call returns. A line torn by a crash was never told to
anybody, so it is left out; a whole line that does not fit the chain is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import append_lines, write_atomically

START: Final = hashlib.sha256(b"securefg lines").hexdigest()


class ChainedLines:
    """A file that grows by lines; `length` and `link` say where it stands.

    sync  whether what is appended outlives the machine's end when the call returns
    """

    def __init__(self, path: Path, *, sync: bool = True) -> None:
        self._path, self._sync = path, sync
        self.length, self.link = 0, START
        for _, link in read_chained(path):
            self.length, self.link = self.length + 1, link

    def append(self, entries: Sequence[dict[str, Any]]) -> None:
        lines, link = _linked(entries, self.link)
        append_lines(self._path, lines, sync=self._sync)
        self.length, self.link = self.length + len(lines), link

    def replace(self, entries: Sequence[dict[str, Any]]) -> None:
        """Hold these entries and no others."""
        lines, link = _linked(entries, START)
        write_atomically(self._path, "".join(f"{line}\n" for line in lines))
        self.length, self.link = len(lines), link


def read_chained(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Every entry with its link."""
    try:
        text = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {error.strerror}") from error
    link = START
    for number, line in enumerate(text.split(b"\n")[:-1], 1):
        try:
            entry = json.loads(line)
            found = entry.pop("chain")
            link = _link(link, json.dumps(entry))
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise RunFolderError(f"{path}:{number}: not a line of this file: {error!r}") from error
        if found != link:
            raise RunFolderError(f"{path}:{number}: not the line that was written here")
        yield entry, link


def _linked(entries: Sequence[dict[str, Any]], link: str) -> tuple[list[str], str]:
    lines = []
    for entry in entries:
        link = _link(link, json.dumps(entry))
        lines.append(json.dumps({**entry, "chain": link}))
    return lines, link


def _link(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}{text}".encode()).hexdigest()
