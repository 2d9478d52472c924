"""The schemes of dealing nodes to clients, and drawing one by its settings."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.graph import Graph, undirected
from securefg.data.partition import Partition, Scheme
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module
from securefg.foundation.streams import numpy_stream
from securefg.settings.partition import (
    GROUP,
    DirichletSettings,
    FeatureGroupSettings,
    GivenSettings,
    LouvainSettings,
    MetisSettings,
    OneNodeSettings,
    PartitionSettings,
    PublicPrivateSettings,
    RandomSettings,
    RemainingSettings,
    SharesSettings,
)

Ints = NDArray[np.int64]
MAX_TRIES = 1000
MOST_KEPT = 16
_COMMUNITIES: dict[bytes, list[Ints]] = {}


def _check_num_clients(num_clients: int, graph: Graph, min_nodes: int = 1) -> None:
    """Disjoint clients: no more of them than nodes."""
    most = graph.num_nodes // min_nodes
    if num_clients > most:
        raise ConfigError(
            f"partition.num_clients: {num_clients}; allowed for {graph.num_nodes} nodes with at "
            f"least {min_nodes} at a client: 1 to {most}"
        )


def _deal_shares(graph: Graph, settings: SharesSettings, stream: np.random.Generator) -> Partition:
    """Random shares that overlap, as FedGL samples its clients.

    Chen et al., "FedGL: Federated Graph Learning Framework with Global Self-Supervision", 2021,
    sections 5.3.1 and 5.6.3. Client k holds round(s_k N) nodes drawn at random. The paper's
    "overlapping ratio" is the share of nodes that ALL clients hold: it calls it "about 1 %" for its
    shares when they are drawn freely, and prod s_k = 1.3 % is that. With `overlap` r exactly
    round(r N) nodes are held by all, and the shares stay as they are.
    """
    sizes = [round(share * graph.num_nodes) for share in settings.shares]
    if min(sizes) < 1:
        raise ConfigError(
            f"partition.shares: {min(settings.shares)} of {graph.num_nodes} nodes is none; "
            f"allowed: shares of at least one node, {1 / graph.num_nodes:.2g}"
        )
    if settings.overlap is None:
        clients = [stream.choice(graph.num_nodes, size, replace=False) for size in sizes]
    else:
        clients = _with_common(graph.num_nodes, sizes, settings.overlap, stream)
    return Partition.of("shares", graph.num_nodes, [torch.from_numpy(c) for c in clients])


def _with_common(
    num_nodes: int, sizes: list[int], overlap: float, stream: np.random.Generator
) -> list[Ints]:
    """Every other node is barred from one client, so no node but the common ones is with all.

    Client k misses N - n_k nodes and can bar as many; the barred clients are dealt out of that.
    """
    num_common = round(overlap * num_nodes)
    _check_possible(num_nodes, sizes, num_common)
    common, rest = np.split(stream.permutation(num_nodes), [num_common])
    misses = np.repeat(np.arange(len(sizes)), num_nodes - np.array(sizes))
    barred = stream.permutation(misses)[: len(rest)]
    return [
        np.concatenate([common, stream.choice(rest[barred != k], size - num_common, replace=False)])
        for k, size in enumerate(sizes)
    ]


def _check_possible(num_nodes: int, sizes: list[int], num_common: int) -> None:
    least = max(0, sum(sizes) - (len(sizes) - 1) * num_nodes)
    if not least <= num_common <= min(sizes):
        raise ConfigError(
            f"partition.overlap: {num_common} of {num_nodes} nodes at every client; "
            f"allowed for these shares: {least} to {min(sizes)} nodes"
        )


def _public_private(
    graph: Graph, settings: PublicPrivateSettings, stream: np.random.Generator
) -> Partition:
    """Public nodes at every client, private nodes dealt out in equal parts, as PPFL-GNN does.

    The public share is drawn at random, or those of highest degree (ties by id); 0 gives K disjoint
    equal parts.
    """
    num_public = round(settings.public_share * graph.num_nodes)
    order = stream.permutation(graph.num_nodes)
    if settings.selection == "top_degree":
        public = _by_degree(graph)[:num_public]
        private = order[~np.isin(order, public)]
    else:
        public, private = np.split(order, [num_public])
    if len(private) < settings.num_clients and not num_public:
        raise ConfigError(
            f"partition.num_clients: {settings.num_clients}; allowed: 1 to {graph.num_nodes} nodes"
        )
    parts = np.array_split(private, settings.num_clients)
    clients = [torch.from_numpy(np.concatenate([public, part])) for part in parts]
    shared = torch.from_numpy(np.sort(public))
    return Partition.of("public_private", graph.num_nodes, clients, shared)


def _by_degree(graph: Graph) -> NDArray[np.int64]:
    """Nodes from the highest degree to the lowest; in a directed graph both directions count."""
    degrees = np.bincount(graph.edge_index.numpy().ravel(), minlength=graph.num_nodes)
    return np.argsort(-degrees, kind="stable")


def _one_node(graph: Graph, settings: OneNodeSettings, stream: np.random.Generator) -> Partition:
    """Every node a client, as in GFL-APPNP and nFedGNN."""
    bounds = torch.arange(graph.num_nodes + 1)
    return Partition("one_node", graph.num_nodes, nodes=bounds[:-1], offsets=bounds)


def _deal_louvain(
    graph: Graph, settings: LouvainSettings, stream: np.random.Generator
) -> Partition:
    """Communities packed into clients of about equal size.

    Blondel et al., "Fast unfolding of communities in large networks", 2008; the packing is the
    usual one of subgraph federated learning (OpenFGL, Li et al., 2024). A community above N / K
    nodes is cut; then, from the largest on, each goes to the client that has the fewest nodes.
    """
    _check_num_clients(settings.num_clients, graph)
    limit = graph.num_nodes // settings.num_clients
    groups = _cut_groups(_find_communities(graph, settings.resolution, stream), limit)
    clients = [torch.from_numpy(nodes) for nodes in _pack_groups(groups, settings.num_clients)]
    return Partition.of("louvain", graph.num_nodes, clients)


def _find_communities(graph: Graph, resolution: float, stream: np.random.Generator) -> list[Ints]:
    """Found once per process: runs, their audits and controls deal the same graph out again."""
    seed = int(stream.integers(2**32))
    known = hashlib.sha256(f"{graph.num_nodes} {resolution!r} {seed} ".encode())
    known.update(graph.edge_index.contiguous().numpy().data)
    key = known.digest()
    if key not in _COMMUNITIES:
        if len(_COMMUNITIES) >= MOST_KEPT:
            _COMMUNITIES.clear()
        _COMMUNITIES[key] = _found_communities(graph, resolution, seed)
    return _COMMUNITIES[key]


def _found_communities(graph: Graph, resolution: float, seed: int) -> list[Ints]:
    import networkx as nx  # an import that other partitions need not pay for

    network = nx.Graph()
    network.add_nodes_from(range(graph.num_nodes))
    network.add_edges_from(graph.edge_index.T.tolist())
    found = nx.community.louvain_communities(network, resolution=resolution, seed=seed)
    return [np.array(sorted(nodes), np.int64) for nodes in found]


def _cut_groups(groups: list[Ints], limit: int) -> list[Ints]:
    """Pieces of `limit` nodes and a remainder."""
    return [piece for nodes in groups for piece in np.split(nodes, range(limit, len(nodes), limit))]


def _pack_groups(groups: list[Ints], num_clients: int) -> list[Ints]:
    clients: list[list[Ints]] = [[] for _ in range(num_clients)]
    sizes = np.zeros(num_clients, np.int64)
    for nodes in sorted(groups, key=lambda nodes: (-len(nodes), int(nodes[0]))):
        smallest = int(sizes.argmin())
        clients[smallest].append(nodes)
        sizes[smallest] += len(nodes)
    return [np.concatenate(parts) for parts in clients]


def _deal_dirichlet(
    graph: Graph, settings: DirichletSettings, stream: np.random.Generator
) -> Partition:
    """Disjoint clients with skewed labels: for every class c, p_c ~ Dir(alpha 1_K) is dealt out.

    Hsu et al., "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019: client k gets a share p_ck of the nodes of class c.
    """
    _check_num_clients(settings.num_clients, graph, settings.min_nodes)
    if graph.labels.dim() != 1:
        raise ConfigError("partition.name: 'dirichlet' needs one label per node, not per sample")
    for _ in range(MAX_TRIES):
        owner = _draw_owners(graph.labels.numpy(), settings, stream)
        if np.bincount(owner, minlength=settings.num_clients).min() >= settings.min_nodes:
            clients = [torch.from_numpy(np.flatnonzero(owner == k)) for k in range(owner.max() + 1)]
            return Partition.of("dirichlet", graph.num_nodes, clients)
    raise ConfigError(
        f"partition.min_nodes: none of {MAX_TRIES} draws gave {settings.num_clients} clients "
        f"{settings.min_nodes} nodes each at alpha {settings.alpha}; lower it or raise alpha"
    )


def _draw_owners(
    labels: NDArray[np.int64], settings: DirichletSettings, stream: np.random.Generator
) -> NDArray[np.int64]:
    owner = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        nodes = stream.permutation(np.flatnonzero(labels == label))
        shares = stream.dirichlet(np.full(settings.num_clients, settings.alpha))
        ends = np.round(np.cumsum(shares) * len(nodes))
        owner[nodes] = np.minimum(
            np.searchsorted(ends, np.arange(len(nodes)), side="right"), settings.num_clients - 1
        )
    return owner


def _deal_metis(graph: Graph, settings: MetisSettings, stream: np.random.Generator) -> Partition:
    """Disjoint clients that cut as few edges as possible, through the optional package pymetis.

    Karypis and Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular
    Graphs", 1998.
    """
    _check_num_clients(settings.num_clients, graph)
    pymetis = _import_pymetis()
    options = pymetis.Options(seed=int(stream.integers(2**31)))
    cut = pymetis.part_graph(settings.num_clients, _list_neighbours(graph), options=options)
    owner = np.asarray(cut[1])
    clients = [np.flatnonzero(owner == k) for k in range(settings.num_clients)]
    if min(map(len, clients)) == 0:
        raise ConfigError(
            f"partition.num_clients: METIS left one of {settings.num_clients} clients empty; "
            "allowed: fewer clients"
        )
    return Partition.of("metis", graph.num_nodes, [torch.from_numpy(nodes) for nodes in clients])


def _import_pymetis() -> ModuleType:
    try:
        return importlib.import_module("pymetis")
    except ImportError as error:
        raise ConfigError(
            "partition.name: 'metis' needs pymetis: pip install 'securefg[metis]'; "
            "without it: louvain"
        ) from error


def _list_neighbours(graph: Graph) -> list[NDArray[np.int64]]:
    source, target = undirected(graph.edge_index, graph.num_nodes).numpy()
    bounds = np.cumsum(np.bincount(source, minlength=graph.num_nodes))[:-1]
    return np.split(target, bounds)


def _deal_random(graph: Graph, settings: RandomSettings, stream: np.random.Generator) -> Partition:
    """Disjoint clients of equal size, dealt at random: most edges lie between two of them."""
    _check_num_clients(settings.num_clients, graph)
    parts = np.array_split(stream.permutation(graph.num_nodes), settings.num_clients)
    return Partition.of("random", graph.num_nodes, [torch.from_numpy(part) for part in parts])


def _deal_given(graph: Graph, settings: GivenSettings, stream: np.random.Generator) -> Partition:
    """As the data come dealt out: by country, by bank, by a column of one's own."""
    if graph.owners is None:
        raise ConfigError(
            f"partition.name: 'given', but {graph.name} does not say who holds a node; allowed "
            "for: twitch, or a folder with clients.csv"
        )
    held = graph.owners
    if held.dim() == 1:
        held = held[:, None] == torch.arange(int(held.max()) + 1)
    clients = [column.nonzero().flatten() for column in held.T]
    return Partition.of("given", graph.num_nodes, clients)


def _feature_group(
    graph: Graph, settings: FeatureGroupSettings, stream: np.random.Generator
) -> Partition:
    """A client per column of the group. Nodes with none or several of the columns, and those of
    values with fewer than `min_nodes` nodes, are with no client."""
    end = settings.first + settings.count
    if end > graph.num_features:
        raise ConfigError(
            f"partition.count: found columns {settings.first} to {end - 1}; expected columns of "
            f"the {graph.num_features} features of {graph.name}"
        )
    has_value = graph.features[:, settings.first : end] != 0
    has_value &= has_value.sum(1, keepdim=True) == 1
    clients = [column.nonzero().flatten() for column in has_value.T]
    large = [nodes for nodes in clients if len(nodes) >= settings.min_nodes]
    if not large:
        raise ConfigError(
            f"partition.min_nodes: found {settings.min_nodes}; expected at most "
            f"{max(map(len, clients))}, the size of the largest client"
        )
    return Partition.of("feature_group", graph.num_nodes, large)


def _deal_remaining(
    graph: Graph, settings: RemainingSettings, stream: np.random.Generator
) -> Partition:
    """Draw the inner partition as it was, then take nodes and clients out. The others stay where
    they are."""
    inner = settings.inner
    whole = (_DRAWS.get(inner.name) or _outside_scheme(inner.name).draw)(graph, inner, stream)
    whole.check_fits(graph)
    _check_erased("without_nodes", settings.without_nodes, whole.num_nodes)
    _check_erased("without_clients", settings.without_clients, whole.num_clients)
    gone = torch.zeros(whole.num_nodes, dtype=torch.bool)
    gone[list(settings.without_nodes)] = True
    left = set(range(whole.num_clients)) - set(settings.without_clients)
    if not left:
        raise ConfigError("partition.without_clients: found all clients; expected some that stay")
    clients = [whole.clients[k] for k in sorted(left)]
    kept = [nodes[~gone[nodes]] for nodes in clients]
    public = None if whole.public is None else whole.public[~gone[whole.public]]
    return Partition.of("remaining", whole.num_nodes, kept, public)


def leave_out_users(graph: Graph, settings: PartitionSettings) -> tuple[Graph, PartitionSettings]:
    """Return the graph without erased users and the partition of the others, if every node is a
    user by itself. Else return both as they are.

    The server may have the graph. It must not get the links and labels of the erased again.
    """
    if not (isinstance(settings, RemainingSettings) and settings.inner.name == "one_node"):
        return graph, settings
    gone = (*settings.without_nodes, *settings.without_clients)
    _check_erased("without_clients", gone, graph.num_nodes)
    kept = torch.ones(graph.num_nodes, dtype=torch.bool)
    kept[list(gone)] = False
    if not bool(kept.any()):
        raise ConfigError("partition.without_clients: found all clients; expected some that stay")
    return graph.subgraph(kept.nonzero().flatten()), settings.inner


def _check_erased(key: str, numbers: tuple[int, ...], total: int) -> None:
    strange = [number for number in numbers if not 0 <= number < total]
    if strange:
        raise ConfigError(
            f"partition.{key}: found {strange[0]}; expected numbers from 0 to {total - 1}"
        )


_DRAWS: Mapping[str, Callable[[Graph, Any, np.random.Generator], Partition]] = MappingProxyType(
    {
        "shares": _deal_shares,
        "public_private": _public_private,
        "one_node": _one_node,
        "louvain": _deal_louvain,
        "dirichlet": _deal_dirichlet,
        "metis": _deal_metis,
        "random": _deal_random,
        "given": _deal_given,
        "feature_group": _feature_group,
        "remaining": _deal_remaining,
    }
)


def draw_partition(graph: Graph, settings: PartitionSettings, seed: int) -> Partition:
    """Deal the nodes of `graph` to clients; all randomness is the run's stream "partition"."""
    draw = _DRAWS.get(settings.name) or _outside_scheme(settings.name).draw
    partition = draw(graph, settings, numpy_stream(seed, "partition"))
    if not isinstance(partition, Partition):
        raise ConfigError(
            f"partition.name: found {type(partition).__name__} from {settings.name!r}; expected a "
            "Partition (securefg.data.partition)"
        )
    partition.check_fits(graph)
    return partition


def _outside_scheme(name: str) -> Scheme:
    """Return the PARTITION of another package's module."""
    scheme = getattr(find_module("partition.name", name, {}, GROUP), "PARTITION", None)
    if not isinstance(scheme, Scheme):
        raise ConfigError(
            f"partition.name: found {type(scheme).__name__} as PARTITION in {name!r}; expected a "
            "Scheme (securefg.data.partition)"
        )
    return scheme
