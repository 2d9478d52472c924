"""Pairs of clients at odds, where no evidence tells which of the two lies.

Keys are opened in the first session of a set-up alone, and only where every graph is complete.
Elsewhere, and in complaints about boxes, the server has one word against another. It leaves one
client of a pair out of a session, in turns. A liar that picks two clients or more is at odds with
more than any of them, and stays out itself. A client at odds with more than there can be liars is
named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

Pair = tuple[int, int]


class Odds:
    """The server's memory of such pairs over a run; blamed clients do not count."""

    def __init__(self, blamed: Collection[int]) -> None:
        self._blamed, self._pairs = blamed, set[Pair]()
        self._missing = set[Pair]()
        self._left_out: Counter[int] = Counter()

    def note(self, pairs: Iterable[Pair]) -> None:
        """Remember pairs of client numbers."""
        self._pairs.update((min(pair), max(pair)) for pair in pairs)

    def note_missing(self, pairs: Iterable[Pair]) -> None:
        """Remember complaints about boxes whose shares were missing in the end."""
        found = {(min(pair), max(pair)) for pair in pairs}
        self._pairs.update(found)
        self._missing.update(found)

    def has_missed(self, first_client: int, other: int) -> bool:
        """Return whether a share was missing after one complained of the other's box.

        Different tags do not count here. A liar could sign one in a later session, complain of the
        same neighbour's box in the next set-up, and keep it out of every second sum.
        """
        return (min(first_client, other), max(first_client, other)) in self._missing

    def clients_at_odds(self, clients: Collection[int], most_liars: int) -> list[int]:
        """Return those of the clients that are at odds with more than there can be liars."""
        counts = self._count_odds()
        return sorted(client for client in clients if counts[client] > most_liars)

    def part_pairs(self, pairs: Iterable[Pair]) -> set[int]:
        """Return one client or more of every pair, to stay out of a session.

        First comes who is at odds with most over the run, then who stayed out less often.
        """
        waiting, counts, out = list(pairs), self._count_odds(), set[int]()
        while waiting:
            clients = sorted({client for pair in waiting for client in pair})
            chosen = min(clients, key=lambda c: (-counts[c], self._left_out[c], c))
            out.add(chosen)
            waiting = [pair for pair in waiting if chosen not in pair]
        self._left_out.update(out)
        return out

    def _count_odds(self) -> Counter[int]:
        return Counter(c for pair in self._pairs if not set(pair) & set(self._blamed) for c in pair)
