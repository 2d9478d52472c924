"""subCora: small subgraphs of Cora around a connected training set, as in the GFL-APPNP paper.

Draw 800 nodes of Cora; a connected component of these with 30 to 50 nodes, all classes, and class
counts whose standard deviation is at most 2.5 is the training set (else draw again). As many
validation nodes come from those within two hops of it, in Cora. The paper then says "select
testing nodes so that our subCora graph has 300 nodes in total" and not from where: `test_from`.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from securefg.data.dataset import mask
from securefg.data.graph import Graph, Split
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import numpy_stream
from securefg.settings.data import SubCoraSettings

MAX_TRIES = 20_000
MAX_DEPTH = 2

Ints = NDArray[np.int64]


def draw_subcora(cora: Graph, settings: SubCoraSettings, seed: int) -> Graph:
    """The subgraph of the run's seed; its nodes in ascending order of their numbers in Cora."""
    stream = numpy_stream(seed, "subcora")
    ends = cora.edge_index.numpy()
    size = (cora.num_nodes, cora.num_nodes)
    adjacency = csr_matrix((np.ones(ends.shape[1], np.int8), (ends[0], ends[1])), size)
    train = _training_set(adjacency, cora.labels.numpy(), settings, stream)
    val, test = _others(adjacency, train, settings, stream)
    parts = [torch.from_numpy(np.sort(part)) for part in (train, val, test)]
    split = Split(*(mask(part, cora.num_nodes) for part in parts))
    whole = Graph("subcora", cora.features, cora.edge_index, cora.labels, split, cora.num_classes)
    return whole.subgraph(torch.cat(parts).sort().values)


def _training_set(
    adjacency: csr_matrix, labels: Ints, settings: SubCoraSettings, stream: np.random.Generator
) -> Ints:
    num_classes = int(labels.max()) + 1
    for _ in range(MAX_TRIES):
        drawn = np.sort(stream.choice(len(labels), settings.drawn_nodes, replace=False))
        _, component = connected_components(adjacency[drawn][:, drawn], directed=False)
        for which in np.flatnonzero(_of_size(component.astype(np.int64), settings)):
            found: Ints = drawn[component == which]
            counts = np.bincount(labels[found], minlength=num_classes)
            if counts.min() > 0 and counts.std() <= settings.class_spread:
                return found
    raise ConfigError(
        f"data.subcora: none of {MAX_TRIES} draws of {settings.drawn_nodes} nodes had a component "
        f"of {settings.least_train} to {settings.most_train} nodes with all classes and a spread "
        f"of at most {settings.class_spread}; allow more"
    )


def _of_size(component: Ints, settings: SubCoraSettings) -> NDArray[np.bool_]:
    sizes = np.bincount(component)
    fits: NDArray[np.bool_] = (sizes >= settings.least_train) & (sizes <= settings.most_train)
    return fits


def _others(
    adjacency: csr_matrix, train: Ints, settings: SubCoraSettings, stream: np.random.Generator
) -> tuple[Ints, Ints]:
    """Validation nodes within two hops of the training set, and test nodes."""
    depth = _depths(adjacency, train)
    near = stream.permutation(np.flatnonzero((depth > 0) & (depth <= MAX_DEPTH)))
    val, rest = near[: len(train)], near[len(train) :]
    num_test = settings.num_nodes - len(train) - len(val)
    if settings.test_from == "anywhere":
        rest = stream.permutation(np.setdiff1d(np.arange(len(depth)), [*train, *val]))
        return val, rest[:num_test]
    further = stream.permutation(np.flatnonzero(depth > MAX_DEPTH))
    further = further[np.argsort(depth[further], kind="stable")]
    return val, np.concatenate([rest, further])[:num_test]


def _depths(adjacency: csr_matrix, start: Ints) -> Ints:
    """Hops from the nearest of `start`; -1 where there is no way."""
    depth = np.full(adjacency.shape[0], -1, np.int64)
    depth[start], hops = 0, 0
    frontier = np.isin(np.arange(len(depth)), start)
    while frontier.any():
        hops += 1
        frontier = (adjacency @ frontier > 0) & (depth < 0)
        depth[frontier] = hops
    return depth
