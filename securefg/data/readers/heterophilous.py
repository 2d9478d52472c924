"""Tolokers, and Chameleon and Squirrel without duplicated pages: one archive with ten splits each.

Platonov et al., "A Critical Look at the Evaluation of GNNs under Heterophily", 2023.

torch-geometric has no loader for the filtered graphs, so this reader serves all three.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from securefg.data.dataset import Dataset
from securefg.data.graph import undirected
from securefg.foundation.errors import DataError
from securefg.foundation.npz import read_npz

_FILES = {
    "tolokers": "tolokers",
    "chameleonfiltered": "chameleon_filtered",
    "squirrelfiltered": "squirrel_filtered",
}
_MASKS = ("train_masks", "val_masks", "test_masks")


def files(name: str) -> tuple[str, ...]:
    stem = _FILES[name]
    return (f"HeterophilousGraphDataset/{stem}/raw/{stem}.npz",)


def read(root: Path, name: str) -> Dataset:
    path = root / files(name)[0]
    arrays = read_npz(path)
    wanted = ("node_features", "node_labels", "edges", *_MASKS)
    missing = [key for key in wanted if key not in arrays]
    if missing:
        raise DataError(f"{path}: found no {missing[0]!r}; wanted the arrays {', '.join(wanted)}")
    features, labels, edges = (arrays[key] for key in wanted[:3])
    masks = [arrays[key] for key in _MASKS]
    count = len(labels)
    fits = len(features) == count and edges.ndim == 2 and edges.shape[1] == 2
    if not fits or any(mask.shape[1:] != (count,) for mask in masks):
        raise DataError(f"{path}: found arrays that do not fit {count} labels")
    if edges.size and not 0 <= edges.min() <= edges.max() < count:
        raise DataError(f"{path}: found node {edges.max()} in edges; wanted 0 to {count - 1}")
    train, val, test = (torch.from_numpy(mask.astype(bool)) for mask in masks)
    return Dataset(
        features=torch.from_numpy(features.astype(np.float32)),
        edge_index=undirected(torch.from_numpy(edges.astype(np.int64).T.copy()), count),
        labels=torch.from_numpy(labels.astype(np.int64)),
        train=train,
        val=val,
        test=test,
    )
