"""Published datasets that torch-geometric does not read, or reads for another task.

Facebook100 (Traud, Mucha and Porter, "Social structure of Facebook networks", 2012; Lim et al.,
"Large Scale Learning on Non-Homophilous Graphs", 2021): one MATLAB file per university, the class
year is predicted. `local_info` has status, gender, major, second major, dorm, year and high school,
0 where nothing is known. People of the years 2004 to 2009 stay, and the first five columns become
one-hot features. A high school is left out: most are named by a person or two, so it tells who
somebody is and nothing about the others. torch-geometric predicts the gender from the same file.

Tolokers, and Chameleon and Squirrel without duplicated pages (Platonov et al., "A Critical Look at
the Evaluation of GNNs under Heterophily", 2023): one archive with ten splits each.

ACM (Bo et al., "Structural Deep Clustering Network", 2020) and Wiki (Yang et al., "Network
Representation Learning with Rich Text Information", 2015): text files. Wiki's groups carry the ids
1 to 19, of which two are empty: they are renumbered 0 to 16 in their order.

Twitch (Rozemberczki, Allen and Sarkar, "Multi-scale Attributed Node Embedding", 2021): a folder per
country, games as words, mature content predicted. The seven countries are seven natural clients:
`partition: {name: given}` deals every streamer to its country. torch-geometric's Twitch has 128
dense features instead of the games.

AMLSim (Weber et al., "Scalable Graph Learning for Anti-Money Laundering", 2018): payments between
accounts, fraud is predicted. An account's feature is the balance it opened with, in one of sixteen
bins: amounts and times belong to transactions, so one party of a payment would be in the other's
features. The file names no bank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.dataset import Dataset
from securefg.data.graph import sorted_edges, undirected
from securefg.data.tables import read_table, table_fault, text_lines
from securefg.foundation.errors import DataError
from securefg.foundation.json_text import read_json
from securefg.foundation.npz import FREE, read_npz, room_for

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

FIRST_YEAR, LAST_YEAR = 2004, 2009
YEAR: Final = 5
DESCRIBED_BY = (0, 1, 2, 3, 4)
MASKS = ("train_masks", "val_masks", "test_masks")
COUNTRIES: Final = ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "TW")
NUM_WORDS: Final = 3170
MATURE = {"True": 1, "False": 0}
BINS: Final = 16
LARGEST_BALANCE: Final = 200.0


def read_facebook(path: Path) -> Dataset:
    """Read a university of Facebook100."""
    adjacency, people = _read_university(path)
    years = people[:, YEAR]
    kept = np.flatnonzero((years >= FIRST_YEAR) & (years <= LAST_YEAR))
    if not kept.size:
        raise DataError(f"{path}: found nobody of the years {FIRST_YEAR} to {LAST_YEAR}")
    ends = adjacency[kept][:, kept].tocoo()
    edges = torch.from_numpy(np.stack([ends.row, ends.col]).astype(np.int64))
    columns = [_one_hot(people[kept, column]) for column in DESCRIBED_BY]
    return Dataset.without_split(
        features=torch.from_numpy(np.concatenate(columns, 1)),
        edge_index=undirected(edges, len(kept)),
        labels=torch.from_numpy((years[kept] - FIRST_YEAR).astype(np.int64)),
    )


def _read_university(path: Path) -> tuple[Any, Ints]:
    from scipy.io import loadmat  # loaded where it is used
    from scipy.io.matlab import MatReadError

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


def _one_hot(column: Ints) -> Floats:
    """A feature per value that occurs; none for 0, which is not known."""
    return np.asarray(column[:, None] == np.setdiff1d(column, [0]), np.float32)


def read_heterophilous(path: Path) -> Dataset:
    """Read an archive of a graph with ten splits."""
    arrays = read_npz(path)
    wanted = ("node_features", "node_labels", "edges", *MASKS)
    missing = [key for key in wanted if key not in arrays]
    if missing:
        raise DataError(f"{path}: found no {missing[0]!r}; wanted the arrays {', '.join(wanted)}")
    features, labels, edges, *masks = (arrays[key] for key in wanted)
    count = len(labels)
    fits = len(features) == count and edges.ndim == 2 and edges.shape[1] == 2
    if not fits or any(mask.shape[1:] != (count,) for mask in masks):
        raise DataError(f"{path}: found arrays that do not fit {count} labels")
    if edges.size and not 0 <= edges.min() <= edges.max() < count:
        raise DataError(f"{path}: found node {edges.max()} in edges; wanted 0 to {count - 1}")
    train, val, test = (torch.from_numpy(mask.astype(bool)) for mask in masks)
    return Dataset(
        torch.from_numpy(features.astype(np.float32)),
        undirected(torch.from_numpy(edges.astype(np.int64).T.copy()), count),
        torch.from_numpy(labels.astype(np.int64)),
        train,
        val,
        test,
    )


def read_acm(feature_file: Path, label_file: Path, edge_file: Path) -> Dataset:
    """Read ACM: a row of features and a label per line."""
    features = read_table(feature_file, np.float32).values
    labels = read_table(label_file, np.int64, columns=1).values[:, 0].copy()
    if len(labels) != len(features):
        raise DataError(f"{label_file}: found {len(labels)} labels; wanted {len(features)}")
    return _from_lists(features, labels, edge_file)


def read_wiki(feature_file: Path, label_file: Path, edge_file: Path) -> Dataset:
    """Read Wiki: triples of node, word and weight, and a group per node."""
    groups = read_table(label_file, np.int64, columns=2)
    in_order = groups.values[:, 0] == np.arange(len(groups))
    groups.require(in_order, 0, "the nodes 0, 1, 2, ... in order")
    labels = np.unique(groups.values[:, 1], return_inverse=True)[1].astype(np.int64)
    return _from_lists(_read_tfidf(feature_file, len(labels)), labels, edge_file)


def _read_tfidf(path: Path, num_nodes: int) -> Floats:
    table = read_table(path, np.float64, columns=3)
    nodes, words, weights = table.values.T
    table.require_nodes(0, num_nodes)
    most = room_for(table.values.nbytes) // (4 * num_nodes)
    table.require((words >= 0) & (words < most), 1, f"a word from 0 to {most - 1}")
    table.require(np.abs(weights) <= np.finfo(np.float32).max, 2, "a finite float32 weight")
    features = np.zeros((num_nodes, int(words.max()) + 1), np.float32)
    features[nodes.astype(np.int64), words.astype(np.int64)] = weights
    return features


def _from_lists(features: Floats, labels: Ints, edge_file: Path) -> Dataset:
    edges = undirected(torch.from_numpy(_read_edges(edge_file, len(labels)).T.copy()), len(labels))
    return Dataset.without_split(torch.from_numpy(features), edges, torch.from_numpy(labels))


def _read_edges(path: Path, num_nodes: int, **form: Any) -> Ints:
    """Lines of two nodes, (E, 2)."""
    table = read_table(path, np.int64, columns=2, **form)
    for column in (0, 1):
        table.require_nodes(column, num_nodes)
    return np.asarray(table.values)


def read_twitch(*files: Path) -> Dataset:
    """Read all countries: the files of edges, words and targets of one after the other."""
    features, edges, labels, owners, first = [], [], [], [], 0
    for client in range(len(COUNTRIES)):
        edge_file, word_file, target_file = files[3 * client : 3 * client + 3]
        client_labels = _read_mature(target_file)
        features.append(_read_games(word_file, len(client_labels)))
        edges.append(_read_edges(edge_file, len(client_labels), delimiter=",", header=True) + first)
        labels.append(client_labels)
        owners.append(np.full(len(client_labels), client))
        first += len(client_labels)
    return Dataset.without_split(
        features=torch.from_numpy(np.concatenate(features)),
        edge_index=undirected(torch.from_numpy(np.concatenate(edges).T.copy()), first),
        labels=torch.from_numpy(np.concatenate(labels)),
        owners=torch.from_numpy(np.concatenate(owners)),
    )


def _read_mature(path: Path) -> Ints:
    """Column `mature` by column `new_id`; France lists two streamers twice."""
    (header, titles), *lines = text_lines(path)
    names = titles.split(",")
    if not {"new_id", "mature"} <= set(names):
        raise table_fault(path, header, repr(titles), "a header with new_id and mature")
    label_of_node: dict[int, int] = {}
    for number, text in lines:
        row = dict(zip(names, text.split(","), strict=False))
        try:
            node, label = int(row["new_id"]), MATURE[row["mature"]]
        except (KeyError, ValueError):
            raise table_fault(path, number, repr(text), "a node and True or False") from None
        if label_of_node.setdefault(node, label) != label:
            raise table_fault(
                path, number, repr(text), f"the label of node {node} that stands above"
            )
    if sorted(label_of_node) != list(range(len(label_of_node))):
        raise DataError(
            f"{path}: found {len(label_of_node)} nodes; wanted all from 0 to {max(label_of_node)}"
        )
    return np.array([label_of_node[node] for node in range(len(label_of_node))], np.int64)


def _read_games(path: Path, num_nodes: int) -> Floats:
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


def read_amlsim(account_file: Path, payment_file: Path) -> Dataset:
    """Read AMLSim's accounts and transactions; the graph is directed."""
    accounts = read_table(account_file, np.float64, columns=4, delimiter=",", header=True)
    ids, fraud, balances, _ = accounts.values.T
    count = len(accounts)
    accounts.require(ids == np.arange(count), 0, "the accounts 0, 1, 2, ... in order")
    accounts.require((fraud == 0) | (fraud == 1), 1, "isFraud 0 or 1")
    accounts.require(balances >= 0, 2, "a balance from 0")
    payments = read_table(payment_file, np.float64, columns=4, delimiter=",", header=True)
    ends = payments.values[:, :2]
    good = ((ends >= 0) & (ends < count) & (ends == np.floor(ends))).all(1)
    payments.require(good, 0, f"accounts from 0 to {count - 1}")
    bins = np.minimum(balances / LARGEST_BALANCE * BINS, BINS - 1).astype(np.int64)
    return Dataset.without_split(
        features=torch.from_numpy(np.eye(BINS, dtype=np.float32)[bins]),
        edge_index=sorted_edges(torch.from_numpy(ends.astype(np.int64).T.copy()), count),
        labels=torch.from_numpy(fraud.astype(np.int64)),
        directed=True,
    )


def _archive_path(stem: str) -> tuple[str]:
    return (f"HeterophilousGraphDataset/{stem}/raw/{stem}.npz",)


FILES: Mapping[str, tuple[Callable[..., Dataset], tuple[str, ...]]] = MappingProxyType(
    {
        **{
            name: (read_facebook, (f"LINKX/{name}/raw/data.mat",))
            for name in ("cornell5", "johnshopkins55", "amherst41", "reed98")
        },
        "tolokers": (read_heterophilous, _archive_path("tolokers")),
        "chameleonfiltered": (read_heterophilous, _archive_path("chameleon_filtered")),
        "squirrelfiltered": (read_heterophilous, _archive_path("squirrel_filtered")),
        "acm": (read_acm, ("ACM/raw/acm.txt", "ACM/raw/acm_label.txt", "ACM/raw/acm_graph.txt")),
        "wiki": (read_wiki, ("Wiki/raw/tfidf.txt", "Wiki/raw/group.txt", "Wiki/raw/graph.txt")),
        "twitch": (
            read_twitch,
            tuple(
                f"Twitch/{country}/raw/musae_{country}_{part}"
                for country in COUNTRIES
                for part in ("edges.csv", "features.json", "target.csv")
            ),
        ),
        "amlsim": (read_amlsim, ("AMLSim/raw/nodes.csv", "AMLSim/raw/transactions.csv")),
    }
)
"""By our name of a dataset, its reader and its files below the data root."""


def files(name: str) -> tuple[str, ...]:
    """Return the raw files of a dataset, as paths below the data root."""
    return FILES[name][1]


def read(root: Path, name: str) -> Dataset:
    """Read a dataset from its files below `root`."""
    reader, names = FILES[name]
    return reader(*(root / file for file in names))
