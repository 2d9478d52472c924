"""Flower's LocalDpMod: clip the update, add Gaussian noise by the classical formula.

    python -m venv flower && flower/bin/pip install flwr securefg
    flower/bin/securefg audit mechanism defences.flower_local_dp

The classical formula sigma = S sqrt(2 ln(1.25 / delta)) / epsilon is proved for epsilon below 1;
the mod takes any. Claimed is epsilon 10; `--set claim.relation=replaced` measures what it is for
those who take `sensitivity = clipping_norm` for the distance between any two updates.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.mechanisms.callables import Claim

EPSILON, DELTA, CLIP = 10.0, 1e-5, 1.0

CLAIM = Claim(epsilon=EPSILON, delta=DELTA, norm=CLIP, size=40, noise="gaussian")


def release(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A client's reply through the mod itself; the model that the server sent is zero."""
    from flwr.app import ArrayRecord, Message, RecordDict
    from flwr.clientapp.mod import LocalDpMod
    from flwr.supercore.task_identity import TaskIdentity

    logging.disable(logging.CRITICAL)
    values = values if values.any() else values + 1e-12  # the mod divides by the update's norm
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1

    def content(array: NDArray[np.float64]) -> Any:
        return RecordDict({"model": ArrayRecord([np.asarray(array, np.float64)])})

    mod = LocalDpMod(clipping_norm=CLIP, sensitivity=CLIP, epsilon=EPSILON, delta=DELTA)
    asked = Message(content(np.zeros_like(values)), dst_node_id=1, message_type="train")
    reply = mod(asked, None, lambda request, context: Message(content(values), reply_to=request))
    (record,) = reply.content.array_records.values()
    return np.asarray(record.to_numpy_ndarrays()[0], np.float64)
