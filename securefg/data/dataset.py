"""A dataset as it is published, before a split is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from securefg.foundation.errors import DataError
from securefg.settings.datasets import DatasetInfo


@dataclass(frozen=True)
class Dataset:
    """Features, edges and labels as in `Graph`, and every public split.

    train, val, test    (S, N) boolean, one row per public split; S = 0 where none is published
    edge_features       (E, k), in the order of edge_index
    owners              (N,): the client that holds each node, where the data come so dealt out; or
                        (N, K), true where a client holds a node
    """

    features: Tensor
    edge_index: Tensor
    labels: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    directed: bool = False
    owners: Tensor | None = None
    edge_features: Tensor | None = None

    @classmethod
    def without_split(
        cls, features: Tensor, edge_index: Tensor, labels: Tensor, **others: Any
    ) -> Dataset:
        """A dataset that is published without a split."""
        none = no_split(len(labels))
        return cls(features, edge_index, labels, none, none, none, **others)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.labels.shape[0]

    @property
    def num_classes(self) -> int:
        """C: labels are 0 to C - 1."""
        return int(self.labels.max()) + 1

    @property
    def num_splits(self) -> int:
        """S, the number of public splits."""
        return self.train.shape[0]

    def tensors(self) -> dict[str, Tensor]:
        """For storing; `from_tensors` is the way back."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {**known, "directed": torch.tensor(self.directed)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Dataset:
        """Restore what `tensors` stored."""
        rest = {name: value for name, value in tensors.items() if name != "directed"}
        return cls(**rest, directed=bool(tensors["directed"]))

    def checked(self, source: object) -> Dataset:
        """Itself, or a `DataError` where its parts do not fit: whatever the format could hold."""
        n, masks = self.num_nodes, (self.train, self.val, self.test)
        labels, edges = self.labels, self.edge_index
        fits = n > 0 and self.features.shape[:1] == (n,) and self.features.ndim == 2
        if not fits or any(part.ndim != 2 or part.shape[1] != n for part in masks):
            raise DataError(f"{source}: found {n} labels; wanted one row of everything per label")
        whole = labels.ndim == 1 and not labels.is_floating_point()
        if not whole or not 0 <= labels.min() <= labels.max() < n:
            raise DataError(f"{source}: found labels that are no classes; wanted 0, 1, 2, ...")
        if edges.numel() and not 0 <= edges.min() <= edges.max() < n:
            raise DataError(f"{source}: found an edge to no node; wanted 0 to {n - 1}")
        if not bool(torch.isfinite(self.features).all()):
            raise DataError(f"{source}: found a feature that is not finite; wanted numbers")
        return self


@dataclass(frozen=True)
class Source:
    """A dataset that a module outside this package offers as DATASET.

    info  one line about it, its sizes where they are known, and the usual scaling of its rows
    read  returns the dataset; it gets `data.root` (or None) and a generator for drawn data
    """

    info: DatasetInfo
    read: Callable[[Path | None, torch.Generator], Dataset]


def no_split(num_nodes: int) -> Tensor:
    """The masks of a dataset without a public split."""
    return torch.zeros(0, num_nodes, dtype=torch.bool)


def boolean_mask(indices: Tensor, num_nodes: int) -> Tensor:
    """A boolean mask that is true at `indices`."""
    chosen = torch.zeros(num_nodes, dtype=torch.bool)
    chosen[indices] = True
    return chosen
