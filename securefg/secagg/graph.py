"""Who masks with whom, who holds whose shares, and how many of them must answer: (k, t).

The graph is the randomly permuted ring of Bell et al. 2020, "Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead". Its threshold also holds where the adversary picks, knowing the graph,
who falls silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from securefg.foundation.errors import ConfigError
from securefg.secagg.hypergeometric import chance_of_more, estimate_most_marked, most_marked
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import Secret
from securefg.settings.secagg import Threat

SECURITY_BITS: Final = 40
GRINDING_BITS: Final = 40
"""A server that draws graphs until one suits it, by choosing colluders' keys and whom to ask, is
allowed 2^40 tries."""

CORRECTNESS_BITS: Final = 20
LEAST_DEGREE: Final = 32
LEAST_CLIENTS: Final = 3
MostMarked = Callable[[int, int, int, Fraction], int]


@dataclass(frozen=True)
class GraphParameters:
    """Each of `num_clients` masks with `degree` others; `threshold` shares open a secret."""

    num_clients: int
    degree: int
    threshold: int

    @property
    def complete(self) -> bool:
        """Whether every client masks with every other."""
        return self.degree == self.num_clients - 1


@lru_cache(maxsize=256)
def choose_parameters(num_clients: int, threat: Threat) -> GraphParameters:
    """Return the least even degree from 32 on that is safe, else everybody; t about 2/3 of them.

    Safe: a client answers only where t of its k neighbours signed the same survivors, and

        t > k/2 + c     c colluders sit within k/2 places on one side of any client, or fewer, but
                        for 2^-40 after 2^40 tries at the graph (hypergeometric)
        2 t > k + c'    likewise c' among all k: no two stories find t listeners each
        t <= k - s      s of the k are silent, or fewer, but for 2^-20. The silent are the drop-outs
                        at random and, on top, all colluders: these may upload and then keep their
                        shares and signatures to themselves

    An opened seed needs more than k/2 + c holders that answer. By the first line an honest one of
    them sits on either side of the client, and it verified t signers of its own story.
    """
    if num_clients < LEAST_CLIENTS:
        raise ConfigError(f"secure aggregation: {num_clients} clients, wanted >= {LEAST_CLIENTS}")
    for degree in range(LEAST_DEGREE, num_clients - 1, 2):
        least, most = _sparse_bounds(num_clients, degree, threat, estimate_most_marked)
        if least <= most:
            least, most = _sparse_bounds(num_clients, degree, threat, most_marked)
        if least <= most:
            return GraphParameters(num_clients, degree, _threshold_between(degree, least, most))
    return _complete_graph(num_clients, threat)


def abort_bound(parameters: GraphParameters, threat: Threat, *, silent: bool = True) -> Fraction:
    """Return a bound on the chance that some client's secret finds fewer than t answering holders.

    The bound adds the exact chances of all clients. In the complete graph it is 0 or 1.

    silent  whether the colluders stay silent on top of the drop-outs
    """
    n, t = parameters.num_clients, parameters.threshold
    away = min(n - 1, _num_silent(n, threat) if silent else threat.num_dropped(n))
    if parameters.complete:
        return Fraction(int(t > n - away))
    return min(
        Fraction(1), n * chance_of_more(n - 1, away, parameters.degree, parameters.degree - t)
    )


def _num_silent(num_clients: int, threat: Threat) -> int:
    """Return how many clients may keep their shares: drop-outs, and all colluders on top."""
    return threat.num_dropped(num_clients) + threat.num_corrupt(num_clients)


def fewest_clients(parameters: GraphParameters, threat: Threat) -> int:
    """How many clients must be left: the threshold, or all but those that may fall silent."""
    if parameters.complete:
        return parameters.threshold
    return parameters.num_clients - threat.num_dropped(parameters.num_clients)


def is_always_complete(largest: int) -> bool:
    """Return whether the graphs of all cohorts up to this size are complete."""
    return largest <= LEAST_DEGREE + 1


def only_one_opens(planned: int, threat: Threat) -> bool:
    """Whether of all sessions that ask `planned` clients for the same, at most one can open, where
    whoever agreed to one is in no other and all others may be in any.

    An opened session has at least a honest clients who agreed, and any other at least l clients,
    none of whom agreed to the first: of N clients there are too few for both if a + l > N. Every
    honest survivor's seed was opened by t > k/2 of its k holders, and no holder has more than k of
    them: a > (l - c) / 2 - c with c colluders. Where everybody is a holder, a >= t - c.
    """
    least = threat.least_cohort(planned)
    corrupt = threat.num_corrupt(least)
    complete = is_always_complete(planned)
    agreed = (least + corrupt if complete else least - corrupt) // 2 + 1
    return agreed - corrupt + least > (threat.population or planned)


def _complete_graph(num_clients: int, threat: Threat) -> GraphParameters:
    """Return the complete graph. A third of colluders or more can end a round by silence: there no
    threshold is both safe and low enough, and the safe one is taken."""
    least = (num_clients + threat.num_corrupt(num_clients)) // 2 + 1
    most = num_clients - threat.num_dropped(num_clients)
    if least > most:
        raise ConfigError(
            f"secure aggregation: {num_clients} clients of which {threat.num_corrupt(num_clients)} "
            f"may collude and {threat.num_dropped(num_clients)} fall silent: a threshold must lie "
            f"between {least} and {most}; lower corrupt or dropout, or ask more clients"
        )
    most = max(least, num_clients - _num_silent(num_clients, threat))
    return GraphParameters(
        num_clients, num_clients - 1, _threshold_between(num_clients, least, most)
    )


def _threshold_between(num_holders: int, least: int, most: int) -> int:
    return min(max(2 * num_holders // 3 + 1, least), most)


def _sparse_bounds(
    num_clients: int, degree: int, threat: Threat, find_most: MostMarked
) -> tuple[int, int]:
    """Return the least threshold that is safe, and the most that the silent leave room for."""
    corrupt, others = threat.num_corrupt(num_clients), num_clients - 1
    rare = Fraction(1, 2 ** (SECURITY_BITS + GRINDING_BITS + 1) * 2 * num_clients)
    beside = find_most(others, min(corrupt, others), degree // 2, rare)
    around = find_most(others, min(corrupt, others), degree, rare)
    least = max(degree // 2 + beside, (degree + around) // 2) + 1
    away = min(others, _num_silent(num_clients, threat))
    silent = find_most(others, away, degree, Fraction(1, 2**CORRECTNESS_BITS * num_clients))
    return least, degree - silent


@dataclass(frozen=True, eq=False)
class MaskGraph:
    """Clients stand on a ring in random order; each masks with k/2 neighbours on either side.

    Bell et al. 2020, section 3. The order follows from randomness that is public but fixed
    only after the corrupt clients are: nobody chooses whom to sit beside. `order[p]` is the
    client at place p, `place[c]` the place of client c.
    """

    parameters: GraphParameters
    order: NDArray[np.int64]
    place: NDArray[np.int64]
    _near: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def drawn(cls, parameters: GraphParameters, public_seed: bytes) -> MaskGraph:
        """The same graph for all who know the 32-byte seed: places are ranks of AES-CTR words."""
        words = Keystream(Secret(public_seed)).read(8 * parameters.num_clients)
        order = np.argsort(np.frombuffer(words, "<u8"), kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return cls(parameters, order, place)

    def neighbours(self, client: int) -> tuple[int, ...]:
        """The clients that this one shares a pair mask with, in ascending order."""
        if client not in self._near:
            self._near[client] = self._clients_around(client)
        return self._near[client]

    def _clients_around(self, client: int) -> tuple[int, ...]:
        n, k = self.parameters.num_clients, self.parameters.degree
        if not 0 <= client < n:
            raise IndexError(f"client {client} is not among {n}")
        if self.parameters.complete:
            return tuple(c for c in range(n) if c != client)
        steps = np.concatenate([np.arange(-(k // 2), 0), np.arange(1, k // 2 + 1)])
        around = self.order[(self.place[client] + steps) % n]
        return tuple(int(c) for c in np.sort(around))

    def holders(self, client: int) -> tuple[int, ...]:
        """Who gets a share of the client's secrets.

        Its neighbours; in the complete graph the client too (Bonawitz et al. 2017), whose own
        share is what lets small cohorts lose a client and still reach the threshold.
        """
        if self.parameters.complete:
            return tuple(range(self.parameters.num_clients))
        return self.neighbours(client)

    def neighbours_ahead(self, client: int) -> tuple[int, ...]:
        """The neighbours that this client encapsulates a mask secret to: one end of every pair.

        They are the next half of the neighbours, on the ring or, where all are neighbours, by
        number. Opposite ends of an even circle: the lower one encapsulates.
        """
        n, k = self.parameters.num_clients, self.parameters.degree
        if not self.parameters.complete:
            at = self.place[client] + np.arange(1, k // 2 + 1)
            return tuple(int(c) for c in self.order[at % n])
        last = n // 2 if n % 2 or client < n // 2 else n // 2 - 1
        return tuple((client + step) % n for step in range(1, last + 1))

    def neighbours_behind(self, client: int) -> tuple[int, ...]:
        """The neighbours that encapsulate to this client, in ascending order."""
        ahead = set(self.neighbours_ahead(client))
        return tuple(c for c in self.neighbours(client) if c not in ahead)

    @property
    def num_ahead(self) -> int:
        """The largest number of neighbours that a client encapsulates to, or that do to it."""
        complete = self.parameters.complete
        return (self.parameters.num_clients if complete else self.parameters.degree) // 2

    def pairs(self) -> NDArray[np.int64]:
        """Every masking pair once, as rows (lower, higher), ascending."""
        n, k = self.parameters.num_clients, self.parameters.degree
        if self.parameters.complete:
            return np.stack(np.triu_indices(n, 1), axis=1)
        ends = [np.stack([self.order, np.roll(self.order, -s)], 1) for s in range(1, k // 2 + 1)]
        pairs = np.sort(np.concatenate(ends), axis=1)
        return np.stack(np.divmod(np.sort(pairs[:, 0] * n + pairs[:, 1]), n), axis=1)
