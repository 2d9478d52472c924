"""The interface of a network: the shapes of its weights, and logits from weights."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Shapes = tuple[tuple[int, int], ...]
Weights = Sequence[Tensor]
Stream = torch.Generator | None


class Network(ABC):
    """A node classifier bound to one graph. Its weights come from outside, as matrices.

    decayed  which of the matrices L2 regularisation acts on, as the network's paper has it
    """

    shapes: Shapes
    decayed: tuple[bool, ...]

    @abstractmethod
    def logits(self, weights: Weights, dropout: float = 0.0, stream: Stream = None) -> Tensor:
        """Return class scores of every node, (N, C). Dropout acts when a stream is given."""


def split_vector(vector: Tensor, shapes: Shapes) -> tuple[Tensor, ...]:
    """Return the matrices that a vector (or every row of a batch of vectors) holds, as views."""
    parts = torch.split(vector, [rows * columns for rows, columns in shapes], dim=-1)
    batch = vector.shape[:-1]
    return tuple(part.view(*batch, *shape) for part, shape in zip(parts, shapes, strict=True))


def num_parameters(shapes: Shapes) -> int:
    """Return the number of entries of all matrices."""
    return sum(rows * columns for rows, columns in shapes)


@dataclass(frozen=True)
class TwoLayers:
    """A set of sizes from which everybody can lay out the flat parameter vector of two matrices."""

    num_features: int
    hidden: int
    num_classes: int

    @property
    def matrices(self) -> Shapes:
        """Return the shapes of both matrices, (d, h) and (h, C)."""
        return (self.num_features, self.hidden), (self.hidden, self.num_classes)

    @property
    def num_parameters(self) -> int:
        """Return the length of the vector."""
        return num_parameters(self.matrices)

    def initial(self, stream: torch.Generator) -> Tensor:
        """Return Glorot-uniform weights, as one vector."""
        return draw_glorot(self.matrices, stream)


def draw_glorot(shapes: Shapes, stream: torch.Generator) -> Tensor:
    """Return Glorot-uniform matrices, one after the other, as one vector."""
    drawn = [
        (2 * torch.rand(rows * columns, generator=stream) - 1) * math.sqrt(6 / (rows + columns))
        for rows, columns in shapes
    ]
    return torch.cat(drawn)


def drop_values(values: Tensor, dropout: float, stream: torch.Generator | None) -> Tensor:
    """Return the values with entries set to zero with probability `dropout`, if a stream is
    given."""
    return values if stream is None else values * keep_mask(values.shape, dropout, stream)


def keep_mask(shape: torch.Size, dropout: float, stream: torch.Generator) -> Tensor:
    """Return a factor per entry: zero with probability `dropout`, else 1 / (1 - dropout)."""
    draws = torch.rand(shape, generator=stream, device=stream.device)
    return draws.ge_(dropout).div_(1 - dropout)
