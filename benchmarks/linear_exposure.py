"""What sums give away by linear algebra alone, before any noise: GFL-APPNP, one hop, FedGL.

    OPENBLAS_NUM_THREADS=1 python benchmarks/linear_exposure.py

Prints the figures of docs/research/masking_figures.md. `exposed` is the share of contributions
that the adversary gets exactly from the sums it was sent. On a busy machine one thread factorises
ten times as fast as two that wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from securefg.data.datasets import load
from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.data.partitions import draw_partition
from securefg.secagg.exposure import (
    Exposure,
    Weights,
    linear_exposure,
    subset_exposure,
)
from securefg.settings.data import DataSettings
from securefg.settings.partition import SharesSettings

TELEPORT, HOPS = 0.1, 10


def one_hop(graph: Graph) -> sparse.csr_array:
    """A_hat = D^-1/2 (A + I) D^-1/2 in float64: float32 would hide which sums are dependent."""
    row, column = graph.edge_index.numpy()
    loops = sparse.eye_array(graph.num_nodes)
    adjacency = sparse.csr_array((np.ones(row.size), (row, column)), loops.shape) + loops
    root = sparse.diags_array(adjacency.sum(axis=1) ** -0.5)
    return sparse.csr_array(root @ adjacency @ root)


def appnp(a_hat: sparse.csr_array) -> np.ndarray:
    """A_tilde = sum_{i<M} alpha (1-alpha)^i A_hat^i + (1-alpha)^M A_hat^M."""
    power = np.eye(a_hat.shape[0])
    total = np.zeros_like(power)
    for hop in range(HOPS):
        total += TELEPORT * (1 - TELEPORT) ** hop * power
        power = a_hat @ power
    return total + (1 - TELEPORT) ** HOPS * power


def without_own(weights: np.ndarray) -> np.ndarray:
    """What a recipient k is sent, sum_{j != k}; its own term it adds itself."""
    return weights - np.diag(np.diag(weights))


def shown(name: str, weights: Weights) -> Exposure:
    start = time.perf_counter()
    exposure = linear_exposure(weights)
    worst = exposure.amplification[exposure.exposed].max(initial=0.0)
    print(
        f"{name:<44} exposed {exposure.share:6.1%}  "
        f"condition number {exposure.condition_number:8.1f}  "
        f"noise amplified up to {worst:8.1f}  ({time.perf_counter() - start:.1f} s)"
    )
    return exposure


def each_recipient(name: str, weights: Weights) -> None:
    """One recipient and its own sum alone: exposed where it has a single contributor."""
    contributors = np.diff(sparse.csr_array(weights).indptr)
    single, few = np.count_nonzero(contributors == 1), np.count_nonzero(contributors < 3)
    print(
        f"{name:<44} of {len(contributors)} recipients {single} have one contributor, "
        f"{few} fewer than three"
    )


@dataclass(frozen=True, eq=False)
class NodeExposure:
    """What sums per node give away: a node's row with one honest holder is that holder's row.

    num_holders  honest clients, those outside the adversary, that hold each node
    exposed      the sum was released, and one honest client made it
    counts       entry h: the number of nodes with h honest holders
    """

    num_holders: NDArray[np.int64]
    exposed: NDArray[np.bool_]
    counts: tuple[int, ...]

    @property
    def share(self) -> float:
        """The exposed part of the nodes that any honest client holds."""
        held = np.count_nonzero(self.num_holders)
        return float(np.count_nonzero(self.exposed)) / held if held else 0.0


def node_exposure(
    holders: Sequence[ArrayLike],
    num_nodes: int,
    colluders: Collection[int] = (),
    min_holders: int = 1,
) -> NodeExposure:
    """Exposure of sums indexed by node: `holders[k]` are the nodes of client k.

    Colluding clients subtract their own rows. A sum is released from `min_holders` holders on,
    counted over all clients, since nobody can tell who colludes. A client that falls silent after
    the count is missing from the sums, which comes to the same: name it among the colluders.
    """
    total, honest = np.zeros((2, num_nodes), np.int64)
    for client, nodes in enumerate(holders):
        held = np.asarray(nodes, np.int64)
        total[held] += 1
        honest[held] += client not in colluders
    exposed = (honest == 1) & (total >= min_holders)
    counts = np.bincount(honest, minlength=len(holders) + 1)
    return NodeExposure(honest, exposed, tuple(counts.tolist()))


def held_nodes(partition: Partition) -> None:
    clients = [nodes.numpy() for nodes in partition.clients]
    for min_holders in (1, 2):
        for colluders in (0, 1, len(clients) - 1):
            shares, counts = [], None
            for last in range(len(clients)):
                group = [(last + 1 + i) % len(clients) for i in range(colluders)]
                found = node_exposure(clients, partition.num_nodes, group, min_holders)
                shares.append(found.share)
                counts = counts or found.counts
            print(
                f"FedGL, min_holders {min_holders}, server and {colluders} clients: exposed "
                f"{np.mean(shares):6.1%} of the honest clients' nodes"
                + (f"; nodes by number of holders {counts}" if colluders == 0 else "")
            )


def expected_single(shares: tuple[float, ...]) -> float:
    """Share of the held nodes that one client holds, for shares drawn at random."""
    absent = np.prod([1 - s for s in shares])
    return float(sum(s / (1 - s) for s in shares) * absent / (1 - absent))


def holder_sets(partition: Partition) -> None:
    """A client's constant, summed over the holders of a node: of how many nodes a holder follows.

    FedGL's masked census opens the count of holders. A census of sizes is what it must not open.
    """
    holds = np.zeros((partition.num_nodes, partition.num_clients))
    holds[partition.nodes.numpy(), partition.owners.numpy()] = 1
    held = holds.any(1)
    sizes = partition.sizes.numpy().astype(np.float64)
    for name, constants in {"count": np.ones_like(sizes), "sum of sizes": sizes}.items():
        sums = (holds @ constants)[:, None]
        found = subset_exposure(constants[:, None], sums, np.array([1e-6]))
        share = np.mean(found.holders.any(1)[held])
        print(f"FedGL, {name} of a node's holders: a holder follows for {share:.1%} of the nodes")


def main() -> None:
    graph = load(DataSettings(name="cora"), seed=0)
    a_hat = one_hop(graph)
    a_tilde = appnp(a_hat)
    shown("one hop, A_hat", a_hat)
    shown("one hop, without the recipient's own term", without_own(a_hat.toarray()))
    shown("APPNP, A_tilde", a_tilde)
    shown("APPNP, without the recipient's own term", without_own(a_tilde))
    each_recipient("one hop, a recipient alone", without_own(a_hat.toarray()))
    each_recipient("APPNP, a recipient alone", without_own(a_tilde))
    settings = SharesSettings()
    partition = draw_partition(graph, settings, seed=0)
    print(f"FedGL, expected share with one holder {expected_single(settings.shares):.1%}")
    held_nodes(partition)
    holder_sets(partition)
    both = linear_exposure(np.ones((1, 4)), known=[0, 1, 2])
    print(f"PPFL-GNN, four clients, a mean, three collude: exposed {both.share:.0%} of the rest")


if __name__ == "__main__":
    main()
