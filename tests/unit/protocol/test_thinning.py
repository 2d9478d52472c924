"""Transcripts are thinned by size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from securefg.protocol.codec import Clients, Envelope, Size, encode_fields
from securefg.protocol.thinning import GIB, Thinning, distance_within, first_round_size
from securefg.protocol.transcript import Record, TranscriptWriter

BODY = encode_fields({"weights": torch.zeros(1000)})


@contextmanager
def recorded(folder: Path, rounds: int) -> Iterator[TranscriptWriter]:
    writer = TranscriptWriter(folder)
    for number in range(1, rounds + 1):
        envelope = Envelope(
            number, number, 1, "client-0", "server", "fedavg.Update", Clients.of([0]), BODY
        )
        writer.append(Record.of(envelope, 1, ("server",), Size(), True))
    yield writer
    writer.close()


@pytest.mark.parametrize(
    ("every", "rounds", "size", "limit", "distance"),
    [
        (1, 100, 10, 10_000, 1),  # all fit
        (1, 100, 10, 1010, 1),  # just: 100 rounds and the first
        (1, 100, 10, 1009, 2),
        (10, 100, 10, 60, 20),
        (10, 100, 10, 20, 100),
        (10, 100, 10, 19, 0),  # the first alone
        (10, 100, 10, 1, 0),
        (7, 5, 10, 1, 7),  # no other round was asked for
        (3, 100, 0, 1, 3),  # empty bodies
    ],
)
def test_distance_within_limit_keeps_as_many_rounds_as_fit(
    every: int, rounds: int, size: int, limit: int, distance: int
) -> None:
    found = distance_within(every, rounds, size, limit)
    assert found == distance
    if distance and size and rounds >= every:
        kept = {1, *range(found, rounds + 1, found)}
        assert len(kept) * size <= max(limit, size)


def test_first_round_size_reads_no_later_round(tmp_path: Path) -> None:
    with recorded(tmp_path, 3):
        pass
    assert first_round_size(tmp_path) == len(BODY)


def test_thinning_under_the_limit_keeps_what_was_asked(tmp_path: Path) -> None:
    with recorded(tmp_path, 1) as writer:
        thinning = Thinning(2, 1.0, 10, tmp_path, writer)
        kept = [number for number in range(1, 11) if thinning.keeps_bodies(number)]
    assert kept == [1, 2, 4, 6, 8, 10]


def test_thinning_past_the_limit_keeps_fewer_and_warns(tmp_path: Path) -> None:
    warned = "output.transcript_limit: message bodies of every 4 "
    with recorded(tmp_path, 1) as writer:
        thinning = Thinning(1, 4.5 * len(BODY) / GIB, 12, tmp_path, writer)
        assert thinning.keeps_bodies(1)
        with pytest.warns(UserWarning, match=warned):
            assert not thinning.keeps_bodies(2)
    assert [n for n in range(1, 13) if thinning.keeps_bodies(n)] == [1, 4, 8, 12]


def test_thinning_of_a_resumed_run_decides_as_before(tmp_path: Path) -> None:
    with recorded(tmp_path, 5) as writer:
        thinning = Thinning(1, 4.5 * len(BODY) / GIB, 12, tmp_path, writer)
        with pytest.warns(UserWarning, match="output.transcript_limit"):
            assert [n for n in range(6, 13) if thinning.keeps_bodies(n)] == [8, 12]


def test_thinning_of_every_zeroth_round_keeps_none(tmp_path: Path) -> None:
    with recorded(tmp_path, 1) as writer:
        thinning = Thinning(0, 1.0, 10, tmp_path, writer)
    assert not any(thinning.keeps_bodies(number) for number in range(11))
