"""Who is on the committee, in which group, and how sure it is that colluders cannot read uploads.

With groups of d + 1 members, d may be absent. The server and any coalition that misses a whole
group know nothing of that group's masks. All members but d must sign one list before any of them
opens it, so two lists have k - 2 d signers in common, and one of these is honest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb, prod

import numpy as np

from securefg.foundation.errors import ConfigError
from securefg.secagg.encoding import encode
from securefg.secagg.graph import GRINDING_BITS, SECURITY_BITS
from securefg.secagg.hypergeometric import chance_of_more
from securefg.secagg.keys import PROTOCOL
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import Secret
from securefg.settings.secagg import SecureAggregationSettings, colluders_in

KEY = "privacy.secure_aggregation.committee"
MOST_GROUPS = 63
RARE = Fraction(1, 2 ** (SECURITY_BITS + GRINDING_BITS))


@dataclass(frozen=True)
class Committee:
    """Members in the order of their groups, each of `absent` + 1 members."""

    members: tuple[int, ...]
    absent: int

    @property
    def num_groups(self) -> int:
        """Return into how many additive shares every mask falls."""
        return len(self.members) // (self.absent + 1)

    @property
    def colluding(self) -> int:
        """Return how many members may collude with the server, whoever they are."""
        return self.num_groups - 1

    @property
    def quorum(self) -> int:
        """Return how many members must sign a list of clients before it is opened."""
        return len(self.members) - self.absent

    def group_of(self, member: int) -> int:
        """Return the group whose share this member holds."""
        return self.members.index(member) // (self.absent + 1)

    @property
    def num_signers_of_two(self) -> int:
        """Return how many colluding members suffice for two lists of one sum."""
        return len(self.members) - 2 * self.absent

    def is_read_by(self, coalition: Sequence[int]) -> bool:
        """Return whether these members and the server together read single uploads."""
        own = {self.group_of(m) for m in coalition if m in self.members}
        signers = len(set(coalition) & set(self.members))
        return len(own) == self.num_groups or signers >= self.num_signers_of_two

    def in_words(self) -> str:
        """Return what the committee protects from, and what it does not."""
        groups = ", ".join(
            str(list(self.members[start : start + self.absent + 1]))
            for start in range(0, len(self.members), self.absent + 1)
        )
        lies = "" if self.absent else ". Nobody notices a member that sends a wrong sum of masks"
        return (
            f"a committee of {len(self.members)} clients in {self.num_groups} groups ({groups}): "
            f"any {self.colluding} of them and the server read no upload. With one member of each "
            f"group, or with any {self.num_signers_of_two}, the server reads every upload, and no "
            f"epsilon holds{lies}"
        )


def seat_committee(settings: SecureAggregationSettings, identities: Sequence[bytes]) -> Committee:
    """Return the committee that every client computes by itself; the server has no say in it."""
    population, seat_rules = len(identities), settings.committee
    if seat_rules.members is not None:
        return _named_committee(
            seat_rules.members, seat_rules.absent, seat_rules.colluding, population
        )
    size = committee_size(settings, population)
    return Committee(_draw_members(tuple(identities), size), seat_rules.absent)


def check_seats(settings: SecureAggregationSettings, population: int) -> None:
    """Raise unless a committee can be seated among so many clients."""
    seat_rules = settings.committee
    if seat_rules.members is None:
        committee_size(settings, population)
    else:
        _named_committee(seat_rules.members, seat_rules.absent, seat_rules.colluding, population)


def committee_size(settings: SecureAggregationSettings, population: int) -> int:
    """Return how many members a drawn committee has. Raise where there are too few clients."""
    seat_rules, marked = settings.committee, colluders_in(population, population, settings.corrupt)
    for groups in range(seat_rules.colluding + 1, MOST_GROUPS + 1):
        size = groups * (seat_rules.absent + 1)
        if (
            size <= population
            and failure_bound(population, marked, groups, seat_rules.absent) <= RARE
        ):
            return size
        if size > population:
            break
    raise ConfigError(
        f"{KEY}: found {population} clients of which {marked} may collude; expected more clients, "
        f"fewer absent members than {seat_rules.absent}, fewer colluders (corrupt), or "
        "named members"
    )


@lru_cache(maxsize=256)
def failure_bound(population: int, marked: int, groups: int, absent: int) -> Fraction:
    """Return a bound on the chance that a random committee does not hide single uploads.

    Colluders sit in every group (inclusion and exclusion over the groups without any), or they are
    so many that two lists can both be signed.
    """
    size, each = groups * (absent + 1), absent + 1
    free = population - marked

    def chance_spared(count: int) -> Fraction:
        """The chance that the members of `count` given groups are all honest."""
        return prod(
            (Fraction(max(free - i, 0), population - i) for i in range(count * each)),
            start=Fraction(1),
        )

    signed = ((-1) ** j * comb(groups, j) * chance_spared(j) for j in range(groups + 1))
    in_all = sum(signed, start=Fraction(0))
    return in_all + chance_of_more(population, marked, size, size - 2 * absent - 1)


def _named_committee(
    members: tuple[int, ...], absent: int, colluding: int, population: int
) -> Committee:
    least, each = (colluding + 1) * (absent + 1), absent + 1
    if len(members) < least or len(members) % each:
        raise ConfigError(
            f"{KEY}.members: found {len(members)}; expected at least {least} in whole groups of "
            f"{each} (absent + 1)"
        )
    if len(set(members)) != len(members) or not all(0 <= m < population for m in members):
        raise ConfigError(
            f"{KEY}.members: found {list(members)}; expected different clients below {population}"
        )
    return Committee(members, absent)


@lru_cache(maxsize=8)
def _draw_members(identities: tuple[bytes, ...], size: int) -> tuple[int, ...]:
    """Return the first clients in an order that all identities together decide.

    The config is no part of the seed: whoever writes it would try until an order suits.
    """
    seed = hashlib.sha256(encode((PROTOCOL, "committee", identities))).digest()
    words = Keystream(Secret(seed)).read(8 * len(identities))
    order = np.argsort(np.frombuffer(words, "<u8"), kind="stable")
    return tuple(int(client) for client in order[:size])
