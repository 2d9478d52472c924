"""Whom a game is about: a client that is large enough to say something and small enough to play."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import CannotAttack
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_NODES = 500


def victim(truth: Truth, adversary: Adversary) -> int:
    """The largest client of at most so many nodes, or the smallest of all; never a colluder."""
    sizes = {
        k: int(size)
        for k, size in enumerate(truth.experiment.partition.sizes)
        if k not in adversary.clients and size
    }
    if not sizes:
        raise CannotAttack("no client is left to attack: all collude, or hold nothing")
    fitting = [k for k, size in sizes.items() if size <= MANY_NODES]
    return max(fitting, key=lambda k: sizes[k]) if fitting else min(sizes, key=lambda k: sizes[k])


def other_nodes(truth: Truth, client: int) -> NDArray[np.int64]:
    """The nodes that somebody holds and this client does not."""
    held = np.unique(truth.experiment.partition.nodes.numpy())
    own = truth.experiment.shards[client].node_ids.numpy()
    found: NDArray[np.int64] = np.setdiff1d(held, own)
    return found
