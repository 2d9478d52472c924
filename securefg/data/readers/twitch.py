"""Twitch as MUSAE publishes it: a folder per country, games as words, mature content predicted.

Rozemberczki, Allen and Sarkar, "Multi-scale Attributed Node Embedding", 2021. The seven countries
are seven natural clients: `partition: {name: given}` deals every streamer to its country.

torch-geometric's Twitch reads other files, with 128 dense features instead of the games.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.dataset import Dataset, no_split
from securefg.data.graph import undirected
from securefg.data.tables import fault, read_table, text_lines
from securefg.foundation.errors import DataError
from securefg.foundation.json_text import read_json
from securefg.foundation.npz import FREE

COUNTRIES: Final = ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "TW")
NUM_WORDS: Final = 3170
_PARTS = ("edges.csv", "features.json", "target.csv")
_MATURE = {"True": 1, "False": 0}


def files(name: str) -> tuple[str, ...]:
    return tuple(f"Twitch/{c}/raw/musae_{c}_{part}" for c in COUNTRIES for part in _PARTS)


def read(root: Path, name: str) -> Dataset:
    features, edges, labels, owners, first = [], [], [], [], 0
    for client, country in enumerate(COUNTRIES):
        raw = root / "Twitch" / country / "raw"
        edge_file, word_file, target_file = (raw / f"musae_{country}_{part}" for part in _PARTS)
        own = _labels(target_file)
        features.append(_words(word_file, len(own)))
        edges.append(_edges(edge_file, len(own)) + first)
        labels.append(own)
        owners.append(np.full(len(own), client))
        first += len(own)
    none = no_split(first)
    return Dataset(
        features=torch.from_numpy(np.concatenate(features)),
        edge_index=undirected(torch.from_numpy(np.concatenate(edges).T.copy()), first),
        labels=torch.from_numpy(np.concatenate(labels)),
        train=none,
        val=none,
        test=none,
        owners=torch.from_numpy(np.concatenate(owners)),
    )


def _labels(path: Path) -> NDArray[np.int64]:
    """Column `mature` by column `new_id`; France lists two streamers twice."""
    (header, titles), *lines = text_lines(path)
    names = titles.split(",")
    if not {"new_id", "mature"} <= set(names):
        raise fault(path, header, repr(titles), "a header with new_id and mature")
    found: dict[int, int] = {}
    for number, text in lines:
        row = dict(zip(names, text.split(","), strict=False))
        try:
            node, label = int(row["new_id"]), _MATURE[row["mature"]]
        except (KeyError, ValueError):
            raise fault(path, number, repr(text), "a node and True or False") from None
        if found.setdefault(node, label) != label:
            raise fault(path, number, repr(text), f"the label of node {node} that stands above")
    if sorted(found) != list(range(len(found))):
        raise DataError(f"{path}: found {len(found)} nodes; wanted all from 0 to {max(found)}")
    return np.array([found[node] for node in range(len(found))], np.int64)


def _words(path: Path, num_nodes: int) -> NDArray[np.float32]:
    try:
        by_node = {int(node): words for node, words in read_json(path, FREE).items()}
        rows = np.repeat(list(by_node), [len(words) for words in by_node.values()]).astype(int)
        columns = np.array([word for words in by_node.values() for word in words], int)
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: found {error}; wanted node -> list of words") from error
    inside = (rows >= 0) & (rows < num_nodes) & (columns >= 0) & (columns < NUM_WORDS)
    if not inside.all():
        raise DataError(f"{path}: wanted nodes 0 to {num_nodes - 1} and words 0 to {NUM_WORDS - 1}")
    words = np.zeros((num_nodes, NUM_WORDS), np.float32)
    words[rows, columns] = 1
    return words


def _edges(path: Path, num_nodes: int) -> NDArray[np.int64]:
    table = read_table(path, np.int64, columns=2, delimiter=",", header=True)
    good: NDArray[np.bool_] = np.all((table.values >= 0) & (table.values < num_nodes), axis=1)
    table.require(good, 0, f"nodes from 0 to {num_nodes - 1}")
    return np.asarray(table.values)
