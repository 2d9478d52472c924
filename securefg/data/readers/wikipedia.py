"""Chameleon and Squirrel as geom-gcn publishes them: directed graphs with ten public splits.

Pei et al., "Geom-GCN: Geometric Graph Convolutional Networks", 2020.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from securefg.data.dataset import Dataset
from securefg.data.graph import sorted_edges
from securefg.data.tables import fault, read_table, text_lines
from securefg.foundation.errors import DataError
from securefg.foundation.npz import read_npz

NUM_SPLITS = 10
_NODES, _EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"


def files(name: str) -> tuple[str, ...]:
    splits = (f"{name}_split_0.6_0.2_{index}.npz" for index in range(NUM_SPLITS))
    return tuple(
        f"WikipediaNetwork/{name}/geom_gcn/raw/{file}" for file in (_NODES, _EDGES, *splits)
    )


def read(root: Path, name: str) -> Dataset:
    nodes, edges, *splits = (root / file for file in files(name))
    features, labels = _nodes(nodes)
    masks = [_masks(path, len(labels)) for path in splits]
    train, val, test = (torch.stack(part) for part in zip(*masks, strict=True))
    return Dataset(features, _edges(edges, len(labels)), labels, train, val, test, directed=True)


def _nodes(path: Path) -> tuple[Tensor, Tensor]:
    """Lines of `id TAB feature,feature,... TAB label`, in the order of the ids."""
    features, labels = [], []
    for line, text in text_lines(path)[1:]:
        try:
            node, row, label = text.split("\t")
            features.append(np.array(row.split(","), np.float32))
            labels.append(np.int64(label))
            in_order = int(node) == len(labels) - 1
        except (ValueError, OverflowError):
            raise fault(path, line, repr(text), "id TAB features TAB label") from None
        if not in_order or features[-1].shape != features[0].shape:
            raise fault(
                path, line, repr(text), f"node {len(labels) - 1}, {len(features[0])} features"
            )
    return torch.from_numpy(np.stack(features)), torch.tensor(labels)


def _edges(path: Path, num_nodes: int) -> Tensor:
    table = read_table(path, np.int64, columns=2, header=True)
    good = (table.values >= 0) & (table.values < num_nodes)
    table.require(good[:, 0], 0, f"a node from 0 to {num_nodes - 1}")
    table.require(good[:, 1], 1, f"a node from 0 to {num_nodes - 1}")
    return sorted_edges(torch.from_numpy(table.values.T.copy()), num_nodes)


def _masks(path: Path, num_nodes: int) -> tuple[Tensor, ...]:
    arrays = read_npz(path)
    names = ("train_mask", "val_mask", "test_mask")
    if any(name not in arrays or arrays[name].shape != (num_nodes,) for name in names):
        raise DataError(f"{path}: wanted the arrays {', '.join(names)} of {num_nodes} entries")
    return tuple(torch.from_numpy(arrays[name].astype(bool)) for name in names)
