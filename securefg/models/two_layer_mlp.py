"""The two-layer perceptron h = W2 ReLU(W1 x), no bias: values, and Jacobians in compact form.

The Jacobian of h by (W1, W2) has C |W| entries, yet only H (d + 1) of them are news to whoever
knows W2. With the gate g = 1[W1 x > 0] and means over a node's samples,

    dh_c / dW1[a, i] = W2[c, a] M[a, i],   M[a, i] = mean_s g_sa x_si,
    dh_c / dW2[b, a] = m[a] if b = c, else 0,   m[a] = mean_s ReLU(W1 x_s)_a.

The compact form [M | m] is an invertible linear re-encoding of the Jacobian (up to units a whose
column of W2 is zero, about which the Jacobian is silent too), C times smaller: the same leaks.

`LocalSgd` trains many clients at once and compensates gradients for what neighbours contribute.
Client k, with its own weights W_k = (W1, W2), a constant C_k from its neighbours, and the Jacobian
dC_k of that constant at the weights everybody started from, takes steps along

    g_k = mean_s (y_hat_s - y_s) (A_kk dh_ks + dC_k),   y_hat_s = softmax(A_kk h_ks + C_k)

(GFL-APPNP, equation 15b). The paper's y - y_hat has the sign wrong. dC_k comes in the compact form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from securefg.models.network import Shapes, TwoLayers, split_vector


class Layers(NamedTuple):
    """A pair of matrices, W1 (H x d) and W2 (C x H)."""

    first: Tensor
    second: Tensor


class MlpShape(TwoLayers):
    """A set of the sizes of the perceptron, whose matrices are W1 (H x d) and W2 (C x H)."""

    @property
    def matrices(self) -> Shapes:
        """Return the shapes of both matrices, (h, d) and (C, h)."""
        return (self.hidden, self.num_features), (self.num_classes, self.hidden)

    @property
    def compact_size(self) -> int:
        """Return how many numbers a compact Jacobian has."""
        return self.hidden * (self.num_features + 1)

    def split(self, vector: Tensor) -> Layers:
        """Return both layers as views of the vector."""
        return Layers(*split_vector(vector, self.matrices))


def each_by(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return rows_k @ matrix for every client k, (n, S, a) by (a, b), one product for each: the
    last bits of a client's result must not depend on who shares its host."""
    return torch.bmm(rows, matrix.expand(len(rows), -1, -1))


def run_mlp(layers: Layers, samples: Tensor) -> Tensor:
    """Return h for every sample: (n, S, d) to (n, S, C)."""
    return each_by(torch.relu(each_by(samples, layers.first.T)), layers.second.T)


def mean_hidden(first: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gates 1[W1 x_s > 0] of all samples, (n, S, H), and the mean hidden layer m, (n,
    H)."""
    before = each_by(samples, first.T)
    return before > 0, torch.relu(before).mean(1)


def compact_jacobian(gates: Tensor, mean: Tensor, samples: Tensor) -> Tensor:
    """Return [M | m] for every node: (n, H, d + 1)."""
    num_nodes, num_samples, num_features = samples.shape
    compact = samples.new_empty(num_nodes, gates.shape[2], num_features + 1)
    if num_samples == 1:
        torch.mul(gates.mT, samples, out=compact[..., :-1])
    else:
        compact[..., :-1] = gates.to(samples.dtype).mT @ samples / num_samples
    compact[..., -1] = mean
    return compact


@dataclass(frozen=True)
class Neighbourhood:
    """A set of values that the server told each of n clients.

    own      A_kk, (n,)
    context  C_k, (n, C)
    slope    [sum_j A_kj M_j | sum_j A_kj m_j], (n, H, d + 1), or None: no compensation
    """

    own: Tensor
    context: Tensor
    slope: Tensor | None


@dataclass(frozen=True)
class Samples:
    """A set of samples that n clients train on: inputs (n, S, d) and one-hot targets (n, S, C)."""

    inputs: Tensor
    targets: Tensor


class LocalSgd:
    """A training of n clients that start from the same weights and move apart.

    W1 never leaves s W1_start - diag(u) M_k - V^T X_k, so a step moves s, u (H) and V (S x H) and
    never touches the H x d numbers of W1: the same steps at a cost that does not grow with d.
    """

    def __init__(
        self,
        start: Layers,
        samples: Samples,
        around: Neighbourhood,
        lr: float,
        weight_decay: float = 0.0,
    ) -> None:
        self._start, self._samples, self._around = start, samples, around
        self._lr, self._kept = lr, 1 - lr * weight_decay
        x, first = samples.inputs, start.first
        self._before = each_by(x, first.T)
        self._kernel = x @ x.mT
        slope = around.slope
        self._through = None if slope is None else x @ slope[..., :-1].mT
        self._own = around.own[:, None, None]
        self._s = 1.0
        self._u = x.new_zeros(len(x), 1, len(first))
        self._v = x.new_zeros(*x.shape[:2], len(first))
        self._second = start.second.expand(len(x), -1, -1)

    def run(self, batches: Iterable[Tensor | None]) -> Tensor:
        """Take a step for each batch. Return every client's flat weights, (n, |W|).

        A batch is (n, B), which of its samples each client takes, or None for all of them.
        """
        for batch in batches:
            self._take_step(batch)
        x, slope = self._samples.inputs, self._around.slope
        first = self._s * self._start.first - self._v.mT @ x
        if slope is not None:
            first -= self._u.mT * slope[..., :-1]
        return torch.cat([first.flatten(1), self._second.flatten(1)], dim=1)

    def _take_step(self, batch: Tensor | None) -> None:
        lr, kept, slope = self._lr, self._kept, self._around.slope
        before = _chosen_rows(self._before_activation(), batch)
        hidden = torch.relu(before)
        error = self._output_error(hidden, _chosen_rows(self._samples.targets, batch))
        back = (self._own * lr) * (error @ self._second) * (before > 0)
        by_second = self._own * (error.mT @ hidden)
        self._s, self._u, self._v = kept * self._s, kept * self._u, kept * self._v
        if slope is not None:
            total = error.sum(1, keepdim=True)
            by_second = by_second + total.mT * slope[:, None, :, -1]
            self._u = self._u + lr * each_by(total, self._start.second)
        if batch is None:
            self._v = self._v + back
        else:
            self._v = self._v.scatter_add(1, batch[..., None].expand_as(back), back)
        self._second = kept * self._second - lr * by_second

    def _before_activation(self) -> Tensor:
        """Return X W1^T for every client, by the form in which W1 is held."""
        before = self._s * self._before - self._kernel @ self._v
        return before if self._through is None else before - self._through * self._u

    def _output_error(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return (y_hat - y) / B."""
        logits = self._own * (hidden @ self._second.mT) + self._around.context[:, None]
        return (torch.softmax(logits, -1) - targets) / targets.shape[1]


def _chosen_rows(rows: Tensor, batch: Tensor | None) -> Tensor:
    if batch is None:
        return rows
    return rows.gather(1, batch[..., None].expand(-1, -1, rows.shape[2]))
