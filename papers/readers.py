"""Readers: from the folders of finished runs to one number, in a table's unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from papers.entry import Reader
from securefg.foundation.errors import RunFolderError
from securefg.runs.folder import RunFolder


def stored(folder: RunFolder, *keys: str) -> float:
    """A number of `summary.json`; refuses what is not there, by name."""
    value: Any = folder.summary().model_dump(mode="json")
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, int | float):
        path = folder.path / "summary.json"
        raise RunFolderError(f"{path}: {'.'.join(keys)}: found {value!r}; wanted a number")
    return float(value)


def global_accuracy(runs: Sequence[RunFolder]) -> float:
    """In percent, at the best validation score."""
    return 100 * stored(runs[0], "test_accuracy")


def client_accuracy(client: int) -> Reader:
    """The local goal: the released model on one client's own test nodes, in percent."""
    return lambda runs: 100 * stored(runs[0], "local_test_accuracy", "by_client", str(client))


def uplink_mebibytes(runs: Sequence[RunFolder]) -> float:
    """Payload that all clients sent together; envelopes are counted apart."""
    return stored(runs[0], "bytes", "up", "payload") / 2**20
