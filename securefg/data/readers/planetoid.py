"""Cora, CiteSeer and PubMed as Planetoid publishes them.

Yang, Cohen, Salakhutdinov, "Revisiting Semi-Supervised Learning with Graph Embeddings", 2016.
`allx` holds the nodes 0..M-1, the first of them (`x`) for training and the next 500 for
validation; row i of `tx` is the node on line i of `test.index`.

The files are pickles, which name the functions they want called. Only those that rebuild arrays,
sparse matrices and adjacency lists are admitted; any other name is refused before it is called.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor

from securefg.data.dataset import Dataset, mask
from securefg.data.graph import undirected
from securefg.data.tables import read_table
from securefg.foundation.errors import DataError

_RECONSTRUCT: Any = np.zeros(0).__reduce__()[0]

_ADMITTED: Mapping[tuple[str, str], Any] = MappingProxyType(
    {
        ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
        ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("scipy.sparse.csr", "csr_matrix"): csr_matrix,
        ("scipy.sparse._csr", "csr_matrix"): csr_matrix,
        ("collections", "defaultdict"): defaultdict,
        ("__builtin__", "list"): list,
        ("builtins", "list"): list,
    }
)


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}")
        return _ADMITTED[module, name]


def read_pickle(path: Path) -> Any:
    """An array, a sparse matrix or a dictionary of lists; anything else raises `DataError`."""
    try:
        with path.open("rb") as file:
            return _ArraysOnly(file, encoding="latin1").load()
    except Exception as error:
        # Damaged pickles fail in any way the rebuilt classes can fail; all mean the same here.
        raise DataError(f"{path}: found {error}; wanted a pickle of arrays or lists") from error


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
    features = _by_node(_dense(paths["allx"]), _dense(paths["tx"]), test)
    labels = _by_node(_dense(paths["ally"]), _dense(paths["ty"]), test)
    num_nodes, num_train = len(features), len(_dense(paths["y"]))
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
    rows = np.zeros((max(len(known), int(test.max()) + 1), known.shape[1]), known.dtype)
    rows[: len(known)] = known
    rows[test] = tested
    return rows


def _dense(path: Path) -> NDArray[Any]:
    matrix = read_pickle(path)
    found = np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix)
    if found.ndim != 2 or found.dtype.kind not in "fiu":
        raise DataError(f"{path}: found a pickle of {type(matrix).__name__}; wanted a matrix")
    return found


def _edges(path: Path, num_nodes: int) -> Tensor:
    neighbours = read_pickle(path)
    try:
        sources = np.repeat(list(neighbours), [len(ends) for ends in neighbours.values()])
        targets = np.concatenate([np.asarray(ends, np.int64) for ends in neighbours.values()])
        edges = torch.from_numpy(np.stack([sources, targets]).astype(np.int64))
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{path}: found {error}; wanted node -> list of neighbours") from error
    if edges.min() < 0 or edges.max() >= num_nodes:
        raise DataError(f"{path}: found node {int(edges.max())}; wanted 0 to {num_nodes - 1}")
    return undirected(edges, num_nodes)
