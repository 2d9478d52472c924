"""How many neighbours a client masks with, and how many of them must answer: (k, t).

Bell et al. 2020, "Secure Single-Server Aggregation with (Poly)Logarithmic Overhead", section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from securefg.foundation.errors import ConfigError
from securefg.settings.secagg import Threat

SECURITY_BITS: Final = 40
CORRECTNESS_BITS: Final = 20
COMPLETE_UP_TO: Final = 32
LEAST_CLIENTS: Final = 3

_ROUNDING: Final = 1e-14


@dataclass(frozen=True)
class GraphParameters:
    """Each of `num_clients` masks with `degree` others; `threshold` shares open a secret."""

    num_clients: int
    degree: int
    threshold: int

    @property
    def complete(self) -> bool:
        return self.degree == self.num_clients - 1


@lru_cache(maxsize=256)
def choose(num_clients: int, threat: Threat) -> GraphParameters:
    """The complete graph up to 32 clients; above, the least even degree k that is safe.

    Safe means, with sigma = 40 and eta = 20: the honest survivors stay connected but for
    2^-(sigma+1); some client has t or more corrupt neighbours with at most 2^-(sigma+1); and
    some client has fewer than t living ones with at most 2^-eta. Corrupt and living neighbours
    are hypergeometric, and t is the least that fits. k grows as log n.
    """
    if num_clients < LEAST_CLIENTS:
        raise ConfigError(f"secure aggregation: {num_clients} clients, wanted >= {LEAST_CLIENTS}")
    if num_clients > COMPLETE_UP_TO:
        tails = _Tails(num_clients, threat)
        for degree in range(2, num_clients - 1, 2):
            threshold = tails.threshold(degree)
            if threshold is not None:
                return GraphParameters(num_clients, degree, threshold)
    return GraphParameters(num_clients, num_clients - 1, _complete_threshold(num_clients, threat))


def fewest(parameters: GraphParameters, threat: Threat) -> int:
    """How many clients must be left: the threshold, or all but those that may fall silent."""
    if parameters.complete:
        return parameters.threshold
    return parameters.num_clients - threat.num_dropped(parameters.num_clients)


def _complete_threshold(num_clients: int, threat: Threat) -> int:
    """floor(2n/3) + 1 of n holders, moved into what corruption and drop-outs leave room for."""
    least = threat.threshold_above(threat.num_corrupt(num_clients), num_clients)
    most = num_clients - threat.num_dropped(num_clients)
    if least > most:
        raise ConfigError(
            f"{num_clients} clients, {threat}: a threshold must lie between {least} (corrupt) and "
            f"{most} (living); lower corrupt or dropout, or take more clients"
        )
    return min(max(2 * num_clients // 3 + 1, least), most)


class _Tails:
    """Hypergeometric tails for growing degrees, on tables of log binomials made once."""

    def __init__(self, num_clients: int, threat: Threat) -> None:
        self.n, self.threat = num_clients, threat
        self.corrupt = threat.num_corrupt(num_clients)
        self.bad = self.corrupt + threat.num_dropped(num_clients)
        alive = math.ceil((1 - threat.dropout - _ROUNDING) * num_clients)
        self.log_all = _log_binomials(num_clients)
        self.log_corrupt = _log_binomials(self.corrupt), _log_binomials(num_clients - self.corrupt)
        self.log_alive = _log_binomials(alive), _log_binomials(num_clients - alive)

    def threshold(self, degree: int) -> int | None:
        """The least safe threshold at this degree, if there is one."""
        if self._log_disconnected(degree) >= -(SECURITY_BITS + 1) * math.log(2):
            return None
        corrupt = np.cumsum(self._pmf(self.log_corrupt, degree)[::-1])[::-1]
        alive = np.cumsum(self._pmf(self.log_alive, degree))
        # Up to `likely` corrupt neighbours must be reckoned with, and `most` living ones are sure.
        likely = int(np.count_nonzero(corrupt > 2.0 ** -(SECURITY_BITS + 1) / self.n)) - 1
        most = int(np.count_nonzero(alive <= 2.0**-CORRECTNESS_BITS / self.n))
        least = self.threat.threshold_above(likely, degree)
        return least if least <= most else None

    def _log_disconnected(self, degree: int) -> float:
        """Union bound over two gaps of k/2 neighbours on the ring, all of them bad.

        ln [n (n - k - 1) / 2 * C(bad, k) / C(n, k)]: cutting a Harary graph takes two such gaps.
        """
        if degree > self.bad:
            return -math.inf
        gaps = math.log(self.n) + math.log(self.n - degree - 1) - math.log(2)
        all_bad = math.lgamma(self.bad + 1) - math.lgamma(self.bad - degree + 1)
        return gaps + all_bad + math.lgamma(self.n - degree + 1) - math.lgamma(self.n + 1)

    def _pmf(
        self, logs: tuple[NDArray[np.float64], NDArray[np.float64]], degree: int
    ) -> NDArray[np.float64]:
        """P[j of k draws are marked] = C(K, j) C(n - K, k - j) / C(n, k) for j = 0 … k."""
        marked, unmarked = (_padded(table, degree + 1) for table in logs)
        pmf: NDArray[np.float64] = np.exp(marked + unmarked[::-1] - self.log_all[degree])
        return pmf


def _log_binomials(total: int) -> NDArray[np.float64]:
    """ln C(total, j) for j = 0 … total."""
    j = np.arange(total + 1, dtype=np.float64)
    table: NDArray[np.float64] = gammaln(total + 1.0) - gammaln(j + 1.0) - gammaln(total - j + 1.0)
    return table


def _padded(table: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """The head of a table; beyond its end there is no way to draw, ln 0."""
    head = table[:length]
    return np.concatenate([head, np.full(length - len(head), -np.inf)])
