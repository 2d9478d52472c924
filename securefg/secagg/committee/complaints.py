"""A server's record of members that complain of clients' boxes: one word against another.

A bad box leaves no evidence. Colluding members may complain of honest clients, and clients may seal
nonsense to honest members. Whoever is at odds with more parties over the run than can collude is
named. Of any other pair the two stay out of sums in turns, and neither is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

Complaint = tuple[int, int]
"""A member, and the client whose box it calls bad."""


class Complaints:
    """The complaints of a run; those by or about a blamed client do not count."""

    def __init__(self, blamed: Collection[int]) -> None:
        self._blamed, self._pairs = blamed, set[Complaint]()
        self._turns: Counter[Complaint] = Counter()

    def note(self, complaints: Iterable[Complaint]) -> None:
        """Remember complaints of one sum."""
        self._pairs.update(complaints)

    def find_members(self, most_clients: int) -> list[int]:
        """Return the members that complained of more clients than can collude."""
        return self._parties_beyond(0, most_clients)

    def find_clients(self, most_members: int) -> list[int]:
        """Return the clients that more members complained of than can collude."""
        return self._parties_beyond(1, most_members)

    def _parties_beyond(self, end: int, most: int) -> list[int]:
        counts = Counter(pair[end] for pair in self._pairs if not set(pair) & set(self._blamed))
        return sorted(party for party, count in counts.items() if count > most)

    def choose_absent(
        self, complaints: Iterable[Complaint], can_spare: Callable[[set[int]], bool]
    ) -> tuple[set[int], set[int]]:
        """Return members and clients that stay out of one sum, one end of every complaint at least.

        can_spare  whether the sum opens without these members
        """
        members, clients = set[int](), set[int]()
        for pair in sorted(complaints):
            member, client = pair
            if member in members or client in clients:
                continue
            self._turns[pair] += 1
            if self._turns[pair] % 2 == 0 and can_spare(members | {member}):
                members.add(member)
            else:
                clients.add(client)
        return members, clients
