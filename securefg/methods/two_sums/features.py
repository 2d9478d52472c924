"""Features of bounded influence: what one node, or one link, moves of the sums over them.

    phi_v = [a z_v, b H_v, g G_v, c] / sqrt(a^2 + b^2 + g^2 + c^2)

d0, by which neighbours' sums are divided, trades noise for detail: the larger it is, the less one
node moves. It is k/8 where that leaves the second sum clear of its noise, else k/3, and at least 1.
Which nodes were looked at for this rule is told in docs/reference/private.md.
"""

from __future__ import annotations

import math
from typing import Final, TypeVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import one_hot

from securefg.data.graph import Graph
from securefg.foundation.errors import ConfigError
from securefg.methods.base import Outlook
from securefg.methods.two_sums.settings import Divisor, FeatureSettings
from securefg.models.discriminant import CLEAR, Moments

S = TypeVar("S", bound=FeatureSettings)

OWN, LABELS, NEIGHBOURS, CONSTANT = 0.6, 0.7, 0.4, 0.5
"""a, b, g, c: guessed, and checked on the friends of Johns Hopkins: little hangs on them."""

FINE: Final = 8.0
COARSE: Final = 3.0
"""Links over d0: where sums are clear of their noise, and where they are not."""


def feature_length() -> float:
    """Return sqrt(a^2 + b^2 + g^2 + c^2), so that no phi is longer than 1."""
    return math.hypot(OWN, LABELS, NEIGHBOURS, CONSTANT)


def link_parts(settings: FeatureSettings) -> tuple[float, float]:
    """Return b and g, which are both 0 if links do not count. Sums over links have the length of
    both."""
    return (LABELS, NEIGHBOURS) if settings.reads_links else (0.0, 0.0)


def feature_width(settings: FeatureSettings, num_features: int, num_classes: int) -> int:
    """Return m, the count of numbers in phi."""
    own = num_features if num_features <= settings.narrow else num_classes
    return own + (num_classes + own if settings.graph else 0) + 1


def refuse_samples(graph: Graph) -> None:
    """Raise where nodes have several samples each."""
    if graph.features.dim() != 2 or graph.labels.dim() != 1:
        raise ConfigError("method.name: sums over nodes want one sample per node, found several")


def own_rows(graph: Graph, link_columns: int = 0) -> Tensor:
    """Return x_v: a node's features, without sums over links, of length 1, or 0 if it has none."""
    rows = graph.features[:, : graph.num_features - link_columns].double()
    scaled: Tensor = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return scaled


def known_labels(graph: Graph) -> Tensor:
    """Return y_v, zero for nodes whose label does not train. Nodes without a label (-1) never
    train."""
    named = graph.labels.clamp_min(0)
    return one_hot(named, graph.num_classes).double() * graph.split.train[:, None]


def class_sums(graph: Graph) -> Tensor:
    """Return the sum M, (d, C)."""
    return own_rows(graph).T @ known_labels(graph)


def cut_rows(rows: Tensor) -> Tensor:
    """Return the rows cut into the unit ball. No two rows get further apart by it."""
    inside: Tensor = rows / rows.norm(dim=1, keepdim=True).clamp_min(1.0)
    return inside


def links_of(graph: Graph) -> csr_array:
    """Return 1 where two nodes are linked: a link counts once however often it is listed, a loop
    never."""
    source, target = graph.edge_index.numpy()
    apart = source != target
    once = (np.ones(int(apart.sum())), (source[apart], target[apart]))
    listed = csr_array(once, shape=(graph.num_nodes, graph.num_nodes))
    links: csr_array = listed + listed.T
    links.data[:] = 1.0
    return links


def rows_of(graph: Graph, projection: Tensor | None, settings: FeatureSettings) -> Tensor:
    """Return phi of every node, (N, m)."""
    if projection is not None and settings.link_columns:
        raise ConfigError("method.link_columns: found a first sum; expected fewer features")
    own = own_rows(graph, settings.link_columns)
    z = own if projection is None else cut_rows(own @ projection.double())
    columns = [OWN * z]
    if settings.graph:
        b, g = link_parts(settings)
        sent = torch.cat([known_labels(graph), z], 1)
        met = torch.from_numpy(links_of(graph) @ sent.numpy()) / settings.divisor
        columns += [
            b * cut_rows(met[:, : graph.num_classes]),
            g * cut_rows(met[:, graph.num_classes :]),
        ]
    if settings.link_columns:
        sums = graph.features[:, graph.num_features - settings.link_columns :].double()
        columns.append(math.hypot(*link_parts(settings)) * cut_rows(sums / settings.divisor))
    constant = torch.full((graph.num_nodes, 1), CONSTANT, dtype=torch.float64)
    return torch.cat([*columns, constant], 1) / feature_length()


def moments_of(graph: Graph, rows: Tensor) -> Moments:
    """Return sums over the training nodes."""
    train = graph.split.train
    return Moments(rows[train].T @ rows[train], rows[train].T @ known_labels(graph)[train])


def pack_moments(moments: Moments) -> Tensor:
    """Return one vector of the same length: the upper triangle, off the diagonal times sqrt 2, then
    B."""
    upper = torch.triu_indices(len(moments.second), len(moments.second))
    once = torch.where(upper[0] == upper[1], 1.0, math.sqrt(2)).double()
    return torch.cat([moments.second[upper[0], upper[1]] * once, moments.by_class.flatten()])


def unpack_moments(vector: Tensor, dim: int) -> Moments:
    """Return the moments that `packed` made a vector of."""
    upper = torch.triu_indices(dim, dim)
    once = torch.where(upper[0] == upper[1], 1.0, math.sqrt(2)).double()
    second = torch.zeros(dim, dim, dtype=torch.float64)
    second[upper[0], upper[1]] = vector[: upper.shape[1]].double() / once
    second = second + second.triu(1).T
    return Moments(second, vector[upper.shape[1] :].double().reshape(dim, -1))


# ------------------------------------------------------------------------------- what a node moves


def neighbour_moves(settings: FeatureSettings) -> float:
    """Return the distance by which one neighbour's (phi phi^T, phi y^T) moves when a link goes.

    phi moves by delta = sqrt(b^2 + g^2) / (d0 length), within its graph part, which is no longer
    than beta = sqrt(b^2 + g^2) / length: delta sqrt(2 (1 + beta^2) + 1). Sums over links take the
    place of H and G with the weight sqrt(b^2 + g^2): a link adds at most 1 to them before d0.
    """
    if not settings.reads_links:
        return 0.0
    beta = math.hypot(*link_parts(settings)) / feature_length()
    return beta / settings.divisor * math.sqrt(2 * (1 + beta**2) + 1)


def moved_by_node(settings: FeatureSettings, links: int) -> float:
    """Return S(k) = sqrt 2 + k delta sqrt(2 (1 + beta^2) + 1): its own term, and its k
    neighbours'."""
    return math.sqrt(2) + links * neighbour_moves(settings)


# -------------------------------------------------------------------------------------- the divisor


def with_divisor(settings: S, outlook: Outlook) -> S:
    """Return the settings with d0 chosen, unless it is set or links do not count."""
    if not settings.reads_links or settings.scale is not None:
        return settings
    return settings.with_divisor(_choose_divisor(settings, outlook))


def _choose_divisor(settings: FeatureSettings, outlook: Outlook) -> Divisor:
    """Return d0 for these sizes, this number of links and this noise."""
    fine, coarse = (max(1.0, settings.links / share) for share in (FINE, COARSE))
    if outlook.num_training is None:
        return Divisor(coarse, "links / 3, since the config does not say how many nodes train")
    ratios = outlook.signal_over_noise(settings.model_copy(update={"scale": fine}))
    ratio = ratios[-1] if ratios else None
    if ratio is None:
        return Divisor(fine, "links / 8, since no noise is added")
    stands = f"the second sum would stand {ratio:.1f} times above its noise"
    if ratio >= CLEAR:
        return Divisor(fine, f"links / 8, with which {stands}, {CLEAR:g} or more")
    return Divisor(coarse, f"links / 3, since with links / 8 {stands}, less than {CLEAR:g}")
