"""The transcript: every message of a run, as it crossed the boundary, and each party's view of it.

    transcript/messages.bin = record*
    record = "SFGT" | header length (u32) | body length (u64) | CRC-32 of both (u32) | header | body

The header (JSON) holds when, who, kind, sizes and the rules that were applied; the body is the
encoded message. A broadcast is stored once with all its receivers. Where a transcript is thinned,
headers of all messages stay and bodies go; a reader sees which. A file torn by a crash loads up to
the tear, with a warning.

A header is a line of a log (`securefg.foundation.log`) whose link covers the body too, so a record
that was changed, left out or put in shows; the run's summary keeps the last link. Records keep
their own framing: a body is read where it lies, and as text it would have to be encoded twice.
"""

from __future__ import annotations

import os
import struct
import time
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, get_type_hints

from pydantic import ConfigDict, create_model

from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import PRIVATE, make_private_folder
from securefg.foundation.log import OtherFormat, chain_line, first_link, next_link, split_line
from securefg.foundation.quoting import shown
from securefg.protocol.envelopes import Body, Clients, Envelope, Size

if TYPE_CHECKING:
    from torch import Tensor

    from securefg.protocol.messages import Scalar

MAGIC = b"SFGT"
_PREFIX = struct.Struct("<4sIQI")
_START = first_link("transcript")


@dataclass(frozen=True)
class Record:
    """A message, or one drop-out (`kind` is then "dropped" and `note` the reason).

    payload, envelope  encoded bytes over all receivers together
    rules              what was done to each private field before it left
    """

    seq: int
    round: int
    step: int
    attempt: int
    seconds: float
    sender: str
    receivers: tuple[str, ...]
    kind: str
    clients: str
    payload: int
    envelope: int
    rules: dict[str, str] = field(default_factory=dict)
    personal: tuple[str, ...] = ()
    thinned: bool = False
    note: str = ""
    chain: str = field(default="", compare=False)
    body: Body = field(default=b"", repr=False)

    @classmethod
    def of(
        cls,
        envelope: Envelope,
        attempt: int,
        receivers: tuple[str, ...],
        size: Size,
        keep: bool,
        **more: Any,
    ) -> Record:
        """Return the record of what an envelope carried, now. Its body only where it is kept."""
        return cls(
            seq=envelope.seq,
            round=envelope.round,
            step=envelope.step,
            attempt=attempt,
            seconds=round(time.time(), 3),
            sender=envelope.sender,
            receivers=receivers,
            kind=envelope.kind,
            clients=str(envelope.clients),
            payload=size.payload,
            envelope=size.envelope,
            thinned=not keep,
            body=envelope.body if keep else b"",
            **more,
        )

    @property
    def up(self) -> bool:
        """Return whether the message went to the server."""
        return self.receivers == ("server",)

    def fields(self) -> dict[str, Tensor | Scalar]:
        """Return the message's values. Raise an error if its body was thinned out."""
        if self.thinned:
            raise RunFolderError(f"message {self.seq} was thinned out of this transcript")
        from securefg.protocol.codec import decode_fields  # who only writes needs no tensors

        return decode_fields(self.body)


_COVERED = tuple(f.name for f in dataclass_fields(Record) if f.name not in ("chain", "body"))


_KEYS: dict[str, Any] = {
    name: (kind, ...) for name, kind in get_type_hints(Record).items() if name in _COVERED
}
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_Head = create_model("_Head", __config__=_STRICT, **_KEYS, format=(int, ...), link=(str, ...))
"""A header as it is stored, with every key; nothing else is taken for one."""


class TranscriptWriter:
    """A writer that appends records. `position` is where a resumed run cuts off what it will say
    again. `chain` is the last link if it is known, and then the file is not read again. Otherwise
    the beginning of a record that a killed process left at the end is cut off, because records
    behind it could not be read."""

    def __init__(self, folder: Path, position: int | None = None, chain: str | None = None) -> None:
        make_private_folder(folder)
        path = folder / "messages.bin"
        if position is not None and path.exists():
            os.truncate(path, min(position, path.stat().st_size))
        if chain is None and (whole := unfinished_after(folder)) is not None:
            os.truncate(path, whole)
        self._chain = last_link(folder) if chain is None else chain
        self._file: BinaryIO = open(path, "ab", opener=_open_private)  # noqa: SIM115

    @property
    def position(self) -> int:
        """Return where the next record begins, in bytes."""
        return self._file.tell()

    @property
    def chain(self) -> str:
        """Return the last link so far."""
        return self._chain

    def append(self, record: Record) -> None:
        """Write a record and link it to all before it."""
        said = {name: getattr(record, name) for name in _COVERED}
        head, self._chain = chain_line(self._chain, said, record.body)
        checksum = zlib.crc32(record.body, zlib.crc32(head))
        self._file.write(_PREFIX.pack(MAGIC, len(head), len(record.body), checksum))
        self._file.write(head)
        self._file.write(record.body)

    def flush(self) -> None:
        """Hand what was appended to the system, so that readers of the file see it."""
        self._file.flush()

    def sync(self) -> None:
        """Write everything to the disk, so that it outlives the machine's end."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _open_private(path: str, flags: int) -> int:
    """Open a file that its owner alone reads. Close one that was open to others."""
    handle = os.open(path, flags, PRIVATE)
    os.fchmod(handle, PRIVATE)
    return handle


def read_transcript(folder: Path) -> Iterator[Record]:
    """Yield the records, one at a time. Stop with a warning if the file is torn or damaged."""
    path, end = _file_in(folder), 0
    for end, record, _ in _iterate_records(path):  # noqa: B007
        yield record
    if end < path.stat().st_size:
        warnings.warn(_torn_message(path, end), stacklevel=2)


def _file_in(folder: Path) -> Path:
    if not (folder / "messages.bin").exists():
        raise RunFolderError(f"{folder}: no transcript here (wanted a file messages.bin)")
    return folder / "messages.bin"


def _torn_message(path: Path, end: int) -> str:
    return f"{path} is cut off or damaged after byte {end}; what comes before it was read"


def checked_records(folder: Path) -> Iterator[tuple[int, Record]]:
    """Yield every whole record and where it ends. Raise an error at a record that breaks the
    chain."""
    link = _START
    for end, record, text in _iterate_records(folder / "messages.bin"):
        if record.chain != next_link(link, text, record.body):
            raise RunFolderError(f"{folder}: message {record.seq} is not the one that was recorded")
        link = record.chain
        yield end, record


def _iterate_records(path: Path) -> Iterator[tuple[int, Record, bytes]]:
    """Yield records with their ends and the text that their links cover, up to the first that is
    not whole. None where there is no file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        while (prefix := file.read(_PREFIX.size)) and (found := _read_record(file, prefix)):
            yield file.tell(), *found


def last_link(folder: Path) -> str:
    """Return the chain's last link, or its start for an empty transcript."""
    link = _START
    if (folder / "messages.bin").exists():
        for record in read_transcript(folder):
            link = record.chain
    return link


def unfinished_after(folder: Path) -> int | None:
    """Return where the whole records end if the file ends within one more record, as a killed
    process leaves it. Return None for a whole file and for one that is damaged before its end."""
    path, end = folder / "messages.bin", 0
    if not path.exists():
        return None
    for end, _, _ in _iterate_records(path):  # noqa: B007
        pass
    with path.open("rb") as file:
        file.seek(end)
        rest = file.read()
    if not rest or not rest.startswith(MAGIC[: len(rest)]) or MAGIC in rest[1:]:
        return None
    if len(rest) < _PREFIX.size:
        return end
    _, head_length, body_length, _ = _PREFIX.unpack_from(rest)
    return end if _PREFIX.size + head_length + body_length > len(rest) else None


def broken_link(folder: Path, last: str | None = None) -> str | None:
    """Return where the chain breaks, in words, or None if it is whole and ends in `last`, if
    given."""
    path, end, link = _file_in(folder), 0, _START
    for end, record, text in _iterate_records(path):  # noqa: B007
        if record.chain != next_link(link, text, record.body):
            return f"message {record.seq} is not the one that was recorded"
        link = record.chain
    if end < path.stat().st_size:
        return _torn_message(path, end)
    if last is not None and link != last:
        return "messages at its end were taken away or added"
    return None


def _read_record(file: BinaryIO, prefix: bytes) -> tuple[Record, bytes] | None:
    if len(prefix) < _PREFIX.size:
        return None
    magic, head_length, body_length, checksum = _PREFIX.unpack(prefix)
    left = os.fstat(file.fileno()).st_size - file.tell()
    if magic != MAGIC or head_length + body_length > left:
        return None
    head, body = file.read(head_length), file.read(body_length)
    if zlib.crc32(body, zlib.crc32(head)) != checksum or len(body) != body_length:
        return None
    return _parse_record(file.name, head, body)


def _parse_record(name: str, head: bytes, body: bytes) -> tuple[Record, bytes] | None:
    """Return a record, and the text of its header that its link covers, or None if the header is
    not one that a writer of this version makes. Refuse a header of another format by its number."""
    try:
        text, link, _ = split_line(head)
        parsed = dict(_Head.model_validate_json(head))
        Clients.parse(parsed["clients"])
    except OtherFormat as error:
        raise RunFolderError(f"{name}: {error}") from None
    except ValueError:
        return None
    del parsed["format"], parsed["link"]
    return Record(**parsed, chain=link, body=body), text


@dataclass(frozen=True)
class Adversary:
    """An adversary: the server, a set of colluding clients, the wire, or an outsider.

    Parsed from `server`, `client:3,5`, `wire`, `outsider`.
    """

    kind: str
    clients: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Adversary:
        """Return the adversary that text such as `client:3,5` names. Raise for other text."""
        kind, _, rest = text.partition(":")
        try:
            numbers = frozenset(Clients.parse(rest).numbers())
        except ValueError:
            numbers = frozenset()
        known = kind in ("server", "client", "wire", "outsider")
        if not known or (kind == "client") != bool(numbers) or bool(rest) != bool(numbers):
            raise RunFolderError(
                f"adversary: found {shown(text)}; expected server, client:3,5, wire or outsider"
            )
        return cls(kind, numbers)


@dataclass(frozen=True)
class Seen:
    """A message as one adversary saw it: a header without body, and the fields it could read.

    `fields` is None where it could read none, or where the transcript was thinned.
    """

    header: Record
    clients: Clients
    fields: dict[str, Tensor | Scalar] | None


def view(folder: Path, adversary: Adversary) -> Iterator[Seen]:
    """Yield exactly what the adversary saw. The wire is encrypted: it shows times and sizes. An
    outsider sees no message, and has only the released model."""
    for record in read_transcript(folder):
        clients = Clients.parse(record.clients)
        opened = record.sender == "sum"  # what the server computed from a session; it never crossed
        if adversary.kind == "server":
            readable = not record.thinned and record.kind != "dropped"
            yield Seen(_keep_header(record), clients, record.fields() if readable else None)
        elif adversary.kind == "wire" and not opened and record.kind != "dropped":
            yield Seen(_visible_outside(record), Clients(()), None)
        elif adversary.kind == "client" and not opened and record.kind != "dropped":
            yield from _seen_by_clients(record, clients, adversary.clients)


def _keep_header(record: Record) -> Record:
    return replace(record, body=b"", thinned=True)


def _visible_outside(record: Record) -> Record:
    """Return what encryption leaves visible: when, between whom, and how much."""
    return replace(_keep_header(record), kind="", clients="", rules={}, personal=(), note="")


def _seen_by_clients(
    record: Record, clients: Clients, own_clients: frozenset[int]
) -> Iterator[Seen]:
    """Their own rows of what has a row per client; all of what went to everybody."""
    from torch import Tensor  # who only writes needs no tensors

    numbers = clients.numbers()
    rows = [row for row, number in enumerate(numbers) if number in own_clients]
    if not rows:
        return
    mine, fields = Clients.of([numbers[row] for row in rows]), None
    if not record.thinned:
        record_fields = record.fields()
        by_client = record_fields.keys() if record.up else set(record.personal)
        fields = {
            name: value[rows] if name in by_client and isinstance(value, Tensor) else value
            for name, value in record_fields.items()
        }
    yield Seen(replace(_keep_header(record), clients=str(mine)), mine, fields)


def total_bytes(records: Iterator[Record]) -> tuple[Size, Size]:
    """Return bytes up and down."""
    up, down = Size(), Size()
    for record in records:
        size = Size(record.payload, record.envelope)
        up, down = (up + size, down) if record.up else (up, down + size)
    return up, down
