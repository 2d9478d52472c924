"""What sessions of secure aggregation came to, written down before it is used.

A round that was opened is never asked again: clients refuse, and two sums over different clients
would show the difference. A run that is taken up after a crash uses the sum that was opened.

    opened/000012-1.bin     the first masked ask of round 12
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from securefg.foundation.errors import CodecError, RunFolderError
from securefg.foundation.files import write_atomically
from securefg.protocol import codec
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message, Value

_SUM = "sum."


@dataclass(frozen=True)
class Entry:
    """The outcome of one masked ask.

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
    """One file per masked ask, in a folder of its own; None remembers nothing."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def find(self, round: int, ordinal: int) -> Entry | None:
        path = self._path(round, ordinal)
        if path is None or not path.exists():
            return None
        try:
            return _read(path.read_bytes())
        except (KeyError, ValueError, CodecError) as error:
            raise RunFolderError(f"{path}: an opened sum that cannot be read: {error}") from error

    def write(self, round: int, ordinal: int, entry: Entry) -> None:
        path = self._path(round, ordinal)
        if path is not None:
            write_atomically(path, _written(entry))

    def forget(self, upto: int) -> None:
        """Rounds that a checkpoint covers."""
        if self._folder is None:
            return
        for path in self._folder.glob("*.bin"):
            if int(path.name.partition("-")[0]) <= upto:
                path.unlink()

    def _path(self, round: int, ordinal: int) -> Path | None:
        return None if self._folder is None else self._folder / f"{round:06d}-{ordinal}.bin"


def _written(entry: Entry) -> bytes:
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


def _read(data: bytes) -> Entry:
    found = codec.decode_fields(data)
    facts = {name: found.pop(f"entry.{name}") for name in ("kind", "request", "step", "last")}
    clients, aborted = found.pop("entry.clients"), found.pop("entry.aborted")
    sums = {n.removeprefix(_SUM): v for n, v in found.items() if n.startswith(_SUM)}
    rest: dict[str, Value] = {n: v for n, v in found.items() if not n.startswith(_SUM)}
    return Entry(
        **facts,  # type: ignore[arg-type]
        clients=Clients.parse(str(clients)),
        fields=rest,
        sums={n: v for n, v in sums.items() if isinstance(v, Tensor)},
        aborted=str(aborted),
    )


def without_rows(message: Message, masked: list[str]) -> dict[str, Value]:
    """The reply, its masked fields emptied: nothing but their sum is of use."""
    values = message.values()
    rows = {n: values[n] for n in masked}
    return {**values, **{n: v[:0].clone() for n, v in rows.items() if isinstance(v, Tensor)}}
