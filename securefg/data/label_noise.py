"""Wrong labels among those that train: what a client's annotators got wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from securefg.data.graph import Graph
from securefg.foundation.errors import ConfigError


def with_label_noise(graph: Graph, share: float, stream: np.random.Generator) -> Graph:
    """`share` of the training nodes get another class, uniformly; no other label changes."""
    if not share:
        return graph
    if graph.labels.dim() != 1:
        raise ConfigError(f"data.label_noise: {share}; allowed for samples with labels apart: 0")
    train = graph.split.train.nonzero()[:, 0].numpy()
    chosen = torch.from_numpy(stream.permutation(train)[: round(share * len(train))])
    shift = torch.from_numpy(stream.integers(1, graph.num_classes, len(chosen)))
    labels = graph.labels.clone()
    labels[chosen] = (labels[chosen] + shift) % graph.num_classes
    return replace(graph, labels=labels)
