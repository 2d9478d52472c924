"""Facebook100 as LINKX publishes it: one MATLAB file per university; the class year is predicted.

Traud, Mucha and Porter, "Social structure of Facebook networks", 2012; Lim et al., "Large Scale
Learning on Non-Homophilous Graphs", 2021. `local_info` has status, gender, major, second major,
dorm, year and high school, 0 where nothing is known. People of the years 2004 to 2009 stay, by
year; the first five columns become one-hot features. A high school is left out: most are named by a
person or two, so it tells who somebody is and nothing about the others.

torch-geometric's LINKXDataset reads the same file for another task: it predicts the gender, and the
year is a feature.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from securefg.data.dataset import Dataset, no_split
from securefg.data.graph import undirected
from securefg.foundation.errors import DataError

FIRST_YEAR, LAST_YEAR = 2004, 2009
YEAR = 5
DESCRIBED_BY = (0, 1, 2, 3, 4)


def files(name: str) -> tuple[str, ...]:
    return (f"LINKX/{name}/raw/data.mat",)


def read(root: Path, name: str) -> Dataset:
    path = root / files(name)[0]
    adjacency, people = _content(path)
    years = people[:, YEAR]
    kept = np.flatnonzero((years >= FIRST_YEAR) & (years <= LAST_YEAR))
    if not kept.size:
        raise DataError(f"{path}: found nobody of the years {FIRST_YEAR} to {LAST_YEAR}")
    ends = adjacency[kept][:, kept].tocoo()
    edges = torch.from_numpy(np.stack([ends.row, ends.col]).astype(np.int64))
    columns = [_one_hot(people[kept, column]) for column in DESCRIBED_BY]
    none = no_split(len(kept))
    return Dataset(
        features=torch.from_numpy(np.concatenate(columns, 1)),
        edge_index=undirected(edges, len(kept)),
        labels=torch.from_numpy((years[kept] - FIRST_YEAR).astype(np.int64)),
        train=none,
        val=none,
        test=none,
    )


def _content(path: Path) -> tuple[Any, NDArray[np.int64]]:
    try:
        content = loadmat(path)
        adjacency, people = content["A"].tocsr(), np.asarray(content["local_info"], np.int64)
    except (MatReadError, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise DataError(f"{path}: found {error}; wanted MATLAB arrays A and local_info") from error
    fits = people.ndim == 2 and people.shape[1] > YEAR
    if not fits or adjacency.shape != (len(people), len(people)):
        raise DataError(
            f"{path}: found A {adjacency.shape} and local_info {people.shape}; wanted (N, N) and "
            "(N, 7)"
        )
    return adjacency, people


def _one_hot(column: NDArray[np.int64]) -> NDArray[np.float32]:
    """A feature per value that occurs; none for 0, which is not known."""
    return np.asarray(column[:, None] == np.setdiff1d(column, [0]), np.float32)
