"""ACM as published with SDCN: three text files.

Bo et al., "Structural Deep Clustering Network", 2020.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from securefg.data.dataset import Dataset, no_split
from securefg.data.readers.plain import read_edges
from securefg.data.tables import read_table
from securefg.foundation.errors import DataError


def files(name: str) -> tuple[str, ...]:
    return ("ACM/raw/acm.txt", "ACM/raw/acm_label.txt", "ACM/raw/acm_graph.txt")


def read(root: Path, name: str) -> Dataset:
    feature_file, label_file, edge_file = (root / file for file in files(name))
    features = read_table(feature_file, np.float32).values
    labels = read_table(label_file, np.int64, columns=1).values[:, 0]
    if len(labels) != len(features):
        raise DataError(f"{label_file}: found {len(labels)} labels; wanted {len(features)}")
    none = no_split(len(labels))
    return Dataset(
        features=torch.from_numpy(features),
        edge_index=read_edges(edge_file, len(labels)),
        labels=torch.from_numpy(labels.copy()),
        train=none,
        val=none,
        test=none,
    )
