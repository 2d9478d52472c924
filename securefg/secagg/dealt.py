"""The sealed shares on their way through the server, and whose boxes their holders found bad."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.secagg.arrays import to_bytes
from securefg.secagg.graph import MaskGraph
from securefg.secagg.messages import Deliver
from securefg.secagg.secret import SECRET_BYTES


class Dealt:
    """What the sharers of a session dealt.

    numbers  everybody in the session, in the order of their places
    sharers  those of them whose shares count
    """

    def __init__(self, shares: Any, numbers: list[int], graph: MaskGraph) -> None:
        self.sharers: list[int] = shares.clients.numbers()
        self._graph, self._numbers = graph, numbers
        self._places = {number: place for place, number in enumerate(numbers)}
        self._row = {self._places[n]: row for row, n in enumerate(self.sharers)}
        self._columns: dict[int, dict[int, int]] = {}
        self._boxes: NDArray[np.uint8] = shares.message.boxes.numpy()
        self._digests: NDArray[np.uint8] = shares.message.share_digests.numpy()
        self._commitments: Tensor = shares.message.commitment
        self._wrapped = [to_bytes(rows) for rows in shares.message.wrapped]

    def leave_out(self, clients: Collection[int]) -> None:
        self.sharers = [n for n in self.sharers if n not in clients]

    def delivery(self) -> Deliver:
        """Every box to its holder, with what its sender said of it."""
        kept = {self._places[n] for n in self.sharers}
        shape = (len(self.sharers), self._boxes.shape[1])
        boxes = np.zeros((*shape, self._boxes.shape[2]), np.uint8)
        digests = np.zeros((*shape, self._digests.shape[2]), np.uint8)
        for row, number in enumerate(self.sharers):
            place = self._places[number]
            senders = list(enumerate(self._graph.holders(place)))
            columns = [column for column, sender in senders if sender in kept]
            near = [sender for _, sender in senders if sender in kept]
            at = [self._row[s] for s in near], [self._column(s, place) for s in near]
            boxes[row, columns], digests[row, columns] = self._boxes[at], self._digests[at]
        return Deliver(
            sharers=torch.tensor(self.sharers),
            boxes=torch.from_numpy(boxes),
            share_digests=torch.from_numpy(digests),
        )

    def _column(self, sender: int, holder: int) -> int:
        if sender not in self._columns:
            holders = self._graph.holders(sender)
            self._columns[sender] = {place: column for column, place in enumerate(holders)}
        return self._columns[sender][holder]

    def digest(self, owner: int, holder: int) -> bytes:
        """What the client at place `owner` said that it sealed for the one at `holder`."""
        row: NDArray[np.uint8] = self._digests[self._row[owner], self._column(owner, holder)]
        return row.tobytes()

    def commitment(self, owner: int) -> bytes:
        return to_bytes(self._commitments[self._row[owner]][None])[0]

    def wrapped(self, owner: int, peer: int) -> tuple[bytes, bytes]:
        """The root of a pair's masks under the owner's drop key, and the tag that it gave."""
        row = self._wrapped[self._row[owner]][self._column(owner, peer)]
        return row[:SECRET_BYTES], row[SECRET_BYTES:]

    def at_odds(self) -> list[tuple[int, int]]:
        """Pairs of sharers whose tags are of different roots: one of the two lies."""
        kept = {self._places[n] for n in self.sharers}
        return [
            (self._numbers[one], self._numbers[other])
            for one in sorted(kept)
            for other in self._graph.neighbours(one)
            if other in kept
            and one < other
            and self.wrapped(one, other)[1] != self.wrapped(other, one)[1]
        ]

    def complaints(self, ready: Any) -> Counter[int]:
        """How many holders found a client's box bad. One that finds most bad is at fault itself."""
        found: Counter[int] = Counter()
        sharers = set(self.sharers)
        for number, flags in zip(ready.clients.numbers(), ready.message.bad.tolist(), strict=True):
            senders = [self._numbers[p] for p in self._graph.holders(self._places[number])]
            named = [s for s, bad in zip(senders, flags, strict=True) if bad and s in sharers]
            if 2 * len(named) <= len(senders):
                found.update(named)
        return found
