"""A wrapper of the server's Grid that records what every strategy sends and receives.

    with Recorded(grid, "exchange", classes=10) as grid:
        FedAvg().start(grid=grid, initial_arrays=arrays, num_rounds=3)

Layers, rounds and clients are found automatically. Clients get numbers in the order in which the
server writes to them; `nodes.json` in the folder says which node has which number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid

from securefg.foundation.files import write_atomically
from securefg.protocol.recording import Recording, record

ROUND_KEY: Final = "server-round"
NODES_FILE: Final = "nodes.json"


@dataclass(frozen=True)
class Asked:
    """A message that is on its way: its round, and whether it asks for training."""

    round: int
    is_training: bool


class Recorded(Grid):  # type: ignore[misc]
    """A Grid that passes everything on to another one, and records it.

    Arguments after the folder are those of `securefg.record`.
    """

    def __init__(self, grid: Grid, folder: str | Path, **description: Any) -> None:
        self._grid, self._folder = grid, Path(folder)
        self._recording: Recording = record(folder, **{"name": "flower", **description})
        self._numbers: dict[int, int] = {}
        self._asked: dict[str, Asked] = {}
        self._batches = 0

    @property
    def recording(self) -> Recording:
        """Return the recording, for `truth` and replies of one's own."""
        return self._recording

    @property
    def run(self) -> Any:
        """Return the run of the wrapped Grid."""
        return self._grid.run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def set_run(self, run: Any) -> None:
        """Set the run of the wrapped Grid."""
        self._grid.set_run(run)

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Create a message as the wrapped Grid does."""
        return self._grid.create_message(*args, **kwargs)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes of the wrapped Grid."""
        return list(self._grid.get_node_ids())

    def get_nodes(self) -> Iterable[Any]:
        """Return the nodes of the wrapped Grid, with what it knows of them."""
        return list(self._grid.get_nodes())

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Record messages and send them."""
        going = list(messages)
        asked = self._record_sent(going)
        ids = list(self._grid.push_messages(going))
        self._asked |= dict(zip(ids, asked, strict=True))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Receive replies and record them."""
        replies = list(self._grid.pull_messages(message_ids))
        for reply in replies:
            asked = self._asked.pop(reply.metadata.reply_to_message_id, None)
            self._record_reply(reply, asked or Asked(self._batches, False))
        return replies

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Record messages, send them, and record the replies."""
        going = list(messages)
        asked = self._record_sent(going)
        by_node = dict(zip((m.metadata.dst_node_id for m in going), asked, strict=True))
        replies = list(self._grid.send_and_receive(going, timeout=timeout))
        for reply in replies:
            self._record_reply(reply, by_node[reply.metadata.src_node_id])
        return replies

    def __enter__(self) -> Recorded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._recording.close()
        numbers = {str(node): number for node, number in self._numbers.items()}
        write_atomically(self._folder / NODES_FILE, json.dumps(numbers))

    def _record_sent(self, messages: list[Message]) -> list[Asked]:
        """Record the models that a batch of messages holds, one for all equal ones."""
        if not messages:
            return []
        self._batches += 1
        asked = [self._read_task(message) for message in messages]
        to: dict[tuple[int, int], list[int]] = {}
        records: dict[tuple[int, int], ArrayRecord] = {}
        for message, task in zip(messages, asked, strict=True):
            number = self._number_of(message.metadata.dst_node_id)
            arrays = _arrays_in(message)
            if task.is_training and arrays is not None:
                key = (task.round, id(arrays))
                to.setdefault(key, []).append(number)
                records[key] = arrays
        for (number, _), arrays in ((key, records[key]) for key in to):
            clients = to[number, id(arrays)]
            self._recording.send(number, _to_numpy(arrays), clients)
        return asked

    def _read_task(self, message: Message) -> Asked:
        kind = str(message.metadata.message_type).partition(".")[0]
        return Asked(self._round_of(message), kind == MessageType.TRAIN)

    def _round_of(self, message: Message) -> int:
        """Return the strategy's own round, else the message's group, else the batch's number."""
        for held in message.content.values():
            found = held.get(ROUND_KEY) if isinstance(held, ConfigRecord) else None
            if isinstance(found, int):
                return found
        group = message.metadata.group_id
        return int(group) if group.isdigit() else self._batches

    def _record_reply(self, reply: Message, asked: Asked) -> None:
        client = self._number_of(reply.metadata.src_node_id)
        if reply.has_error():
            self._recording.reply(client, asked.round, {"error": float(reply.error.code)})
            return
        beside = _numbers_beside(reply)
        arrays = _arrays_in(reply)
        if asked.is_training and arrays is not None:
            self._recording.upload(client, asked.round, _to_numpy(arrays), beside)
        else:
            self._recording.reply(client, asked.round, beside)

    def _number_of(self, node: int) -> int:
        return self._numbers.setdefault(node, len(self._numbers))


def _arrays_in(message: Message) -> ArrayRecord | None:
    """Return the message's arrays, or None where it has none, or several records of them."""
    found = [held for held in message.content.values() if isinstance(held, ArrayRecord)]
    return found[0] if len(found) == 1 else None


def _to_numpy(record: ArrayRecord) -> dict[str, Any]:
    return {str(name): array.numpy() for name, array in record.items()}


def _numbers_beside(message: Message) -> dict[str, Any]:
    """Return all other values of a message as numbers, text as its bytes: nothing is left out."""
    held_arrays: dict[str, Any] = {}
    records = [held for held in message.content.values() if isinstance(held, ArrayRecord)]
    for key, held in message.content.items():
        if isinstance(held, MetricRecord | ConfigRecord):
            held_arrays |= {f"{key}.{name}": _as_numbers(value) for name, value in held.items()}
        elif len(records) > 1:
            held_arrays |= {f"{key}.{name}": a.numpy().reshape(-1) for name, a in held.items()}
    return held_arrays


def _as_numbers(value: Any) -> Any:
    parts = value if isinstance(value, list) else [value]
    if all(isinstance(part, int | float) for part in parts):
        return value
    joined = b"\0".join(p if isinstance(p, bytes) else str(p).encode() for p in parts)
    return list(joined)
