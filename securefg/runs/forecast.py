"""A forecast of a run's time and disk, from public sizes, before it starts."""

from __future__ import annotations

from securefg.foundation.units import bytes_text, plural
from securefg.runs.assembly import Setup
from securefg.settings.forecast import forecast_seconds, round_duration

BASE_BYTES = 4 * 2**20
"""A run's page, books, checkpoints and shards, where all are small."""
BYTES_PER_RECORDED = 3
"""Bytes in the folder per uploaded byte: the message, what the server sends back, checkpoints."""
BYTES_PER_NUMBER = 4


def describe_expected(setup: Setup) -> str:
    """Return the line that says what to expect of a run, and what the guess rests on."""
    config, public = setup.config, setup.public
    seconds = forecast_seconds(config, public.num_nodes, public.num_clients)
    lasts = "" if seconds is None else f"{round_duration(seconds)} on an idle core and "
    rounds = plural(count_recorded_rounds(setup), "recorded round")
    return (
        f"expect roughly {lasts}{bytes_text(round_size(forecast_bytes(setup)))} of disk "
        f"(from public sizes: {rounds} of uploads)"
    )


def count_recorded_rounds(setup: Setup) -> int:
    """Return how many rounds are kept with their messages' bodies."""
    every = setup.config.output.transcript_every
    return -(-setup.config.training.rounds // every) if every else 0


def forecast_bytes(setup: Setup) -> float:
    """Return the guessed size of the run's folder."""
    config, public = setup.config, setup.public
    releases = setup.method.releases(config.method, config.training, public)
    numbers = sum(one.dim * one.count * (one.senders or public.num_clients) for one in releases)
    recorded = count_recorded_rounds(setup) / config.training.rounds
    return BASE_BYTES + BYTES_PER_RECORDED * BYTES_PER_NUMBER * numbers * recorded


def round_size(size: float) -> float:
    """Return a size with one significant digit of its unit."""
    unit = 2**30 if size >= 2**30 else 2**20
    count = size / unit
    digits = len(str(int(count))) - 1
    return round(count, -digits) * unit
