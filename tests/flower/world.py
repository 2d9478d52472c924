"""Messages, contexts and a Grid whose nodes answer at once: Flower's own types, no processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
MODEL = {"w": np.zeros((3, 40), np.float32), "b": np.zeros(3, np.float32)}
Train = Callable[[int, dict[str, Any]], dict[str, Any]]


def array_record(arrays: dict[str, Any]) -> ArrayRecord:
    from flwr.app import Array

    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def task(
    arrays: dict[str, Any] = MODEL, number: int = 1, node: int = 7, kind: str = MessageType.TRAIN
) -> Message:
    content = RecordDict(
        {"arrays": array_record(arrays), "config": ConfigRecord({"server-round": number})}
    )
    return Message(content=content, dst_node_id=node, message_type=kind)


def context(home: Path | None, run: int = 1, **run_config: Any) -> Context:
    node_config = {} if home is None else {"securefg-home": str(home)}
    return Context(run, 7, node_config, RecordDict(), run_config)


def answer(message: Message, arrays: dict[str, Any], **metrics: float) -> Message:
    content = RecordDict({"arrays": array_record(arrays), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=message)


class NearGrid(Grid):
    """A Grid whose nodes answer inside the call."""

    def __init__(self, nodes: Iterable[int], reply: Callable[[Message], Message]) -> None:
        self._nodes, self._reply = list(nodes), reply
        self._waiting: dict[str, Message] = {}
        self.run = None

    run: Any = None

    def set_run(self, run: Any) -> None:
        self.run = run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return self._nodes

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            ids.append(f"m{len(self._waiting)}")
            message.metadata.__dict__["_message_id"] = ids[-1]
            self._waiting[ids[-1]] = self._from_node(message)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._waiting[one] for one in message_ids]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return [self._from_node(message) for message in messages]

    def _from_node(self, message: Message) -> Message:
        reply = self._reply(message)
        reply.metadata.__dict__["_src_node_id"] = message.metadata.dst_node_id
        return reply
