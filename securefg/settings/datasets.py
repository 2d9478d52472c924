"""The datasets by name: one line about each, and the figures that are published for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module, installed

Norm = Literal["l1", "l2", "none"]
GROUP: Final = "securefg.datasets"


@dataclass(frozen=True)
class DatasetInfo:
    """What `securefg list datasets` shows; a figure that depends on the settings is None.

    num_edges counts an undirected edge once, without self-loops and duplicates, as `Graph` does.
    norm is what rows are scaled to when `data.normalize_features` is not set: bags of words to a
    sum of one (L1), tf-idf of long pages to unit length (L2), as is usual for each.
    public_training is the number of training nodes of the public split.
    """

    name: str
    description: str
    num_nodes: int | None = None
    num_edges: int | None = None
    num_features: int | None = None
    num_classes: int | None = None
    directed: bool = False
    norm: Norm = "l1"
    public_training: int | None = None


_ALL = (
    DatasetInfo(
        "cora", "citations between papers, bag of words", 2708, 5278, 1433, 7, public_training=140
    ),
    DatasetInfo(
        "citeseer",
        "citations between papers, bag of words",
        3327,
        4552,
        3703,
        6,
        public_training=120,
    ),
    DatasetInfo(
        "pubmed", "citations between papers, tf-idf", 19717, 44324, 500, 3, public_training=60
    ),
    DatasetInfo(
        "chameleon", "links between Wikipedia pages, heterophilous", 2277, 36051, 2325, 5, True
    ),
    DatasetInfo(
        "squirrel", "links between Wikipedia pages, heterophilous", 5201, 216933, 2089, 5, True
    ),
    DatasetInfo("acm", "papers that share an author, keywords", 3025, 13128, 1870, 3),
    DatasetInfo("wiki", "links between Wikipedia pages, tf-idf", 2405, 11596, 4973, 17, norm="l2"),
    DatasetInfo(
        "wikics",
        "links between computer science pages, dense word vectors",
        11701,
        num_features=300,
        num_classes=10,
        norm="none",
    ),
    *(
        DatasetInfo(
            name, f"friends at {where}, class year 2004-2009", *figures, num_classes=6, norm="l2"
        )
        for name, where, figures in (
            ("cornell5", "Cornell", (15374, 651726, 346)),
            ("johnshopkins55", "Johns Hopkins", (4425, 162995, 244)),
            ("amherst41", "Amherst", (1934, 79835, 100)),
            ("reed98", "Reed", (800, 15002, 114)),
        )
    ),
    DatasetInfo("twitch", "streamers of seven countries, mature or not", 36890, 492575, 3170, 2),
    DatasetInfo(
        "tolokers", "workers of shared tasks, banned or not", 11758, 519000, 10, 2, norm="none"
    ),
    DatasetInfo(
        "chameleonfiltered", "chameleon without duplicated pages, undirected", 890, 8854, 2325, 5
    ),
    DatasetInfo(
        "squirrelfiltered", "squirrel without duplicated pages, undirected", 2223, 46998, 2089, 5
    ),
    DatasetInfo(
        "amlsim", "payments between accounts, fraud or not", 20000, 117326, 16, 2, True, norm="none"
    ),
    DatasetInfo(
        "csbm",
        "contextual stochastic block model: tasks dnc, snc and sc",
        num_classes=2,
        norm="none",
    ),
    DatasetInfo(
        "subcora",
        "300 nodes of Cora around a connected training set, drawn from the seed",
        num_features=1433,
        num_classes=7,
    ),
    DatasetInfo("folder", "bring your own: edges, features, labels as csv or npz", norm="none"),
)

DATASETS: Mapping[str, DatasetInfo] = MappingProxyType({info.name: info for info in _ALL})


def canonical_name(name: str) -> str:
    """Return the catalogue's spelling, or the name of an outside dataset as it is.

    Case, hyphens and underscores do not matter for a name of the catalogue.
    """
    plain = name.lower().replace("-", "").replace("_", "")
    if plain in DATASETS:
        return plain
    dataset_info(name)
    return name


def dataset_names() -> list[str]:
    """Return all names that a config may use without a module path."""
    return [*DATASETS, *(name for name in installed(GROUP) if name not in DATASETS)]


def dataset_info(name: str) -> DatasetInfo:
    """Return the figures of a dataset: a shipped one, an installed one, or any DATASET."""
    if name in DATASETS:
        return DATASETS[name]
    module = find_module("data.name", name, dict.fromkeys(DATASETS, ""), GROUP)
    info = getattr(getattr(module, "DATASET", None), "info", None)
    if not isinstance(info, DatasetInfo):
        raise ConfigError(
            f"data.name: found no DATASET with a DatasetInfo in module {name!r}; expected "
            "DATASET = Source(info, read) of securefg.data.dataset"
        )
    return info
