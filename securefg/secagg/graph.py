"""Who masks with whom, and who holds whose shares: a randomly permuted Harary graph."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from securefg.secagg.graph_parameters import GraphParameters
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import Secret


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

    def pairs(self) -> NDArray[np.int64]:
        """Every masking pair once, as rows (lower, higher), ascending."""
        n, k = self.parameters.num_clients, self.parameters.degree
        if self.parameters.complete:
            return np.stack(np.triu_indices(n, 1), axis=1)
        ends = [np.stack([self.order, np.roll(self.order, -s)], 1) for s in range(1, k // 2 + 1)]
        pairs = np.sort(np.concatenate(ends), axis=1)
        return np.stack(np.divmod(np.sort(pairs[:, 0] * n + pairs[:, 1]), n), axis=1)
