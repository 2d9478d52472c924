"""Bring your own: a folder with edges, features, labels and, if there is one, a split.

    edges.csv     source,target                 or edges.npz     edge_index (2, E)
    features.csv  node,value,value,...          or features.npz  x (N, d), or scipy's CSR parts
    labels.csv    node,label                    or labels.npz    y (N,)
    split.csv     node,train|val|test           optional; a node may be left out

Nodes are 0..N-1, each once, in any order; labels are 0..C-1 without gaps. A first line without a
number is a header. Edges are taken as undirected.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.dataset import Dataset, no_split
from securefg.data.graph import undirected
from securefg.data.readers import folder_csv, folder_npz
from securefg.foundation.errors import DataError

_Reader = Callable[[Path], NDArray[Any]]


def read(folder: Path) -> Dataset:
    """The folder as a dataset; every fault names the file and the line (csv) or row (npz)."""
    if not folder.is_dir():
        raise DataError(f"{folder}: found no such folder; wanted edges, features and labels in it")
    features = _either(folder, "features", folder_csv.features, folder_npz.features)
    num_nodes = len(features)
    labels = _either(
        folder,
        "labels",
        lambda path: folder_csv.labels(path, num_nodes),
        lambda path: folder_npz.labels(path, num_nodes),
    )
    edges = _either(
        folder,
        "edges",
        lambda path: folder_csv.edges(path, num_nodes),
        lambda path: folder_npz.edges(path, num_nodes),
    )
    parts = _split(folder / "split.csv", num_nodes)
    return Dataset(
        features=torch.from_numpy(features.astype(np.float32)),
        edge_index=undirected(torch.from_numpy(edges), num_nodes),
        labels=torch.from_numpy(labels),
        train=parts[0],
        val=parts[1],
        test=parts[2],
    )


def _either(folder: Path, stem: str, csv: _Reader, npz: _Reader) -> NDArray[Any]:
    """Read `stem`.csv or `stem`.npz, whichever is there; both would leave open which one counts."""
    found = [path for path in (folder / f"{stem}.csv", folder / f"{stem}.npz") if path.is_file()]
    if len(found) != 1:
        what = "both" if found else "neither"
        raise DataError(f"{folder}: found {what} of {stem}.csv and {stem}.npz; wanted one of them")
    return csv(found[0]) if found[0].suffix == ".csv" else npz(found[0])


def _split(path: Path, num_nodes: int) -> tuple[torch.Tensor, ...]:
    if not path.is_file():
        return (no_split(num_nodes),) * 3
    assigned = folder_csv.split(path, num_nodes)
    return tuple(torch.from_numpy(assigned == part)[None] for part in folder_csv.PARTS)
