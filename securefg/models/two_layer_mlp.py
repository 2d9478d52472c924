"""The two-layer perceptron h = W2 ReLU(W1 x), no bias: values, and Jacobians in compact form.

The Jacobian of h by (W1, W2) has C |W| entries, yet only H (d + 1) of them are news to whoever
knows W2. With the gate g = 1[W1 x > 0] and means over a node's samples,

    dh_c / dW1[a, i] = W2[c, a] M[a, i],   M[a, i] = mean_s g_sa x_si,
    dh_c / dW2[b, a] = m[a] if b = c, else 0,   m[a] = mean_s ReLU(W1 x_s)_a.

The compact form [M | m] is an invertible linear re-encoding of the Jacobian (up to units a whose
column of W2 is zero, about which the Jacobian is silent too), C times smaller: the same leaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from securefg.models.network import Shapes, glorot, num_parameters, split


class Layers(NamedTuple):
    """W1 (H x d) and W2 (C x H)."""

    first: Tensor
    second: Tensor


@dataclass(frozen=True)
class MlpShape:
    """The sizes from which everybody can lay out the flat parameter vector."""

    num_features: int
    hidden: int
    num_classes: int

    @property
    def matrices(self) -> Shapes:
        return (self.hidden, self.num_features), (self.num_classes, self.hidden)

    @property
    def num_parameters(self) -> int:
        return num_parameters(self.matrices)

    @property
    def compact_size(self) -> int:
        """How many numbers a compact Jacobian has."""
        return self.hidden * (self.num_features + 1)

    def split(self, vector: Tensor) -> Layers:
        """Both layers as views of the vector."""
        return Layers(*split(vector, self.matrices))

    def initial(self, stream: torch.Generator) -> Tensor:
        """Glorot-uniform weights, as one vector."""
        return glorot(self.matrices, stream)


def each_by(rows: Tensor, matrix: Tensor) -> Tensor:
    """rows_k @ matrix for every client k, (n, S, a) by (a, b), one product for each: the last bits
    of a client's result must not depend on who shares its host."""
    return torch.bmm(rows, matrix.expand(len(rows), -1, -1))


def mlp(layers: Layers, samples: Tensor) -> Tensor:
    """h for every sample: (n, S, d) to (n, S, C)."""
    return each_by(torch.relu(each_by(samples, layers.first.T)), layers.second.T)


def mean_hidden(first: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    """The gates 1[W1 x_s > 0] of all samples, (n, S, H), and the mean hidden layer m, (n, H)."""
    before = each_by(samples, first.T)
    return before > 0, torch.relu(before).mean(1)


def compact_jacobian(gates: Tensor, mean: Tensor, samples: Tensor) -> Tensor:
    """[M | m] for every node: (n, H, d + 1)."""
    num_nodes, num_samples, num_features = samples.shape
    compact = samples.new_empty(num_nodes, gates.shape[2], num_features + 1)
    if num_samples == 1:
        torch.mul(gates.mT, samples, out=compact[..., :-1])
    else:
        compact[..., :-1] = gates.to(samples.dtype).mT @ samples / num_samples
    compact[..., -1] = mean
    return compact
