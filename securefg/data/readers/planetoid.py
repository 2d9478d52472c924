"""Cora, CiteSeer and PubMed as Planetoid publishes them.

Yang, Cohen, Salakhutdinov, "Revisiting Semi-Supervised Learning with Graph Embeddings", 2016.
`allx` holds the nodes 0..M-1, the first of them (`x`) for training and the next 500 for
validation; row i of `tx` is the node on line i of `test.index`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.data.dataset import Dataset, mask
from securefg.data.graph import undirected
from securefg.data.readers.pickles import read_matrix, read_neighbours
from securefg.data.tables import read_table
from securefg.foundation.errors import DataError

NUM_VAL = 500
_FOLDERS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")


def files(name: str) -> tuple[str, ...]:
    return tuple(f"Planetoid/{_FOLDERS[name]}/raw/ind.{name}.{part}" for part in _PARTS)


def read(root: Path, name: str) -> Dataset:
    paths = dict(zip(_PARTS, (root / file for file in files(name)), strict=True))
    try:
        return _dataset(paths)
    except (ValueError, IndexError) as error:
        raw = paths["x"].parent
        raise DataError(f"{raw}: found {error}; wanted parts that fit together") from error


def _dataset(paths: dict[str, Path]) -> Dataset:
    test = read_table(paths["test.index"], np.int64, columns=1).values[:, 0]
    features = _by_node(read_matrix(paths["allx"]), read_matrix(paths["tx"]), test)
    labels = _by_node(read_matrix(paths["ally"]), read_matrix(paths["ty"]), test)
    num_nodes, num_train = len(features), len(read_matrix(paths["y"]))
    if len(labels) != num_nodes or num_train > num_nodes:
        raise ValueError(f"{len(labels)} labels, {num_train} to train on, for {num_nodes} nodes")
    return Dataset(
        features=torch.from_numpy(features.astype(np.float32)),
        edge_index=_edges(paths["graph"], num_nodes),
        labels=torch.from_numpy(labels.argmax(1)),
        train=mask(torch.arange(num_train), num_nodes)[None],
        val=mask(torch.arange(num_train, num_train + NUM_VAL), num_nodes)[None],
        test=mask(torch.from_numpy(test), num_nodes)[None],
    )


def _by_node(known: NDArray[Any], tested: NDArray[Any], test: NDArray[np.int64]) -> NDArray[Any]:
    """Rows in the order of the nodes.

    CiteSeer's test index leaves out 15 nodes that come without words and without a label: they stay
    zero rows, which makes them class 0, as in every other reader of these files.
    """
    if test.min() < 0 or test.max() >= 2 * (len(known) + len(tested)):
        raise ValueError(f"the test nodes {test.min()} to {test.max()} of {len(tested)} rows")
    rows = np.zeros((max(len(known), int(test.max()) + 1), known.shape[1]), known.dtype)
    rows[: len(known)] = known
    rows[test] = tested
    return rows


def _edges(path: Path, num_nodes: int) -> Tensor:
    edges = torch.from_numpy(np.stack(read_neighbours(path)))
    for end in (int(edges.min()), int(edges.max())):
        if not 0 <= end < num_nodes:
            raise DataError(f"{path}: found node {end}; wanted 0 to {num_nodes - 1}")
    return undirected(edges, num_nodes)
