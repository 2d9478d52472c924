"""A client mod that lets only a clipped, noised and booked update leave.

    app = ClientApp(mods=[SiteGate()])

Protects the site's whole update against everybody who sees it, per client. A mod travels with the
app, so it is the app author's word: a site relies on it for apps that it reviewed and allowed
(`flower-supernode --trusted-entities`). The settings come from the site's own folder.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    Context,
    Error,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from numpy.typing import NDArray

from securefg.flower.homes import METHOD, find_home, read_gate
from securefg.foundation.errors import PrivacyError
from securefg.foundation.files import write_atomically
from securefg.site.books import SiteBooks
from securefg.site.gate import Update

Next = Callable[[Message, Context], Message]
REFUSED: Final = "the site sends nothing"
REFUSED_CODE: Final = 2
"""Flower's code of a client app that failed; all failures and refusals look alike."""
METRICS, WEIGHT_KEY = "metrics", "num-examples"
NODE_FILE: Final = "node.json"


class SiteGate:
    """The mod. It refuses every message but training, and answers every failure alike.

    What leaves is one ArrayRecord with the names and shapes that came and the constant
    `num-examples: 1`. Arrays of whole numbers (BatchNorm's counters) leave as they came.
    """

    def __call__(self, message: Message, context: Context, call_next: Next) -> Message:
        """Return the gated reply, or the one constant refusal."""
        try:
            return self._answer_message(message, context, call_next)
        except BaseException as error:  # the text of an exception may quote data
            _note_failure(context, error)
            return Message(Error(code=REFUSED_CODE, reason=REFUSED), reply_to=message)

    def _answer_message(self, message: Message, context: Context, call_next: Next) -> Message:
        home = find_home(context.node_config)
        gate, run = read_gate(home), f"{METHOD}-{context.run_id}"
        name, base = _model_in(message)
        note_node(home, context)

        def train() -> Update:
            # Replies take numbers and names from the task: the app may write into a copy alone.
            reply = call_next(copy.deepcopy(message), context)
            return Update(_update_in(reply, base), is_change=False)

        left = gate.pass_on(run, base, train)  # that training failed is booked like an update
        arrays = {key: Array(np.asarray(left[key])) for key in base}
        content = {
            name: ArrayRecord(arrays),
            METRICS: MetricRecord({WEIGHT_KEY: 1}),
        }
        return Message(RecordDict(content), reply_to=message)


class SiteNote:
    """A mod that changes nothing: it notes the node's number in the site's folder, so that the site
    can add its own samples to a recording (`add_truth`)."""

    def __call__(self, message: Message, context: Context, call_next: Next) -> Message:
        """Note the number, then let the app answer."""
        note_node(find_home(context.node_config), context)
        return call_next(message, context)


def note_node(home: Path, context: Context) -> None:
    """Write the node's number into the site's folder, where it is not there yet."""
    path = home / NODE_FILE
    text = json.dumps({"node": str(context.node_id)})
    if not path.is_file() or path.read_text() != text:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, text)


def _model_in(message: Message) -> tuple[str, dict[str, NDArray[Any]]]:
    """Return the model that came with a training task and its name. Raise for other tasks."""
    kind = str(message.metadata.message_type).partition(".")[0]
    if kind != MessageType.TRAIN:
        raise PrivacyError(f"message: found {kind!r:.40}; expected train; nothing was sent")
    return _only_arrays(message)


def _update_in(reply: Message, base: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of the app's reply; an error of the app is a failure like all others."""
    if reply.has_error():
        raise PrivacyError("reply: found an error; expected an update; nothing was sent")
    _, update = _only_arrays(reply)
    if set(update) != set(base):
        raise PrivacyError("reply: found other names than the model's; nothing was sent")
    return update


def _only_arrays(message: Message) -> tuple[str, dict[str, NDArray[Any]]]:
    records = {k: v for k, v in message.content.items() if isinstance(v, ArrayRecord)}
    if len(records) != 1:
        raise PrivacyError(f"arrays: found {len(records)} records; expected one; nothing was sent")
    ((name, record),) = records.items()
    # Copies: apps may change in place what they were sent.
    return name, {str(key): np.array(value.numpy()) for key, value in record.items()}


def _note_failure(context: Context, error: BaseException) -> None:
    """Tell the site's own people why; nothing of it leaves, and nothing here may fail."""
    try:
        books = SiteBooks(find_home(context.node_config))
        if books.home.is_dir():
            reason = f"{type(error).__name__}: {error}"
            books.note_refusal(f"{METHOD}-{context.run_id}", 1, reason, at="gate")
    except Exception:
        return
