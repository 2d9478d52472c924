"""The gradients of a two-layer GCN, written down: H = ReLU(A X W0), Z = A H W1, dropout on X and H.

The products are those that autograd makes of `gcn`, in the same order, so weights are trained to
the same bits; its bookkeeping for every product is what is saved. `slope` gives the gradient of the
loss by the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from securefg.models.gcn import Operator
from securefg.models.network import keep_mask
from securefg.models.sparse import FeatureMatrix

Slope = Callable[[Tensor], Tensor]


@torch.no_grad()
def gcn_gradients(
    weights: Sequence[Tensor],
    adjacency: Operator,
    features: FeatureMatrix,
    slope: Slope,
    dropout: float,
    stream: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Of the loss of the logits in training, by W0 and W1."""
    first, second = weights
    values = features.values * keep_mask(features.values.shape, dropout, stream)
    hidden = adjacency.product(features.product(first, values)).relu_()
    kept = keep_mask(hidden.shape, dropout, stream)
    thinned = hidden * kept
    by_mixed = adjacency.product_transposed(slope(adjacency.product(thinned @ second)))
    by_hidden = (by_mixed @ second.T).mul_(kept)
    by_hidden.masked_fill_(hidden <= 0, 0)
    by_first = features.product_transposed(adjacency.product_transposed(by_hidden), values)
    return by_first, thinned.T @ by_mixed
