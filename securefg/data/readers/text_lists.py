"""ACM and Wiki as published: text files of features, labels and edges.

ACM: Bo et al., "Structural Deep Clustering Network", 2020 (SDCN). Wiki: Yang et al., "Network
Representation Learning with Rich Text Information", 2015 (TADW), with tf-idf triples; its groups
carry the ids 1 to 19, of which two are empty: they are renumbered 0 to 16 in their order.
torch-geometric has no loader for them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.data.dataset import Dataset, no_split
from securefg.data.graph import undirected
from securefg.data.tables import read_table
from securefg.foundation.errors import DataError
from securefg.foundation.npz import room_for

_FILES = {
    "acm": ("ACM/raw/acm.txt", "ACM/raw/acm_label.txt", "ACM/raw/acm_graph.txt"),
    "wiki": ("Wiki/raw/tfidf.txt", "Wiki/raw/group.txt", "Wiki/raw/graph.txt"),
}


def files(name: str) -> tuple[str, ...]:
    return _FILES[name]


def read(root: Path, name: str) -> Dataset:
    feature_file, label_file, edge_file = (root / file for file in files(name))
    read_nodes = _acm_nodes if name == "acm" else _wiki_nodes
    features, labels = read_nodes(feature_file, label_file)
    none = no_split(len(labels))
    edges = read_edges(edge_file, len(labels))
    return Dataset(features, edges, torch.from_numpy(labels), none, none, none)


def _acm_nodes(feature_file: Path, label_file: Path) -> tuple[Tensor, NDArray[np.int64]]:
    features = read_table(feature_file, np.float32).values
    labels = read_table(label_file, np.int64, columns=1).values[:, 0]
    if len(labels) != len(features):
        raise DataError(f"{label_file}: found {len(labels)} labels; wanted {len(features)}")
    return torch.from_numpy(features), labels.copy()


def _wiki_nodes(feature_file: Path, label_file: Path) -> tuple[Tensor, NDArray[np.int64]]:
    labels = _labels(label_file)
    return _features(feature_file, len(labels)), labels


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
    most = room_for(table.values.nbytes) // (4 * num_nodes)
    table.require((words >= 0) & (words < most), 1, f"a word from 0 to {most - 1}")
    table.require(np.abs(weights) <= np.finfo(np.float32).max, 2, "a finite float32 weight")
    features = np.zeros((num_nodes, int(words.max()) + 1), np.float32)
    features[nodes.astype(np.int64), words.astype(np.int64)] = weights
    return torch.from_numpy(features)


def read_edges(path: Path, num_nodes: int) -> Tensor:
    """Lines of two nodes; both directions are listed, self-loops and duplicates dropped."""
    table = read_table(path, np.int64, columns=2)
    for column in (0, 1):
        ends = table.values[:, column]
        table.require((ends >= 0) & (ends < num_nodes), column, f"a node from 0 to {num_nodes - 1}")
    return undirected(torch.from_numpy(table.values.T.copy()), num_nodes)
