"""Orthogonal Procrustes alignment of embeddings, and how well two of them are aligned."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def find_rotation(source: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return W = U V^T from the SVD of source^T target: the orthogonal W that brings source W
    nearest to target, row for row (Schönemann 1966). Rows may be weighted."""
    weighted = target if weights is None else target * weights[:, None]
    # The SVD raises on NaN and infinity. Whether private rows overflow must not show as a failure.
    product = (source.double().T @ weighted.double()).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    left, _, right = torch.linalg.svd(product)
    found: Tensor = left @ right
    return found.to(source.dtype)


def align_rows(source: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return `source` rotated onto `target`."""
    return source @ find_rotation(source, target, weights)


def alignment_precision(matrices: Sequence[Tensor], ks: Sequence[int]) -> dict[int, float]:
    """Share of rows whose own counterpart is among the k nearest after alignment: the mean over
    all ordered pairs of matrices."""
    ranks = [
        _counterpart_ranks(align_rows(source, target), target)
        for i, source in enumerate(matrices)
        for j, target in enumerate(matrices)
        if i != j
    ]
    return {k: float((torch.cat(ranks) < k).double().mean()) for k in ks} if ranks else {}


def _counterpart_ranks(source: Tensor, target: Tensor) -> Tensor:
    """Return for every row how many rows of the target are nearer than its own counterpart."""
    distances = torch.cdist(source, target)
    return (distances < distances.diagonal()[:, None]).sum(1)


def rotate_rows(rows: Tensor, by: Tensor) -> Tensor:
    """Return rows of one or more blocks of d columns, every block times the d x d matrix."""
    dim = len(by)
    turned: Tensor = rows.reshape(len(rows), -1, dim) @ by
    return turned.reshape(rows.shape)


def mean_seen_by(
    own_rows: Tensor, others: Tensor, weights: Tensor, own_weights: Tensor, dim: int
) -> Tensor:
    """Return the mean of `own_rows` (n, w) and all `others` (K, n, w), each rotated into its space.

    Rows are weighted, (n,) and (K, n). A row in which nobody has a say stays as in `own_rows`.
    The first `dim` columns find the rotation, and every block of `dim` columns follows it.
    """
    turned = [rotate_rows(rows, find_rotation(rows[:, :dim], own_rows[:, :dim])) for rows in others]
    total = own_weights + weights.sum(0)
    terms = zip(turned, weights, strict=True)
    mean = own_rows * own_weights[:, None] + sum(rows * w[:, None] for rows, w in terms)
    return torch.where((total > 0)[:, None], mean / total.clamp_min(1e-12)[:, None], own_rows)
