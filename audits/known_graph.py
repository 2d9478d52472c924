"""Who knows the graph: one rule for all games about features.

- Where a method gives the server the graph, the server knows it, and so do colluding clients: they
  are its nodes, and what they are sent are sums over it.
- Of any other method the server knows no edge, and clients know those of their own shards.
- Whoever listens on the wire or queries the released model knows no edge.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from audits.truth import Truth
from securefg.protocol.transcript import Adversary


def known_edges(truth: Truth, adversary: Adversary) -> NDArray[np.int64] | None:
    """Return the known edges (2, E) by global ids, or None if this adversary knows no edge."""
    x = truth.experiment
    if adversary.kind not in ("server", "client"):
        return None
    if x.public.edge_index is not None:
        return x.public.edge_index.numpy()
    own = [x.shards[k] for k in sorted(adversary.clients)]
    edges = [shard.node_ids[shard.graph.edge_index] for shard in own]
    found = torch.cat(edges, 1).numpy() if edges else np.zeros((2, 0), np.int64)
    return found if found.shape[1] else None
