"""The one log: chained lines of JSON that show every change and outlive a crash.

    line  = {"format":2,<entry>,"link":"<64 hex digits>"}
    link  = SHA-256(link before | the line up to `,"link"` | newline | body)
    first = SHA-256("securefg log 2" | newline | name)

The name says what the log is for, so no log passes for another one. The link covers the text as it
is stored. Lines have no body. A record of the transcript has one. A signed log adds
`,"signature":"<128 hex digits>"` after the link. `FILE.head` keeps a length and its link, so that a
cut end shows too. A last line without its end was torn by a crash before anybody relied on it.
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from securefg.foundation.errors import RunFolderError, SecurefgError
from securefg.foundation.files import (
    PRIVATE,
    append_bytes,
    whole_lines_length,
    write_atomically,
    write_json,
)
from securefg.foundation.json_text import MOST_BYTES, parse_json, read_json

FORMAT: Final = 2
SLACK: Final = datetime.timedelta(minutes=10)
PURPOSE: Final = "log"
_START: Final = b'{"format":%d,' % FORMAT
_LINK, _SIGNATURE = b',"link":"', b'","signature":"'
_RESERVED: Final = frozenset({"format", "link", "signature"})

Line = dict[str, Any]
Clock = Callable[[], datetime.datetime]


class Signer(Protocol):
    """A key that signs links, and checks its own signatures."""

    def sign(self, purpose: str, *items: str) -> bytes:
        """Return the signature of the items for a purpose."""

    def check(self, signature: bytes, purpose: str, *items: str) -> None:
        """Raise an error unless the signature is of these items for this purpose."""


class OtherFormat(ValueError):
    """A line of another version."""


def utc_now() -> datetime.datetime:
    """Return the time in UTC."""
    return datetime.datetime.now(datetime.UTC)


# ------------------------------------------------------------------------------------- the chain


def first_link(name: str) -> str:
    """Return the link before the first line of a log of this name."""
    return hashlib.sha256(f"securefg log {FORMAT}\n{name}".encode()).hexdigest()


def next_link(before: str, text: bytes, body: bytes | memoryview = b"") -> str:
    """Return the link of a line whose text up to the link is `text`, which has no newline."""
    digest = hashlib.sha256(before.encode() + text + b"\n")
    digest.update(body)
    return digest.hexdigest()


def chain_line(
    before: str, entry: Line, body: bytes | memoryview = b"", signer: Signer | None = None
) -> tuple[bytes, str]:
    """Return an entry's line, without its newline, and its link."""
    if not _RESERVED.isdisjoint(entry):
        raise ValueError(f"entry: found {sorted(_RESERVED & entry.keys())}; expected other keys")
    stored = json.dumps({"format": FORMAT, **entry}, separators=(",", ":"), allow_nan=False)
    text = stored[:-1].encode()
    link = next_link(before, text, body)
    signature = b"" if signer is None else _SIGNATURE + signer.sign(PURPOSE, link).hex().encode()
    return text + _LINK + link.encode() + signature + b'"}', link


def split_line(line: bytes, signed: bool = False) -> tuple[bytes, str, bytes]:
    """Return a line's text up to the link, its link and its signature.

    Raises ValueError for a line that `chain_line` does not write.
    """
    if not line.startswith(_START):
        with suppress(json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            refuse_other_format(json.loads(line))
        raise ValueError("the line was changed")
    end = len(line) - 2 - (len(_SIGNATURE) + 128 if signed else 0)
    text, link = line[: max(0, end - 64 - len(_LINK))], line[end - 64 : end]
    tail = line[end + len(_SIGNATURE) : -2].decode("ascii", "replace") if signed else ""
    signature = bytes.fromhex(tail)
    written = text + _LINK + link + (_SIGNATURE + signature.hex().encode() if signed else b"")
    if line != written + b'"}' or b"\n" in line:
        raise ValueError("the line was changed")
    return text, link.decode("ascii"), signature


def refuse_other_format(tree: Any) -> None:
    """Raise `OtherFormat` for what another version stored."""
    found = tree.get("format", 1) if isinstance(tree, dict) else FORMAT
    if found != FORMAT:
        raise OtherFormat(
            f"format: found {found!r}; expected {FORMAT}: another version wrote it, or it was "
            "changed"
        )


def read_log(
    path: Path,
    name: str,
    signer: Signer | None = None,
    damaged: type[SecurefgError] = RunFolderError,
) -> Iterator[tuple[Line, str]]:
    """Yield every entry with its link. A missing file has none, and a torn last line is left out.

    Raises `damaged` at the first line that is not the one that was written there.
    """
    link = first_link(name)
    for number, line in enumerate(_whole_lines(path, damaged), 1):
        try:
            text, stored_link, signature = split_line(line, signer is not None)
            if stored_link != next_link(link, text):
                raise ValueError("the line was changed, or another line was here before")
            if signer is not None:
                signer.check(signature, PURPOSE, stored_link)
            entry = parse_json(line)
        except (ValueError, SecurefgError) as error:
            raise damaged(f"{path}:{number}: not the line of this log: {error}") from error
        link = stored_link
        yield {key: entry[key] for key in entry if key not in _RESERVED}, link


def _whole_lines(path: Path, damaged: type[SecurefgError]) -> Iterator[bytes]:
    """Yield the lines of a file one by one: one of any size costs no more than the bound."""
    try:
        with path.open("rb") as file:
            while (line := file.readline(MOST_BYTES + 1)).endswith(b"\n"):
                yield line[:-1]
    except FileNotFoundError:
        return
    except OSError as error:
        raise damaged(f"{path}: cannot be read: {error.strerror}") from error
    if len(line) > MOST_BYTES:
        raise damaged(f"{path}: a line of more than {MOST_BYTES // 2**20} MiB")


# -------------------------------------------------------------------------------------- the file


class Log:
    """A log file that grows by lines. `length` and `link` say where it stands.

    sync     whether an appended line outlives a power cut when the call returns
    shared   whether several processes append: each reads what the others wrote, the file is begun
             by `create` alone, and its head is kept with every line. Otherwise there is one writer,
             which refuses to append where another one did.
    signer   signs every line, and checks every line that is read
    clock    stamps the entries of a shared log with a `time` that never goes back
    damaged  the error for a log that cannot be trusted
    set_back_by  checks a line whose time lies before that of the line before it; gets the log's
             name and both lines. Without it no line may set the time back
    """

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        sync: bool = True,
        shared: bool = False,
        signer: Signer | None = None,
        clock: Clock | None = None,
        damaged: type[SecurefgError] = RunFolderError,
        set_back_by: Callable[[str, Line, Line], None] | None = None,
    ) -> None:
        self._set_back_by = set_back_by
        self._path, self._name, self._sync, self._shared = path, name, sync, shared
        self._signer, self._clock, self._damaged = signer, clock, damaged
        self._head = path.with_name(f"{path.name}.head")
        self._lines: list[Line] = []  # of a shared log: all that was read and checked
        self._seen = (-1, -1)
        self.length, self.link, self.head_length = 0, first_link(name), 0

    def create(self) -> None:
        """Begin a shared log. No other call does: a missing one is a reason to ask."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path.touch(mode=PRIVATE)
        self.keep_head()

    def lines(self) -> list[Line]:
        """Return all entries, checked, each with its `link`. A torn last line is cut off."""
        with self._locked_file() as file:
            return self._load_lines(file)

    def append(self, entries: Sequence[Line]) -> None:
        """Add entries after the last one."""
        if not entries:
            return
        if self._seen[0] < 0:
            self.lines()
        with self._locked_file() as file:
            if self._shared:
                self._load_lines(file)
            elif (found := _state_of(file)[0]) != self._seen[0]:
                raise self._damaged(
                    f"{self._path.name}: found {found} bytes; expected {self._seen[0]}: another "
                    "process wrote to it, or it was set back"
                )
            if self._clock is not None:
                stamp = _time_stamp(self._next_time())
                entries = [{"time": stamp, **entry} for entry in entries]
            self._write_entries(file, entries)

    def set_back(self, make: Callable[[str, Line, str], Line]) -> bool:
        """Append a line at the clock's time where the last line is ahead of it. Return whether a
        line was appended.

        make  gets the log's name, the last line and the time, and returns the entry, which
              `set_back_by` must accept
        """
        with self._locked_file() as file:
            now, lines = (self._clock or utc_now)(), self._load_lines(file)
            if not lines or now + SLACK >= datetime.datetime.fromisoformat(lines[-1]["time"]):
                return False
            entry = {"time": _time_stamp(now), **make(self._name, lines[-1], _time_stamp(now))}
            self._check_time(lines[-1], entry)
            self._write_entries(file, [entry])
            return True

    def _write_entries(self, file: io.FileIO, entries: Sequence[Line]) -> None:
        data, links = self._chain_entries(entries, self.link)
        append_bytes(file, self._seen[0], data, sync=self._sync)
        self.length, self.link = self.length + len(links), links[-1]
        self._seen = _state_of(file)
        if self._shared:
            self._lines += [{**e, "link": li} for e, li in zip(entries, links, strict=True)]
            self.keep_head(sync=False)

    def replace(self, entries: Sequence[Line]) -> None:
        """Hold these entries and no others."""
        data, links = self._chain_entries(entries, first := first_link(self._name))
        write_atomically(self._path, data, mode=PRIVATE)
        self.length, self.link, self._seen = len(links), [first, *links][-1], (len(data), -1)

    def _chain_entries(self, entries: Iterable[Line], link: str) -> tuple[bytes, list[str]]:
        lines, links = [], []
        for entry in entries:
            line, link = chain_line(link, entry, signer=self._signer)
            lines.append(line + b"\n")
            links.append(link)
        return b"".join(lines), links

    def keep_head(self, *, sync: bool = True) -> None:
        """Write down how far the log goes. Without `sync` a power cut may leave an older head."""
        head = {"format": FORMAT, "length": self.length, "link": self.link}
        write_json(self._head, head, sync=sync, mode=PRIVATE)
        self.head_length = self.length

    def time(self) -> datetime.datetime:
        """Return the time, but never one before the last line: a clock set back is refused."""
        with self._locked_file() as file:
            self._load_lines(file)
            return self._next_time()

    def _next_time(self) -> datetime.datetime:
        now = (self._clock or utc_now)()
        if not self._lines:
            return now
        last = datetime.datetime.fromisoformat(self._lines[-1]["time"])
        if now + SLACK < last:
            raise self._damaged(
                f"the clock says {now:%Y-%m-%d %H:%M}, {self._path.name} goes on to "
                f"{last:%Y-%m-%d %H:%M}: set the clock; where it is right and ran ahead before, "
                "the site's operator signs a correction: `securefg deploy clock`"
            )
        return max(now, last)

    def _load_lines(self, file: io.FileIO) -> list[Line]:
        """Read the file where it is not as it was left. Check it against its head."""
        if self._shared and _state_of(file) == self._seen:
            return list(self._lines)
        read = read_log(self._path, self._name, self._signer, self._damaged)
        lines = [{**entry, "link": link} for entry, link in read]
        self._check_head([line["link"] for line in lines])
        try:
            times = [
                datetime.datetime.fromisoformat(line["time"]) for line in self._timed_lines(lines)
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(f"{self._path}: a line without its time: {error!r}") from error
        for number in range(1, len(times)):
            if times[number] < times[number - 1]:
                self._check_time(lines[number - 1], lines[number])
        self.length = len(lines)
        self.link = lines[-1]["link"] if lines else first_link(self._name)
        if (whole := whole_lines_length(file)) < _state_of(file)[0]:
            append_bytes(file, whole, b"", sync=self._sync)
        self._seen = _state_of(file)
        if self._shared:
            self._lines = lines
            self.keep_head(sync=False)
        return list(lines)

    def _timed_lines(self, lines: list[Line]) -> list[Line]:
        return lines if self._clock else []

    def _check_time(self, before: Line, line: Line) -> None:
        """Raise unless a line may have an earlier time than the line before it."""
        if self._set_back_by is None:
            raise self._damaged(f"{self._path}: found {line['time']} after {before['time']}")
        self._set_back_by(self._name, before, line)

    def _check_head(self, links: list[str]) -> None:
        """Raise unless the log has the line that its head tells of."""
        self.head_length, known = 0, [first_link(self._name), *links]
        if not self._shared and not self._head.exists():
            return
        try:
            head = read_json(self._head)
            refuse_other_format(head)
            length, link = head["length"], head["link"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged(f"{self._head}: no head of this log: {error}") from error
        if type(length) is not int or not 0 <= length < len(known) or known[length] != link:
            raise self._damaged(
                f"{self._path.name}: found {len(links)} lines; its head tells of {length!r}: one "
                "of the two was set back"
            )
        self.head_length = length

    @contextmanager
    def _locked_file(self) -> Iterator[io.FileIO]:
        """Open the file for this process alone. One that is missing is made for its one writer."""
        flags = os.O_RDWR | (0 if self._shared else os.O_CREAT)
        try:
            file = io.FileIO(os.open(self._path, flags | os.O_CLOEXEC, PRIVATE), "r+")
        except OSError as error:
            if not self._shared:
                raise
            raise self._damaged(f"{self._path}: no log: {error.strerror}") from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file


def _time_stamp(time: datetime.datetime) -> str:
    return time.isoformat(timespec="seconds")


def _state_of(file: io.FileIO) -> tuple[int, int]:
    state = os.fstat(file.fileno())
    return state.st_size, state.st_mtime_ns
