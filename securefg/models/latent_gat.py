"""What is left of a GAT when users keep its first weights: attention and everything after it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import elu

from securefg.foundation.streams import torch_stream
from securefg.models.gat import attend, with_loops
from securefg.models.gcn import keep_mask


class LatentGat:
    """Layer 1, per head l: ELU(sum_j a^l_ij x'_j,l), heads side by side (nFedGNN's equation 9).

    Layer 2 is one head to the classes. Dropout acts on what layer 2 takes in and on attention.
    """

    def __init__(
        self,
        edge_index: Tensor,
        sizes: tuple[int, int, int],
        heads: int,
        dropout: float,
        seed: int,
        device: torch.device,
    ) -> None:
        """`sizes`: nodes, numbers in a latent over all heads, classes."""
        num_nodes, width, num_classes = sizes
        self._heads, self._dropout = heads, dropout
        self._edges = with_loops(edge_index, num_nodes).to(device)
        stream = torch_stream(seed, "weights")
        first, last = (heads, width // heads), (1, num_classes)
        shapes = [first, first, (width, num_classes), last, last]
        self.parameters = [_glorot(shape, stream).to(device).requires_grad_() for shape in shapes]

    def logits(self, received: Tensor, stream: torch.Generator | None = None) -> Tensor:
        """Class scores per node; dropout acts where a stream is given."""
        target0, source0, weights, target1, source1 = self.parameters
        rate = 0.0 if stream is None else self._dropout
        per_head = received.view(len(received), self._heads, -1)
        hidden = elu(attend(per_head, target0, source0, self._edges, rate, stream).flatten(1))
        if stream is not None:
            hidden = hidden * keep_mask(hidden.shape, rate, stream)
        scores = (hidden @ weights)[:, None]
        return attend(scores, target1, source1, self._edges, rate, stream)[:, 0]


def _glorot(shape: tuple[int, int], stream: torch.Generator) -> Tensor:
    bound = float((6 / sum(shape)) ** 0.5)
    uniform: Tensor = 2 * torch.rand(shape, generator=stream) - 1
    return uniform * bound
