"""Graphs that are drawn for a run, as in the GFL-APPNP paper: csbm and subcora.

The contextual stochastic block model has three tasks (Deshpande et al., "Contextual Stochastic
Block Models", 2018). Every node has a tag v_i = +1 or -1. Two nodes are joined with probability
c_in / N where their tags agree and c_out / N where not,

    c_in = d + lambda sqrt(d),   c_out = d - lambda sqrt(d),

and a sample of node i is  x = sqrt(mu / N) y u + Z / sqrt(p),  u ~ N(0, I/p),  Z ~ N(0, I),  where
y is the node's tag (dnc, snc) or the sample's own label (sc): +1 with probability 0.7 at a node
tagged +1, with probability 0.3 at one tagged -1. Label +1 is class 1, label -1 is class 0.

The paper draws training sets until one is connected and balanced, which for 20 of 200 nodes takes
too long; here the set is grown along edges. Above `DENSE_NODES` nodes pairs are drawn by their
number, not one by one, in time and memory that grow with the edges, and the training set is a
balanced random one.

subCora is a small subgraph of Cora around a connected training set.
Draw 800 nodes of Cora; a connected component of these with 30 to 50 nodes, all classes, and class
counts whose standard deviation is at most 2.5 is the training set (else draw again). As many
validation nodes come from those within two hops of it, in Cora. The paper then says "select
testing nodes so that our subCora graph has 300 nodes in total" and not from where: `test_from`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from securefg.data.dataset import boolean_mask
from securefg.data.graph import Graph, Split, undirected
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import numpy_stream
from securefg.foundation.unique import sorted_unique
from securefg.settings.data import CsbmSettings, SubCoraSettings

SC_AGREEMENT = 0.7
MAX_TRIES, MAX_SPARSE_TRIES = 1000, 3
DENSE_NODES = 5000

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Adjacency = csr_array[np.bool_]


def draw_csbm(settings: CsbmSettings, seed: int) -> Graph:
    """Graph and split from `topology_seed`, features and sample labels from the run's seed."""
    tags, adjacency, split = _draw_topology(settings)
    stream = numpy_stream(seed, "csbm", "features")
    signs = _draw_signs(settings, tags, stream)
    edges = torch.from_numpy(np.stack(adjacency.nonzero()).astype(np.int64))
    features, labels = _draw_features(settings, signs, stream), (signs + 1) // 2
    if settings.task == "dnc":
        features = features[:, 0]
    if settings.task != "sc":
        labels = labels[:, 0]
    graph = Graph(
        name="csbm",
        features=torch.from_numpy(features.astype(np.float32)),
        edge_index=undirected(edges, settings.num_nodes),
        labels=torch.from_numpy(labels),
        split=split,
        num_classes=2,
    )
    return _with_numbers(graph, settings, tags, seed) if settings.edge_features else graph


def _with_numbers(graph: Graph, settings: CsbmSettings, tags: Ints, seed: int) -> Graph:
    """The graph with numbers on its edges, alike from both ends, and their sums where asked for."""
    source, target = graph.edge_index.numpy()
    stream = numpy_stream(seed, "csbm", "edges")
    drawn = stream.random((len(source), settings.edge_features))
    first = np.minimum(source, target) * settings.num_nodes + np.maximum(source, target)
    _, once, place = np.unique(first, return_index=True, return_inverse=True)
    drawn = drawn[once][place]
    both = (tags[source] > 0) & (tags[target] > 0)
    numbers = torch.from_numpy(np.where(both[:, None], drawn**0.5, drawn).astype(np.float32))
    numbered_graph = replace(graph, edge_features=numbers)
    if not settings.edge_sums or graph.features.dim() != 2:
        return numbered_graph
    sums = torch.zeros(graph.num_nodes, settings.edge_features)
    sums.index_add_(0, graph.edge_index[0], numbers / settings.edge_features**0.5)
    return replace(numbered_graph, features=torch.cat([graph.features, sums], 1))


def _draw_topology(settings: CsbmSettings) -> tuple[Ints, Adjacency, Split]:
    """Drawn again until the graph (sc) or a balanced training set (dnc, snc) is connected."""
    stream = numpy_stream(settings.topology_seed, "csbm", "topology")
    dense = settings.num_nodes <= DENSE_NODES
    tries = MAX_TRIES if dense else MAX_SPARSE_TRIES
    for _ in range(tries):
        tags = stream.choice([-1, 1], settings.num_nodes)
        adjacency = (_block_model if dense else _sparse_block_model)(settings, tags, stream)
        split = _draw_split(settings, tags, adjacency, stream)
        if split is not None:
            return tags, adjacency, split
    raise ConfigError(
        f"data.csbm: no graph of {tries} with {settings.num_nodes} nodes of degree "
        f"{settings.degree} was connected where {settings.task} needs it; raise degree"
    )


def _block_model(settings: CsbmSettings, tags: Ints, stream: np.random.Generator) -> Adjacency:
    c_in, c_out = _link_rates(settings)
    c = np.where(np.equal.outer(tags, tags), c_in, c_out)
    drawn = stream.random(c.shape) < c / settings.num_nodes
    upper = np.triu(drawn, 1)
    return csr_array(upper | upper.T)


def _sparse_block_model(
    settings: CsbmSettings, tags: Ints, stream: np.random.Generator
) -> Adjacency:
    """The same law by blocks: how many pairs are joined is binomial, and which is uniform."""
    (c_in, c_out), n = _link_rates(settings), settings.num_nodes
    plus, minus = np.flatnonzero(tags > 0), np.flatnonzero(tags < 0)
    parts = []
    for first_nodes, other, rate in (
        (plus, plus, c_in),
        (minus, minus, c_in),
        (plus, minus, c_out),
    ):
        same = first_nodes is other
        pairs = (
            len(first_nodes) * (len(first_nodes) - 1) // 2
            if same
            else len(first_nodes) * len(other)
        )
        chosen = _draw_distinct(pairs, int(stream.binomial(pairs, rate / n)), stream)
        row, column = _triangle_pair(chosen) if same else np.divmod(chosen, len(other))
        parts.append(np.stack([first_nodes[row], other[column]]))
    source, target = np.concatenate(parts, 1)
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    return csr_array((np.ones(len(ends[0]), bool), ends), shape=(n, n))


def _link_rates(settings: CsbmSettings) -> tuple[float, float]:
    spread = settings.graph_signal * settings.degree**0.5
    return settings.degree + spread, settings.degree - spread


def _draw_distinct(among: int, count: int, stream: np.random.Generator) -> Ints:
    """`count` different numbers below `among`, every such set as likely as any other."""
    drawn = sorted_unique(stream.integers(among, size=count)) if count else np.array([], np.int64)
    while len(drawn) < count:
        more = stream.integers(among, size=count - len(drawn))
        drawn = sorted_unique(np.concatenate([drawn, more]))
    return drawn


def _triangle_pair(number: Ints) -> tuple[Ints, Ints]:
    """Pair `number` of (1, 0), (2, 0), (2, 1), (3, 0), ...; exact, though the root is rounded."""
    row = ((1 + np.sqrt(1 + 8 * number.astype(np.float64))) / 2).astype(np.int64)
    row -= row * (row - 1) // 2 > number
    row += row * (row + 1) // 2 <= number
    return row, number - row * (row - 1) // 2


def _draw_split(
    settings: CsbmSettings, tags: Ints, adjacency: Adjacency, stream: np.random.Generator
) -> Split | None:
    if settings.task == "sc":
        return _split_samples(settings) if is_connected(adjacency) else None
    num_train = round(settings.train_share * settings.num_nodes)
    if settings.num_nodes > DENSE_NODES:
        return _split_nodes(settings, _draw_balanced(tags, num_train, stream), stream)
    train = grow_training_set(adjacency.toarray(), tags, num_train, stream)
    return None if train is None else _split_nodes(settings, train, stream)


def _draw_balanced(tags: Ints, size: int, stream: np.random.Generator) -> Ints:
    """`size` nodes, half of either tag."""
    halves = [(np.flatnonzero(tags > 0), size // 2), (np.flatnonzero(tags < 0), size - size // 2)]
    return np.concatenate([stream.choice(own, count, replace=False) for own, count in halves])


def _split_nodes(settings: CsbmSettings, train: Ints, stream: np.random.Generator) -> Split:
    rest = stream.permutation(np.setdiff1d(np.arange(settings.num_nodes), train))
    val, test = np.split(rest, [round(settings.val_share * settings.num_nodes)])
    masks = (
        boolean_mask(torch.from_numpy(part), settings.num_nodes) for part in (train, val, test)
    )
    return Split(*masks)


def _split_samples(settings: CsbmSettings) -> Split:
    """The first samples of every node train, the next validate: samples are drawn alike."""
    position = torch.arange(settings.samples_per_node).repeat(settings.num_nodes, 1)
    train_end = round(settings.train_share * settings.samples_per_node)
    val_end = train_end + round(settings.val_share * settings.samples_per_node)
    train, test = position < train_end, position >= val_end
    return Split(train, ~train & ~test, test)


def _draw_signs(settings: CsbmSettings, tags: Ints, stream: np.random.Generator) -> Ints:
    """The labels -1 and +1 of all samples, (N, S)."""
    signs = np.repeat(tags[:, None], settings.samples_per_node, 1)
    if settings.task != "sc":
        return signs
    return np.where(stream.random(signs.shape) < SC_AGREEMENT, signs, -signs)


def _draw_features(
    settings: CsbmSettings, signs: Ints, stream: np.random.Generator
) -> NDArray[np.float64]:
    p = settings.num_features
    u = stream.normal(0, p**-0.5, p)
    Z = stream.standard_normal((*signs.shape, p))
    x: NDArray[np.float64] = (settings.mu / settings.num_nodes) ** 0.5 * signs[
        ..., None
    ] * u + Z / p**0.5
    return x


def is_connected(adjacency: Adjacency) -> bool:
    """Whether every node reaches every other."""
    from scipy.sparse.csgraph import connected_components  # loaded where it is used

    found = connected_components(adjacency.astype(np.int8), directed=False)
    return int(found[0]) == 1


def grow_training_set(
    adjacency: Bools, tags: Ints, size: int, stream: np.random.Generator
) -> Ints | None:
    """`size` nodes, half of either tag (one more of a random tag if odd), joined by edges.

    Every node of the graph, in random order, is tried as the first. None if no try succeeds.
    """
    fuller = stream.choice([-1, 1])
    quota = {-fuller: size // 2, fuller: size - size // 2}
    for first in stream.permutation(len(tags)):
        grown = _grow_graph(adjacency, tags, int(first), dict(quota), stream)
        if len(grown) == size:
            return grown
    return None


def _grow_graph(
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


MAX_SUBCORA_TRIES = 20_000
MAX_DEPTH = 2


def draw_subcora(cora: Graph, settings: SubCoraSettings, seed: int) -> Graph:
    """The subgraph of the run's seed; its nodes in ascending order of their numbers in Cora."""
    stream = numpy_stream(seed, "subcora")
    ends = cora.edge_index.numpy()
    size = (cora.num_nodes, cora.num_nodes)
    adjacency = csr_matrix((np.ones(ends.shape[1], np.int8), (ends[0], ends[1])), size)
    train = _training_set(adjacency, cora.labels.numpy(), settings, stream)
    val, test = _draw_others(adjacency, train, settings, stream)
    parts = [torch.from_numpy(np.sort(part)) for part in (train, val, test)]
    split = Split(*(boolean_mask(part, cora.num_nodes) for part in parts))
    whole = Graph("subcora", cora.features, cora.edge_index, cora.labels, split, cora.num_classes)
    return whole.subgraph(torch.cat(parts).sort().values)


def _training_set(
    adjacency: csr_matrix, labels: Ints, settings: SubCoraSettings, stream: np.random.Generator
) -> Ints:
    from scipy.sparse.csgraph import connected_components  # loaded where it is used

    num_classes = int(labels.max()) + 1
    for _ in range(MAX_SUBCORA_TRIES):
        drawn = np.sort(stream.choice(len(labels), settings.drawn_nodes, replace=False))
        _, component = connected_components(adjacency[drawn][:, drawn], directed=False)
        for which in np.flatnonzero(_of_size(component.astype(np.int64), settings)):
            found: Ints = drawn[component == which]
            counts = np.bincount(labels[found], minlength=num_classes)
            if counts.min() > 0 and counts.std() <= settings.class_spread:
                return found
    raise ConfigError(
        f"data.subcora: none of {MAX_SUBCORA_TRIES} draws of {settings.drawn_nodes} nodes had a "
        f"component of {settings.least_train} to {settings.most_train} nodes with all classes "
        f"and a spread of at most {settings.class_spread}; allow more"
    )


def _of_size(component: Ints, settings: SubCoraSettings) -> NDArray[np.bool_]:
    sizes = np.bincount(component)
    fits: NDArray[np.bool_] = (sizes >= settings.least_train) & (sizes <= settings.most_train)
    return fits


def _draw_others(
    adjacency: csr_matrix, train: Ints, settings: SubCoraSettings, stream: np.random.Generator
) -> tuple[Ints, Ints]:
    """Validation nodes within two hops of the training set, and test nodes."""
    depth = _hop_depths(adjacency, train)
    near = stream.permutation(np.flatnonzero((depth > 0) & (depth <= MAX_DEPTH)))
    val, rest = near[: len(train)], near[len(train) :]
    num_test = settings.num_nodes - len(train) - len(val)
    if settings.test_from == "anywhere":
        rest = stream.permutation(np.setdiff1d(np.arange(len(depth)), [*train, *val]))
        return val, rest[:num_test]
    further = stream.permutation(np.flatnonzero(depth > MAX_DEPTH))
    further = further[np.argsort(depth[further], kind="stable")]
    return val, np.concatenate([rest, further])[:num_test]


def _hop_depths(adjacency: csr_matrix, start: Ints) -> Ints:
    """Hops from the nearest of `start`; -1 where there is no way."""
    depth = np.full(adjacency.shape[0], -1, np.int64)
    depth[start], hops = 0, 0
    frontier = np.isin(np.arange(len(depth)), start)
    while frontier.any():
        hops += 1
        frontier = (adjacency @ frontier > 0) & (depth < 0)
        depth[frontier] = hops
    return depth
