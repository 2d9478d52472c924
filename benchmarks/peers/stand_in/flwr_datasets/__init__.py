"""A stand-in for Flower Datasets where CIFAR-10 cannot be downloaded: scikit-learn's digits.

The 8x8 images are enlarged to 32x32 pixels in three equal channels. A fifth of them is held by no
site. `FederatedDataset` has the few methods that Flower's PyTorch template calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

HELD_OUT = 0.2
Batch = dict[str, list[Any]]


class Part:
    """Rows of the data, with a transform that is applied when a row is read."""

    def __init__(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        transform: Callable[[Batch], Batch] = dict,
    ) -> None:
        self.images, self.labels, self._transform = images, labels, transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> dict[str, Any]:
        read = self._transform({"img": [self.images[row]], "label": [int(self.labels[row])]})
        return {name: values[0] for name, values in read.items()}

    def with_transform(self, transform: Callable[[Batch], Batch]) -> Part:
        """Return the rows with this transform."""
        return Part(self.images, self.labels, transform)

    def train_test_split(self, test_size: float, seed: int) -> Splits:
        """Return two parts, the second with this share of the rows."""
        order = np.random.default_rng(seed).permutation(len(self))
        test, train = np.split(order, [int(test_size * len(self))])
        halves = {"train": train, "test": test}
        return Splits(
            {name: Part(self.images[rows], self.labels[rows]) for name, rows in halves.items()}
        )


class Splits(dict[str, Part]):
    """Parts by name."""

    def with_transform(self, transform: Callable[[Batch], Batch]) -> Splits:
        """Return all parts with this transform."""
        return Splits({name: part.with_transform(transform) for name, part in self.items()})


class FederatedDataset:
    """The digits, dealt at random to as many sites as the partitioner says."""

    def __init__(self, dataset: str, partitioners: dict[str, Any]) -> None:
        self._sites = int(partitioners["train"].num_partitions)

    def load_partition(self, site: int) -> Part:
        """Return one site's rows."""
        held, _ = _deal()
        images, labels = _read_digits()
        rows = np.array_split(held, self._sites)[site]
        return Part(images[rows], labels[rows])


def load_held_out() -> Part:
    """Return the rows that no site holds."""
    _, rest = _deal()
    images, labels = _read_digits()
    return Part(images[rest], labels[rest])


def _deal() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    _, labels = _read_digits()
    order = np.random.default_rng(0).permutation(len(labels))
    rest, held = np.split(order, [int(HELD_OUT * len(labels))])
    return held, rest


def _read_digits() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    flat, labels = load_digits(return_X_y=True)
    images = np.minimum(flat.reshape(-1, 8, 8) * 16, 255).astype(np.uint8)
    large = images.repeat(4, 1).repeat(4, 2)
    return large[..., None].repeat(3, -1), labels.astype(np.int64)
