"""Canaries: nodes put into the graph so that an audit can ask whether they were trained on.

A canary is a node with its edges: rare words, few neighbours, all of one class, and a label of
another class, so that nothing but memory gives its label away. Each is IN by a fair coin; one that
is OUT stays in the index without edges, features or label, so that sizes tell nothing. The coins
are for audits alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from securefg.data.graph import Graph, Split, undirected
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import numpy_stream
from securefg.settings.execution import AuditSettings

DEGREE = 2
SPARSE = 0.25
WORDS = 8


@dataclass(frozen=True)
class Canaries:
    """m canaries. Canary i is node `first + i`.

    inside      (m,) bool: the coins
    features    (m, d)
    neighbours  (m, DEGREE) node ids
    labels      (m,)
    """

    first: int
    inside: Tensor
    features: Tensor
    neighbours: Tensor
    labels: Tensor

    def __repr__(self) -> str:
        return f"Canaries({len(self.labels)})"

    @property
    def nodes(self) -> Tensor:
        """The node ids of the canaries, (m,)."""
        return torch.arange(self.first, self.first + len(self.labels))

    def edges(self, chosen: Tensor) -> Tensor:
        """The edges of the chosen canaries, in one direction."""
        source = self.nodes[chosen][:, None].expand(-1, self.neighbours.shape[1])
        return torch.stack([source.flatten(), self.neighbours[chosen].flatten()])


def draw_canaries(graph: Graph, settings: AuditSettings, seed: int) -> Canaries:
    """Looks from the audit's seed, coins from the run's."""
    _check_graph(graph, settings)
    looks = numpy_stream(settings.seed, "canaries")
    coins = numpy_stream(seed, "canary coins", settings.seed)
    present = np.unique(graph.labels.numpy()[graph.labels.numpy() >= 0])
    neighbours, labels = [], []
    for _ in range(settings.canaries):
        own, theirs = looks.choice(present, 2, replace=False)
        around = np.flatnonzero(graph.labels.numpy() == theirs)
        neighbours.append(looks.choice(around, DEGREE, replace=len(around) < DEGREE))
        labels.append(own)
    return Canaries(
        first=graph.num_nodes,
        inside=torch.from_numpy(coins.integers(2, size=settings.canaries).astype(bool)),
        features=_draw_looks(graph.features, settings.canaries, looks),
        neighbours=torch.from_numpy(np.array(neighbours, np.int64)),
        labels=torch.from_numpy(np.array(labels, np.int64)),
    )


def with_canaries(graph: Graph, canaries: Canaries, shown: Tensor | None = None) -> Graph:
    """The graph with the canaries `shown` (default: those whose coin says IN), in training.

    Those not shown are nodes without edges, with zero features, in no mask; the label 0 that the
    array needs there is read by nobody.
    """
    shown = canaries.inside if shown is None else shown
    count = len(shown)
    edges = undirected(canaries.edges(shown), graph.num_nodes + count)
    none = torch.zeros(count, dtype=torch.bool)
    split = Split(
        torch.cat([graph.split.train, shown]),
        torch.cat([graph.split.val, none]),
        torch.cat([graph.split.test, none]),
    )
    joined = torch.cat([graph.edge_index, edges], 1)
    owners = graph.owners
    if owners is not None:  # a canary lives where its first neighbour does
        owners = torch.cat([owners, owners[canaries.neighbours[:, 0]]])
    order = torch.argsort(joined[0] * (graph.num_nodes + count) + joined[1])
    numbers = graph.edge_features
    if numbers is not None:  # a canary's edges have none
        numbers = torch.cat([numbers, numbers.new_zeros(edges.shape[1], numbers.shape[1])])[order]
    return replace(
        graph,
        features=torch.cat([graph.features, canaries.features * shown[:, None]]),
        edge_index=joined[:, order],
        edge_features=numbers,
        labels=torch.cat([graph.labels, canaries.labels * shown]),
        split=split,
        owners=owners,
    )


def _draw_looks(features: Tensor, count: int, stream: np.random.Generator) -> Tensor:
    """Words of the rarer half, no word in two canaries while they last; where features are no
    words, independent signs. Rows have the median norm: a canary is not told by its size."""
    norm = features.norm(dim=1)
    size = float(norm[norm > 0].median()) if bool((norm > 0).any()) else 1.0
    shown = (features != 0).sum(0).numpy()
    rows = np.zeros((count, features.shape[1]), np.float32)
    if float((features != 0).float().mean()) >= SPARSE:
        rows = stream.choice(np.array([-1, 1], np.float32), rows.shape)
    else:
        used = np.flatnonzero(shown > 0)
        rare = stream.permutation(
            used[np.argsort(shown[used], kind="stable")][: len(used) // 2 + 1]
        )
        each = max(1, min(WORDS, len(rare) // count))
        for row, start in enumerate(range(0, count * each, each)):
            rows[row, rare[np.arange(start, start + each) % len(rare)]] = 1
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return torch.from_numpy(np.float32(size) * rows / norms)


def _check_graph(graph: Graph, settings: AuditSettings) -> None:
    if graph.features.dim() != 2 or graph.labels.dim() != 1:
        raise ConfigError(
            f"audit.canaries: {settings.canaries}, but the nodes of {graph.name!r} hold several "
            "samples each; allowed: 0"
        )
    if len(torch.unique(graph.labels[graph.labels >= 0])) < 2:
        raise ConfigError(
            f"audit.canaries: {settings.canaries}, but all labels of {graph.name!r} are alike, and "
            "a canary's is another than its neighbours'; allowed: 0"
        )
