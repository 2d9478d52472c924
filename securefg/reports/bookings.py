"""The ledger added up: for every field and protection, how often it left whom, and when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from securefg.privacy.ledger import Mechanism, Release, read_ledger
from securefg.protocol.codec import Clients


@dataclass(frozen=True)
class Booked:
    """All releases of one field under one protection.

    mechanism      as booked; `num_rows` is the largest, since clients may differ in it
    num_clients    how many clients released it
    fewest, most   releases per client, among those that released it at all
    """

    mechanism: Mechanism
    releases: int
    num_clients: int
    fewest: int
    most: int
    first_round: int
    last_round: int


class _Tally:
    def __init__(self, num_clients: int) -> None:
        self.counts: NDArray[np.int64] = np.zeros(num_clients, dtype=np.int64)
        self.rounds: set[int] = set()
        self.num_rows = 1

    def add(self, release: Release) -> None:
        for low, high in release.clients.ranges:
            self.counts[low:high] += 1
        self.rounds.add(release.round)
        self.num_rows = max(self.num_rows, release.mechanism.num_rows)

    def booked(self, mechanism: Mechanism) -> Booked:
        active = self.counts[self.counts > 0]
        return Booked(
            mechanism=replace(mechanism, num_rows=self.num_rows),
            releases=int(active.sum()),
            num_clients=len(active),
            fewest=int(active.min()),
            most=int(active.max()),
            first_round=min(self.rounds),
            last_round=max(self.rounds),
        )


def read_bookings(path: Path, num_clients: int) -> tuple[Booked, ...]:
    """Sums over a ledger file, in the order in which the fields first left."""
    tallies: dict[Mechanism, _Tally] = {}
    for release in read_ledger(path):
        if not len(release.clients):
            continue
        size = max(num_clients, _beyond(release.clients))
        key = replace(release.mechanism, num_rows=1)
        tallies.setdefault(key, _Tally(size)).add(release)
    return tuple(tally.booked(mechanism) for mechanism, tally in tallies.items())


def _beyond(clients: Clients) -> int:
    return max(high for _, high in clients.ranges)
