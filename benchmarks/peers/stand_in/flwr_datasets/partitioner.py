"""The one partitioner that Flower's PyTorch template names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IidPartitioner:
    """Rows are dealt at random, as many to every site."""

    num_partitions: int
