"""Wiki-CS as published: one JSON file with twenty training splits and one test set.

Mernyei and Cangea, "Wiki-CS: A Wikipedia-Based Benchmark for Graph Neural Networks", 2020.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from securefg.data.dataset import Dataset
from securefg.data.graph import undirected
from securefg.foundation.errors import DataError
from securefg.foundation.json_text import read_json
from securefg.foundation.npz import FREE
from securefg.foundation.quoting import shortened, shown

_KEYS = ("features", "labels", "links", "train_masks", "val_masks", "test_mask")


def files(name: str) -> tuple[str, ...]:
    return ("WikiCS/raw/data.json",)


def read(root: Path, name: str) -> Dataset:
    path = root / files(name)[0]
    content = _content(path)
    try:
        return _dataset(content)
    except (TypeError, ValueError, IndexError, RuntimeError, OverflowError) as error:
        found = shortened(" ".join(str(error).split()), 200)
        raise DataError(f"{path}: found {found}; wanted Wiki-CS's lists, one row a node") from error


def _content(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path, FREE)
    except ValueError as error:
        raise DataError(f"{path}: found {shortened(str(error))}; wanted JSON") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: found {shown(content)}; wanted the keys {', '.join(_KEYS)}")
    missing = [key for key in _KEYS if key not in content]
    if missing:
        raise DataError(f"{path}: found no {missing[0]!r}; wanted the keys {', '.join(_KEYS)}")
    return dict(content)


def _dataset(content: dict[str, Any]) -> Dataset:
    features = torch.tensor(content["features"], dtype=torch.float32)
    train = torch.tensor(content["train_masks"], dtype=torch.bool)
    test = torch.tensor(content["test_mask"], dtype=torch.bool)
    return Dataset(
        features=features,
        edge_index=_edges(content["links"], len(features)),
        labels=torch.tensor(content["labels"]),
        train=train,
        val=torch.tensor(content["val_masks"], dtype=torch.bool),
        test=test.expand(len(train), -1).contiguous(),
    )


def _edges(links: list[list[int]], num_nodes: int) -> Tensor:
    if len(links) != num_nodes:
        raise ValueError(f"{len(links)} lists of links for {num_nodes} nodes")
    pairs = [(node, end) for node, ends in enumerate(links) for end in ends]
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < num_nodes:
        raise ValueError(f"a link outside 0 to {num_nodes - 1}")
    return undirected(edges, num_nodes)
