"""Who masks with whom, who holds whose shares, and how many of them must answer: (k, t).

The graph is the randomly permuted ring of Bell et al. 2020, "Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead". Its threshold also holds where the adversary picks, knowing the graph,
who falls silent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from securefg.foundation.errors import ConfigError
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
def choose(num_clients: int, threat: Threat) -> GraphParameters:
    """The least even degree from 32 on that is safe, else everybody; t about 2/3 of the holders.

    Safe: a client answers only where t of its k neighbours signed the same survivors, and

        t > k/2 + c     c colluders sit within k/2 places on one side of any client, or fewer, but
                        for 2^-40 after 2^40 tries at the graph (hypergeometric)
        2 t > k + c'    likewise c' among all k: no two stories find t listeners each
        t <= a          a of the k are alive, or more, but for 2^-20 where drop-outs are random

    By the first, every client that answers has an honest one that answers within k/2 places on
    either side, whoever was made to fall silent: the honest stay one ring, and no part of the sum
    opens by itself.
    """
    if num_clients < LEAST_CLIENTS:
        raise ConfigError(f"secure aggregation: {num_clients} clients, wanted >= {LEAST_CLIENTS}")
    for degree in range(LEAST_DEGREE, num_clients - 1, 2):
        least, most = _sparse_bounds(num_clients, degree, threat)
        if least <= most:
            return GraphParameters(num_clients, degree, _between(degree, least, most))
    return _complete(num_clients, threat)


def fewest(parameters: GraphParameters, threat: Threat) -> int:
    """How many clients must be left: the threshold, or all but those that may fall silent."""
    if parameters.complete:
        return parameters.threshold
    return parameters.num_clients - threat.num_dropped(parameters.num_clients)


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
    always_complete = planned <= LEAST_DEGREE + 1
    agreed = (least + corrupt if always_complete else least - corrupt) // 2 + 1
    return agreed - corrupt + least > (threat.population or planned)


def _complete(num_clients: int, threat: Threat) -> GraphParameters:
    least = (num_clients + threat.num_corrupt(num_clients)) // 2 + 1
    most = num_clients - threat.num_dropped(num_clients)
    if least > most:
        raise ConfigError(
            f"secure aggregation: {num_clients} clients of which {threat.num_corrupt(num_clients)} "
            f"may collude and {threat.num_dropped(num_clients)} fall silent: a threshold must lie "
            f"between {least} and {most}; lower corrupt or dropout, or ask more clients"
        )
    return GraphParameters(num_clients, num_clients - 1, _between(num_clients, least, most))


def _between(num_holders: int, least: int, most: int) -> int:
    return min(max(2 * num_holders // 3 + 1, least), most)


def _sparse_bounds(num_clients: int, degree: int, threat: Threat) -> tuple[int, int]:
    """The least threshold that is safe, and the most that drop-outs leave room for."""
    corrupt, others = threat.num_corrupt(num_clients), num_clients - 1
    alive = others - threat.num_dropped(num_clients)
    rare = 2.0 ** -(SECURITY_BITS + GRINDING_BITS + 1) / (2 * num_clients)
    beside = _at_most(others, corrupt, degree // 2, rare)
    around = _at_most(others, corrupt, degree, rare)
    least = max(degree // 2 + beside, (degree + around) // 2) + 1
    silent = _at_most(others, others - alive, degree, 2.0**-CORRECTNESS_BITS / num_clients)
    return least, degree - silent


def _at_most(total: int, marked: int, drawn: int, rare: float) -> int:
    """The number of marked among those drawn that is passed with a probability of at most `rare`.

    P[j of the drawn are marked] = C(marked, j) C(total - marked, drawn - j) / C(total, drawn).
    """
    counts = np.arange(min(marked, drawn) + 1)
    pmf = np.exp(
        _log_binomials(marked, counts)
        + _log_binomials(total - marked, drawn - counts)
        - _log_binomials(total, np.array([drawn]))
    )
    passed = np.append(np.cumsum(pmf[::-1])[::-1][1:], 0.0)
    return int(np.argmax(passed <= rare))


def _log_binomials(total: int, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """ln C(total, j); ln 0 where j is more than there are."""
    j = np.clip(chosen, 0, total).astype(np.float64)
    table: NDArray[np.float64] = gammaln(total + 1.0) - gammaln(j + 1.0) - gammaln(total - j + 1.0)
    return np.where((chosen >= 0) & (chosen <= total), table, -np.inf)


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
            self._near[client] = self._around(client)
        return self._near[client]

    def _around(self, client: int) -> tuple[int, ...]:
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

    def ahead(self, client: int) -> tuple[int, ...]:
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

    def behind(self, client: int) -> tuple[int, ...]:
        """The neighbours that encapsulate to this client, in ascending order."""
        ahead = set(self.ahead(client))
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
