"""Rows of a node from its features and from released counts, and what one node moves.

    c_v   = counts of the labels of v's training neighbours, cut to length k
    phi_v = [a z_v, b h_v, c] / sqrt(a^2 + b^2 + c^2),  h_v = cut(released c_v / (4 sigma))

A node u with at most k links is in the counts of its k neighbours, by one each. Cutting moves no
two rows apart. The counts therefore move by at most sqrt(k), apart from u's own row, which holds
the labels of u's neighbours and is at most k long.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.methods.base import Outlook
from securefg.methods.noisy_counts.settings import Settings
from securefg.methods.two_sums.features import cut_rows, known_labels, links_of, own_rows
from securefg.models.discriminant import Moments

OWN, COUNTS, CONSTANT = 0.3, 1.0, 0.3
"""a, b, c, and the unit of counts: chosen on validation nodes of Cornell, seed 0."""

CLEAR: Final = 4.0
"""Counts of so many standard deviations of their noise have length 1."""

FEW, MOST, FAR = 0.7, 0.88, 100.0
"""The counts' share of the budget, and from which ratio of the last sum on it is the larger one.
Chosen on validation nodes of Cornell, seed 0."""


def feature_width(num_classes: int) -> int:
    """Return the number of entries of phi: class scores, counts and a constant."""
    return 2 * num_classes + 1


def feature_length() -> float:
    """Return sqrt(a^2 + b^2 + c^2), so that no phi is longer than 1."""
    return math.hypot(OWN, COUNTS, CONSTANT)


def label_counts(graph: Graph, links: int) -> Tensor:
    """Return c of every node, (n, C): a row has at most length k."""
    counts = torch.from_numpy(links_of(graph) @ known_labels(graph).numpy())
    return links * cut_rows(counts / links)


def place_rows(rows: Tensor, ids: Tensor, num_nodes: int) -> Tensor:
    """Return rows at their nodes' places in the index of all nodes, zeros elsewhere."""
    whole = torch.zeros(num_nodes, rows.shape[1], dtype=rows.dtype)
    whole[ids] = rows
    return whole


def describe_nodes(
    graph: Graph, projection: Tensor, counts: Tensor, stddev: float, has_features: bool
) -> Tensor:
    """Return phi of every node, (n, 2 C + 1).

    counts  the released counts of these nodes
    stddev  standard deviation of what was added to each count
    """
    z = cut_rows(own_rows(graph) @ projection.double()) * float(has_features)
    h = cut_rows(counts.double() / max(CLEAR * stddev, 1.0))
    constant = torch.full((graph.num_nodes, 1), CONSTANT, dtype=torch.float64)
    return torch.cat([OWN * z, COUNTS * h, constant], 1) / feature_length()


def sum_moments(graph: Graph, rows: Tensor) -> Moments:
    """Return the sums over the training nodes."""
    train = graph.split.train
    return Moments(rows[train].T @ rows[train], rows[train].T @ known_labels(graph)[train])


def moved_counts(links: int) -> float:
    """Return how far a node with k links moves the counts of all other nodes: sqrt(k)."""
    return math.sqrt(links)


class OwnRowToo:
    """How far a node moves the counts if its own row, at most `longest`, is covered too."""

    def __init__(self, longest: int) -> None:
        self._longest = longest

    def __call__(self, links: int) -> float:
        """Return sqrt(k + min(k, longest)^2)."""
        return math.hypot(math.sqrt(links), min(links, self._longest))


# -------------------------------------------------------------------------- the share of the counts


def choose_share(settings: Settings, outlook: Outlook) -> Settings:
    """Return the settings with the counts' share chosen, unless it is set.

    Where the last sum stands far above its noise, the counts can have more of the budget.
    """
    if settings.counts_share is not None:
        return settings
    if outlook.num_training is None:
        return settings.with_share(FEW, "the config does not say how many nodes train")
    ratios = outlook.signal_over_noise(settings.with_share(FEW, ""))
    ratio = ratios[-1] if ratios else None
    if ratio is None:
        return settings.with_share(FEW, "no noise is added")
    words = f"the last sum would stand {ratio:.0f} times above its noise"
    if ratio >= FAR:
        return settings.with_share(MOST, f"{words}, {FAR:g} or more")
    return settings.with_share(FEW, f"{words}, less than {FAR:g}")
