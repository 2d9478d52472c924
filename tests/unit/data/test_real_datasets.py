"""The published datasets as they are, where SECUREFG_DATA says they lie."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from securefg.data.datasets import load
from securefg.data.graph import Graph, sorted_edges
from securefg.data.readers import geometric
from securefg.settings.data import DataSettings
from securefg.settings.datasets import DATASETS

pytestmark = pytest.mark.skipif(
    not os.environ.get("SECUREFG_DATA"),
    reason="SECUREFG_DATA is not set: it names the folder with the published datasets",
)

SPLITS = {
    "cora": (140, 500, 1000),
    "citeseer": (120, 500, 1000),
    "pubmed": (60, 500, 1000),
    "chameleon": (1092, 729, 456),
    "squirrel": (2496, 1664, 1041),
    "acm": (60, 500, 1000),
    "wiki": (294, 500, 1000),
    "tolokers": (5879, 2939, 2940),
    "chameleonfiltered": (409, 287, 194),
    "squirrelfiltered": (1053, 718, 452),
}
# Without a published split: these are drawn.
DRAWN = (
    "cornell5",
    "johnshopkins55",
    "amherst41",
    "reed98",
    "amlsim",
    pytest.param("twitch", marks=pytest.mark.slow),
)
# `edge_index` columns, for undirected graphs twice the edges.
ENTRIES = {"cora": 10556, "citeseer": 9104, "pubmed": 88648, "acm": 2 * 13128}
# What the directed files list, self-loops included: a `Graph` has none.
LISTED = {"chameleon": (36101, 50), "squirrel": (217073, 140)}
# Features, edges, labels and splits to the bit, as the hand-written readers of 0.1.0 gave them.
DIGESTS = {
    "cora": "b5387e2e83fdee8fc9bc30eece238c462bedc16897faacff92dcd0e0afd19856",
    "citeseer": "c8581dc4b2266d6d07274aa43535f2841b27a231e7622731156aa5b45ddc2507",
    "pubmed": "d27308e0aaa9fe5d3573dcc6aeb919585ab75a01a700462f74251d5d5f7040c9",
    "chameleon": "8adf4645c9306f7d0a53c3b5dae80b775d4359c57525426d55749bd3755d862a",
    "squirrel": "4cd3f2b1d15900cb6672259b20bdb1ebda758bc1066a25460d373fe040bcf8ad",
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("published")


@pytest.fixture(autouse=True)
def shared_cache(own_cache: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECUREFG_CACHE", str(cache))


def loaded(name: str, **given) -> Graph:
    return load(DataSettings.model_validate({"name": name, **given}), seed=0)


@pytest.mark.parametrize("name", SPLITS)
def test_a_dataset_has_the_figures_of_the_catalogue(name: str):
    graph, info = loaded(name), DATASETS[name]
    assert graph.num_nodes == info.num_nodes
    assert graph.num_edges == info.num_edges
    assert graph.num_features == info.num_features
    assert graph.num_classes == info.num_classes == len(graph.labels.unique())
    assert graph.directed == info.directed
    assert graph.split.sizes == SPLITS[name]


@pytest.mark.parametrize("name", DIGESTS)
def test_read_published_dataset_equals_recorded_bits(name: str):
    dataset, array_digest = (
        geometric.read(Path(os.environ["SECUREFG_DATA"]), name),
        hashlib.sha256(),
    )
    for key, value in sorted(dataset.tensors().items()):
        array_digest.update(f"{key} {tuple(value.shape)} {value.dtype}".encode())
        array_digest.update(value.contiguous().numpy().tobytes())
    assert array_digest.hexdigest() == DIGESTS[name]


@pytest.mark.parametrize("name", DRAWN)
def test_data_about_people_and_payments_have_the_figures_of_the_catalogue(name: str):
    graph, info = loaded(name, split={"kind": "shares"}), DATASETS[name]
    found = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)
    assert found == (info.num_nodes, info.num_edges, info.num_features, info.num_classes)


@pytest.mark.parametrize("name", SPLITS)
def test_a_dataset_keeps_the_promises_of_a_graph(name: str):
    graph = loaded(name)
    assert torch.equal(graph.edge_index, sorted_edges(graph.edge_index, graph.num_nodes))
    if not graph.directed:
        flipped = sorted_edges(graph.edge_index.flip(0), graph.num_nodes)
        assert torch.equal(graph.edge_index, flipped)
    if DATASETS[name].norm != "none":
        sums = graph.features.norm(p=int(DATASETS[name].norm[1]), dim=1)
        assert bool(((sums - 1).abs() < 1e-4).logical_or(sums == 0).all())
    parts = graph.split.train.int() + graph.split.val.int() + graph.split.test.int()
    assert int(parts.max()) == 1


@pytest.mark.parametrize(("name", "entries"), ENTRIES.items())
def test_edges_are_as_many_as_the_library_loads(name: str, entries: int):
    assert loaded(name).edge_index.shape[1] == entries


@pytest.mark.parametrize(("name", "listed"), LISTED.items())
def test_directed_edges_are_those_listed_less_the_self_loops(name: str, listed: tuple[int, int]):
    entries, loops = listed
    assert loaded(name).num_edges == entries - loops


def test_the_ten_public_splits_differ():
    chosen = [loaded("chameleon", split={"index": index}).split.train for index in range(10)]
    assert len({tuple(mask.tolist()) for mask in chosen}) == 10


def test_citeseer_has_fifteen_nodes_that_its_test_index_leaves_out():
    graph = loaded("citeseer")
    empty = graph.features.sum(1) == 0
    masked = graph.split.train | graph.split.val | graph.split.test
    assert int(empty.sum()) == 15
    assert not (empty & masked).any()


def test_wiki_has_88_rows_of_zeros_and_small_classes():
    graph = loaded("wiki")
    assert int((graph.features.sum(1) == 0).sum()) == 88
    assert np.sort(torch.bincount(graph.labels).numpy())[:3].tolist() == [9, 10, 11]


def test_features_can_be_left_as_published():
    assert float(loaded("wiki", normalize_features="none").features.max()) > 1600


@pytest.mark.parametrize("labels_per_class", [5, 10, 15])
def test_a_random_split_of_cora_has_its_labels(labels_per_class: int):
    graph = loaded("cora", split={"kind": "random", "labels_per_class": labels_per_class})
    assert graph.split.sizes == (7 * labels_per_class, 500, 1000)


def test_cora_comes_from_the_cache_in_a_moment():
    loaded("cora")
    start = time.process_time()
    loaded("cora")
    assert time.process_time() - start < 0.5
