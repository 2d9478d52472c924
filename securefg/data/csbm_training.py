"""Connected, balanced training sets in a graph of two blocks.

The paper draws nodes until they happen to be connected and balanced, which for 20 of 200 nodes
would take longer than anyone can wait; here the set is grown along edges instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def connected(adjacency: Bools) -> bool:
    """Whether every node reaches every other."""
    return int(connected_components(csr_matrix(adjacency, dtype=np.int8), directed=False)[0]) == 1


def grow_training_set(
    adjacency: Bools, tags: Ints, size: int, stream: np.random.Generator
) -> Ints | None:
    """`size` nodes, half of either tag (one more of a random tag if odd), joined by edges.

    Every node of the graph, in random order, is tried as the first; None if no try succeeds.
    """
    fuller = stream.choice([-1, 1])
    quota = {-fuller: size // 2, fuller: size - size // 2}
    for first in stream.permutation(len(tags)):
        grown = _grow(adjacency, tags, int(first), dict(quota), stream)
        if len(grown) == size:
            return grown
    return None


def _grow(
    adjacency: Bools, tags: Ints, first: int, quota: dict[int, int], stream: np.random.Generator
) -> Ints:
    """Add random neighbours whose tag is still wanted, until none is left to add."""
    chosen: list[int] = []
    candidates = np.array([first]) if quota[int(tags[first])] else np.array([], np.int64)
    while candidates.size:
        node = int(stream.choice(candidates))
        chosen.append(node)
        quota[int(tags[node])] -= 1
        wanted = np.isin(tags, [tag for tag, left in quota.items() if left > 0])
        reach = adjacency[chosen].any(0) & wanted
        reach[chosen] = False
        candidates = np.flatnonzero(reach)
    return np.array(chosen, np.int64)
