"""Thinning: which rounds keep the bodies of their messages in the transcript."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

from securefg.foundation.units import bytes_text
from securefg.protocol.transcript import TranscriptWriter, read_transcript

GIB = 2**30


class Thinning:
    """Every n-th round keeps its bodies, or fewer rounds where the bodies would pass a limit.

    Round 1 is always kept. Its size decides how far apart the other kept rounds are, so a resumed
    run decides as the first attempt did.

    every   the distance that the config asks for; 0 keeps no round
    limit   how many GiB the bodies of the whole run may take
    rounds  how many rounds the run has at most
    """

    def __init__(
        self, every: int, limit: float, rounds: int, folder: Path, writer: TranscriptWriter
    ) -> None:
        self._every, self._limit, self._rounds = every, int(limit * GIB), rounds
        self._folder, self._writer = folder, writer
        self._distance: int | None = None

    def keeps_bodies(self, round: int) -> bool:
        """Return whether the bodies of a round stay. The first answer past round 1 may warn."""
        if self._every == 0 or round <= 1:
            return self._every > 0
        if self._distance is None:
            self._distance = self._settle_distance()
        return self._distance > 0 and round % self._distance == 0

    def _settle_distance(self) -> int:
        """Return the distance between kept rounds. 0 keeps none but the first."""
        self._writer.flush()
        size = first_round_size(self._folder)
        distance = distance_within(self._every, self._rounds, size, self._limit)
        if distance != self._every:
            kept = f"every {distance} rounds" if distance else "round 1 alone"
            warnings.warn(
                f"output.transcript_limit: message bodies of {kept} are recorded, not of every "
                f"{self._every}: a round takes {bytes_text(size)}, and the limit is "
                f"{bytes_text(self._limit)}; audits cannot test the other rounds",
                stacklevel=2,
            )
        return distance


def first_round_size(folder: Path) -> int:
    """Return how many bytes the bodies of round 1, and of what came before it, take."""
    size = 0
    for record in read_transcript(folder):
        if record.round > 1:
            break
        size += len(record.body)
    return size


def distance_within(every: int, rounds: int, size: int, limit: int) -> int:
    """Return the smallest multiple of `every` whose rounds fit under the limit with round 1."""
    asked = rounds // every
    if asked == 0 or size == 0:
        return every
    fitting = limit // size - 1
    if asked <= fitting:
        return every
    return every * math.ceil(asked / fitting) if fitting > 0 else 0
