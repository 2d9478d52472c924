"""Whether a recorded upload's noise is that of a seed that somebody would try."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from torch import Tensor

from audits.generators import FIRST, Rows, first_normals
from audits.guesses import (
    BEFORE,
    clock_seeds,
    guessed_sources,
    likely_seeds,
    likeness_test,
    near_seeds,
    small_space,
)
from audits.noise_law import LawTest
from securefg.protocol.codec import Clients

STARTING = 10.0
"""Seconds before a run's first message in which its parties may have read a clock."""


@dataclass(frozen=True)
class FirstUpload:
    """The first client's noise in the first upload of a field, in standard deviations.

    A client's noise does not hang on who shares its host, so that one row is drawn of each guess.

    began, seconds  when the run's first message, and this one, were recorded
    """

    noise: Tensor
    client: Clients
    stream: tuple[str | int, ...]
    began: float
    seconds: float


def seed_test(run_seed: int, upload: FirstUpload, by_rows: bool) -> LawTest:
    """Known numbers, and what a clock showed since the run began, a minute before the upload at
    most."""
    now = int(upload.seconds)
    seeds = [*likely_seeds(run_seed), *range(now - BEFORE, now + 1)]
    flat = upload.noise.reshape(1, -1)
    shape, width = upload.noise.shape if by_rows else flat.shape, min(flat.shape[1], FIRST)
    sources = guessed_sources(seeds, discrete=False)
    guesses = np.zeros((len(sources), FIRST), np.float32)
    for guess, source in zip(guesses, sources, strict=True):
        drawn = source.normal(shape, upload.client, upload.stream)
        guess[:width] = drawn.reshape(-1)[:width].numpy()
    early = max(upload.began - STARTING, upload.seconds - BEFORE)
    tables = [guesses, _clock_space(run_seed, early, upload.seconds), small_space()]
    return likeness_test(flat[0].numpy(), tables)


@lru_cache(maxsize=1)
def _clock_space(run_seed: int, early: float, last: float) -> Rows:
    """Of near seeds, and of clocks between two moments; fields of one upload share it."""
    return first_normals([*near_seeds(run_seed), *clock_seeds(early, last)])
