"""A file of lines that can only grow: each line carries the hash of all before it.

    FILE          {"n", "time", …, "link"}       link = SHA-256(link before, the line without it)
    FILE.head     {"n", "link"}                  how far it goes; written after the line is on disk

A line that was changed, dropped or torn, or a file that is gone, is noticed, and nothing is read
or written any more. What can be left by a crash are lines after the head, which is not waited for:
they are kept where they are whole; a torn one was never acted on and is cut off. Whoever puts back
an older copy of both files is not noticed here.
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from securefg.foundation.errors import PrivacyError
from securefg.foundation.files import write_json
from securefg.foundation.json_text import parse_json, read_json

Clock = Callable[[], datetime.datetime]
Line = dict[str, Any]
FIRST = "0" * 64
SLACK = datetime.timedelta(minutes=10)


class BooksDamaged(PrivacyError):
    """A site's books cannot be trusted; it takes part in nothing until somebody has looked."""


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Chain:
    """One such file; several processes of one party may append to it."""

    def __init__(self, path: Path, now: Clock = utc_now) -> None:
        self._path, self._now = path, now
        self._head = path.with_name(f"{path.name}.head")
        self._lines: list[Line] = []
        self._seen = (-1, -1)

    @classmethod
    def open_new(cls, path: Path) -> None:
        """Begin an empty one. Never done for somebody: a missing one is a reason to ask."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        write_json(path.with_name(f"{path.name}.head"), {"n": 0, "link": FIRST})

    def lines(self) -> list[Line]:
        """All lines, checked; raises `BooksDamaged`."""
        with self._locked():
            self._load()
        return list(self._lines)

    def append(self, entries: list[Line]) -> None:
        """On disk when it returns."""
        if not entries:
            return
        with self._locked():
            self._load()
            now = self._time()
            added: list[Line] = []
            for entry in entries:
                last = added[-1] if added else self._last
                line = {"n": last["n"] + 1, "time": now.isoformat(timespec="seconds"), **entry}
                added.append({**line, "link": link(last["link"], line)})
            self._seen = (-1, -1)  # where writing fails, the file is read again
            with self._path.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in added)
                file.flush()
                os.fsync(file.fileno())
            self._lines.extend(added)
            self._write_head()

    @property
    def _last(self) -> Line:
        return self._lines[-1] if self._lines else {"n": 0, "link": FIRST}

    def time(self) -> datetime.datetime:
        """Now, but never before the last line: a clock that was set back is refused."""
        with self._locked():
            self._load()
            return self._time()

    def _time(self) -> datetime.datetime:
        now = self._now()
        if self._lines:
            last = datetime.datetime.fromisoformat(self._lines[-1]["time"])
            if now + SLACK < last:
                raise BooksDamaged(
                    f"the clock says {now:%Y-%m-%d %H:%M}, {self._path.name} goes on to "
                    f"{last:%Y-%m-%d %H:%M}: set the clock"
                )
            now = max(now, last)
        return now

    def _load(self) -> None:
        """Read again what others wrote since; all of it is checked once."""
        try:
            state = (self._path.stat().st_size, self._path.stat().st_mtime_ns)
            if state == self._seen:
                return
            head = read_json(self._head)
            raw = self._path.read_bytes()
            if type(head["n"]) is not int or head["n"] < 0 or not isinstance(head["link"], str):
                raise ValueError("no head")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BooksDamaged(f"{self._path}: {type(error).__name__}: no books") from error
        self._lines = self._checked(raw, head)
        self._write_head()

    def _checked(self, raw: bytes, head: Line) -> list[Line]:
        lines, before = list[Line](), FIRST
        *whole, rest = raw.split(b"\n")
        for number, text in enumerate(whole, 1):
            try:
                line = parse_json(text)
                found = line.pop("link")
                good = line["n"] == number and found == link(before, line)
                datetime.datetime.fromisoformat(line["time"])
            except (ValueError, KeyError, TypeError, AttributeError):
                good = False
            if not good:
                raise BooksDamaged(f"{self._path}:{number}: changed or torn")
            lines.append({**line, "link": found})
            before = found
        at_head = lines[head["n"] - 1]["link"] if 0 < head["n"] <= len(lines) else FIRST
        if len(lines) < head["n"] or at_head != head["link"]:
            raise BooksDamaged(f"{self._path}: {len(lines)} lines; there were {head['n']}")
        if rest:  # a crash while it was written: nothing was acted on
            with self._path.open("r+b") as file:
                file.truncate(len(raw) - len(rest))
                os.fsync(file.fileno())
        return lines

    def _write_head(self) -> None:
        write_json(self._head, {"n": self._last["n"], "link": self._last["link"]}, sync=False)
        self._seen = (self._path.stat().st_size, self._path.stat().st_mtime_ns)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            lock = self._path.with_name(f"{self._path.name}.lock").open("a")
        except OSError as error:
            raise BooksDamaged(f"{self._path.parent}: no books: {error}") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def link(before: str, line: Line) -> str:
    text = json.dumps(line, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()
