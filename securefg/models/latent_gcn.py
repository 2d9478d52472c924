"""What is left of a GCN when users keep its first weights: A_hat, ReLU, dropout, second layer."""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.foundation.streams import torch_stream
from securefg.models.gcn import keep_mask, normalized_adjacency


class LatentGcn:
    """Z = A_hat ReLU(A_hat X') W, of nFedGNN's equation 5, with dropout after the ReLU."""

    def __init__(
        self,
        edge_index: Tensor,
        sizes: tuple[int, int, int],
        dropout: float,
        seed: int,
        device: torch.device,
        summed: bool = False,
    ) -> None:
        """`sizes`: nodes, numbers in a latent, classes. `summed`: A_hat X' comes in, not X'."""
        num_nodes, hidden, num_classes = sizes
        self._dropout, self._summed = dropout, summed
        self._adjacency = normalized_adjacency(edge_index, num_nodes).to(device)
        bound = (6 / (hidden + num_classes)) ** 0.5
        uniform = torch.rand(hidden, num_classes, generator=torch_stream(seed, "weights"))
        self.parameters = [((2 * uniform - 1) * bound).to(device).requires_grad_()]

    def logits(self, received: Tensor, stream: torch.Generator | None = None) -> Tensor:
        """Class scores per node; dropout acts where a stream is given."""
        hidden = torch.relu(received if self._summed else self._adjacency @ received)
        if stream is not None:
            hidden = hidden * keep_mask(hidden.shape, self._dropout, stream)
        scores: Tensor = self._adjacency @ (hidden @ self.parameters[0])
        return scores
