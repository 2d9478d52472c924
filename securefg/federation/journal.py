"""The outcomes of sessions of secure aggregation, written down before they are used.

A round that was opened is never asked again: clients refuse, and two sums over different clients
would show the difference. A run that is taken up after a crash uses the sum that was opened.

    opened/000012-1.bin     the first masked ask of round 12
    file   = "SFGO" | digest (32 bytes) | body
    digest = SHA-256("securefg opened 1" | newline | file name | newline | body)

The transcript's record of the sum, or of the abort, has the digest in its note. A file that the
transcript does not have is refused before the run goes on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from securefg.federation.recorder import ABORTED
from securefg.foundation.errors import CodecError, RunFolderError
from securefg.foundation.files import PRIVATE, make_private_folder, write_atomically
from securefg.protocol import codec
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message, Value
from securefg.protocol.transcript import Record

_SUM = "sum."
_MAGIC = b"SFGO"
_DOMAIN = b"securefg opened 1"
_DIGEST_BYTES = 32
_NAME = re.compile(r"([0-9]{6,})-([0-9]+)\.bin")


@dataclass(frozen=True)
class Entry:
    """An outcome of one masked ask.

    request  SHA-256 of the request that it answers, in hex
    step     the step at which the hosts were sent the request, and `last` that of the session
    fields   the reply's fields, those that were masked without any content
    aborted  why nothing was opened; empty where something was
    """

    kind: str
    request: str
    step: int
    last: int
    clients: Clients
    fields: dict[str, Value]
    sums: dict[str, Tensor]
    aborted: str = ""


class Journal:
    """A file per masked ask, in a folder of its own. None remembers nothing."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def find(self, round: int, ordinal: int) -> Entry | None:
        """Return the outcome of a masked ask, or None if the ask has not ended."""
        path = self._entry_path(round, ordinal)
        return None if path is None or not path.exists() else read_entry(path)[0]

    def write(self, round: int, ordinal: int, entry: Entry) -> None:
        """Write the outcome of a masked ask to the disk."""
        path = self._entry_path(round, ordinal)
        if path is not None:
            body = _encode_entry(entry)
            make_private_folder(path.parent)
            stored = _MAGIC + _digest_of(path.name, body) + body
            write_atomically(path, stored, mode=PRIVATE)

    def forget_rounds(self, upto: int) -> None:
        """Remove the files of rounds that a checkpoint covers."""
        if self._folder is None:
            return
        for path in self._folder.glob("*.bin"):
            if int(path.name.partition("-")[0]) <= upto:
                path.unlink()

    def _entry_path(self, round: int, ordinal: int) -> Path | None:
        return None if self._folder is None else self._folder / _file_name(round, ordinal)


def entry_digest(round: int, ordinal: int, entry: Entry) -> str:
    """Return the digest that the file of an entry has, in hex."""
    return _digest_of(_file_name(round, ordinal), _encode_entry(entry)).hex()


def read_entry(path: Path) -> tuple[Entry, str]:
    """Return the entry of a file and its digest. Raise an error if the file was changed."""
    data = path.read_bytes()
    start = len(_MAGIC) + _DIGEST_BYTES
    digest, body = data[len(_MAGIC) : start], data[start:]
    if not data.startswith(_MAGIC) or digest != _digest_of(path.name, body):
        raise RunFolderError(
            f"{path}: found an opened sum that was changed; expected the file as it was written: "
            "put it back, or start the run anew with --fresh"
        )
    try:
        return _decode_entry(body), digest.hex()
    except (KeyError, ValueError, CodecError) as error:
        raise RunFolderError(f"{path}: an opened sum that cannot be read: {error}") from error


@dataclass(frozen=True)
class Outcome:
    """A masked ask's outcome on record.

    is_last  whether nothing of its attempt was recorded after it
    """

    attempt: int
    round: int
    digest: str
    is_last: bool


def recorded_outcomes(records: Iterable[Record]) -> list[Outcome]:
    """Return the outcomes of all masked asks, in the order of the records."""
    outcome_rows, last = list[tuple[int, int, int, str]](), dict[int, int]()
    for at, record in enumerate(records):
        last[record.attempt] = at
        if record.sender == "sum" or record.note.startswith(ABORTED):
            digest = record.note.removeprefix(ABORTED)
            outcome_rows.append((at, record.attempt, record.round, digest))
    return [Outcome(a, r, digest, last[a] == at) for at, a, r, digest in outcome_rows]


def check_against_records(folder: Path, outcomes: Iterable[Outcome]) -> int:
    """Return how many outcomes lie in a folder. Raise an error at one that is not on record."""
    paths = sorted(folder.glob("*.bin"))
    recorded: dict[int, set[str]] = {}
    for outcome in outcomes:
        recorded.setdefault(outcome.round, set()).add(outcome.digest)
    for path in paths:
        _check_recorded(path, recorded)
    return len(paths)


def check_none_missing(
    folder: Path, outcomes: Sequence[Outcome], done: int, ended: Collection[int]
) -> None:
    """Raise an error where a file is missing that the next attempt would read.

    A crash may leave the last outcome of an attempt without its file. The next attempt then asks
    again, and writes what came of it.

    done   the round of the checkpoint; outcomes of later rounds are read
    ended  rounds that went on after their outcomes
    """
    kept = {read_entry(path)[1] for path in folder.glob("*.bin")}
    for outcome in outcomes:
        is_asked_again = any(
            o.round == outcome.round and o.attempt > outcome.attempt for o in outcomes
        )
        is_cut_off = outcome.is_last and (is_asked_again or outcome.round not in ended)
        if outcome.round > done and outcome.digest not in kept and not is_cut_off:
            raise RunFolderError(
                f"{folder}: found no file for an outcome of round {outcome.round} that the "
                f"transcript recorded; expected all{_ANEW}"
            )


def _check_recorded(path: Path, recorded: dict[int, set[str]]) -> None:
    _, digest = read_entry(path)
    named = _NAME.fullmatch(path.name)
    if named is None or digest not in recorded.get(int(named[1]), ()):
        raise RunFolderError(
            f"{path}: found another outcome than the transcript recorded; expected the same{_ANEW}"
        )


_ANEW = ": put the file back, or start the run anew with --fresh"


def _file_name(round: int, ordinal: int) -> str:
    return f"{round:06d}-{ordinal}.bin"


def _digest_of(name: str, body: bytes) -> bytes:
    return hashlib.sha256(_DOMAIN + b"\n" + name.encode() + b"\n" + body).digest()


def _encode_entry(entry: Entry) -> bytes:
    facts: dict[str, Value] = {
        "entry.kind": entry.kind,
        "entry.request": entry.request,
        "entry.step": entry.step,
        "entry.last": entry.last,
        "entry.clients": str(entry.clients),
        "entry.aborted": entry.aborted,
    }
    sums: dict[str, Value] = {_SUM + name: value for name, value in entry.sums.items()}
    return codec.encode_fields({**facts, **entry.fields, **sums})


def _decode_entry(data: bytes) -> Entry:
    decoded_fields = codec.decode_fields(data)
    facts = {
        name: decoded_fields.pop(f"entry.{name}") for name in ("kind", "request", "step", "last")
    }
    clients, aborted = decoded_fields.pop("entry.clients"), decoded_fields.pop("entry.aborted")
    sums = {n.removeprefix(_SUM): v for n, v in decoded_fields.items() if n.startswith(_SUM)}
    rest: dict[str, Value] = {n: v for n, v in decoded_fields.items() if not n.startswith(_SUM)}
    return Entry(
        **facts,  # type: ignore[arg-type]
        clients=Clients.parse(str(clients)),
        fields=rest,
        sums={n: v for n, v in sums.items() if isinstance(v, Tensor)},
        aborted=str(aborted),
    )


def without_rows(message: Message, masked: list[str]) -> dict[str, Value]:
    """Return the reply, its masked fields emptied: nothing but their sum is of use."""
    values = message.values()
    rows = {n: values[n] for n in masked}
    return {**values, **{n: v[:0].clone() for n, v in rows.items() if isinstance(v, Tensor)}}
