"""Wiki as published with TADW: tf-idf triples, edges and groups as text.

Yang et al., "Network Representation Learning with Rich Text Information", 2015. The groups carry
the ids 1 to 19, of which two are empty: they are renumbered 0 to 16 in their order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.data.dataset import Dataset, no_split
from securefg.data.readers.plain import read_edges
from securefg.data.tables import read_table


def files(name: str) -> tuple[str, ...]:
    return ("Wiki/raw/tfidf.txt", "Wiki/raw/group.txt", "Wiki/raw/graph.txt")


def read(root: Path, name: str) -> Dataset:
    feature_file, label_file, edge_file = (root / file for file in files(name))
    labels = _labels(label_file)
    none = no_split(len(labels))
    return Dataset(
        features=_features(feature_file, len(labels)),
        edge_index=read_edges(edge_file, len(labels)),
        labels=torch.from_numpy(labels),
        train=none,
        val=none,
        test=none,
    )


def _labels(path: Path) -> NDArray[np.int64]:
    table = read_table(path, np.int64, columns=2)
    in_order = table.values[:, 0] == np.arange(len(table))
    table.require(in_order, 0, "the nodes 0, 1, 2, ... in order")
    return np.unique(table.values[:, 1], return_inverse=True)[1].astype(np.int64)


def _features(path: Path, num_nodes: int) -> Tensor:
    """Triples of node, word and weight."""
    table = read_table(path, np.float64, columns=3)
    nodes, words, weights = table.values.T
    table.require((nodes >= 0) & (nodes < num_nodes), 0, f"a node from 0 to {num_nodes - 1}")
    table.require(words >= 0, 1, "a word from 0")
    table.require(np.isfinite(weights), 2, "a finite weight")
    features = np.zeros((num_nodes, int(words.max()) + 1), np.float32)
    features[nodes.astype(np.int64), words.astype(np.int64)] = weights
    return torch.from_numpy(features)
