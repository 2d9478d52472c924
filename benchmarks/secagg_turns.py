"""The work that our client and Flower's both do, and how a turn of it is timed.

Flower's side imports this in an environment that has nothing of ours: numpy is all it may need.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

FLOWER = "flwr==1.41.0"
NUM_VALUES, NUM_NEIGHBOURS, NUM_SHARES, THRESHOLD = 1_000_000, 10, 101, 67
CLIP, LEVELS = 8.0, 1 << 22  # Flower's defaults: 2^22 levels over [-8, 8], modulus 2^32

Run = Callable[[], int]
"""Runs once, and gives the bytes that are sent."""

Work = dict[str, Callable[[], Run]]
"""By name: prepares a piece of work, of which the run alone is timed."""


def values() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(1, NUM_VALUES)).astype(np.float32)


def turn(prepare: Callable[[], Run], runs: int) -> tuple[float, int]:
    """CPU milliseconds of the median run, and bytes."""
    timed = []
    for _ in range(runs):
        ready = prepare()
        began = time.process_time()
        num_bytes = ready()
        timed.append(1e3 * (time.process_time() - began))
    return statistics.median(timed), num_bytes
