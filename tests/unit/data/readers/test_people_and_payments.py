"""Readers of Facebook100, Twitch, Tolokers and AMLSim, on small files of the published formats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat
from scipy.sparse import csc_matrix

from securefg.data.canaries import draw_canaries, with_canaries
from securefg.data.datasets import load
from securefg.data.graph import Graph
from securefg.data.partitions import draw_partition
from securefg.data.readers import published
from securefg.data.shard import shards
from securefg.foundation.errors import ConfigError, DataError
from securefg.settings.data import DataSettings
from securefg.settings.execution import AuditSettings
from securefg.settings.partition import GivenSettings, RandomSettings

SHARES = {"kind": "shares", "train_share": 0.5, "val_share": 0.25}


def loaded(root: Path, name: str) -> Graph:
    return load(DataSettings.model_validate({"name": name, "root": root, "split": SHARES}), seed=0)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# ------------------------------------------------------------------------------------- Facebook100


def university(root: Path, years: list[int], columns: int = 7) -> Path:
    """People in a ring; columns: status, gender, major, second major, dorm, year, high school."""
    count = len(years)
    people = np.zeros((count, 7), np.int64)
    people[:, 0] = [1, 2] * (count // 2)
    people[0, 0] = 0
    people[:, 2] = 7
    people[:, 5] = years
    people[:, 6] = 100 + np.arange(count)
    ring = np.roll(np.eye(count), 1, 1)
    path = root / published.files("cornell5")[0]
    path.parent.mkdir(parents=True)
    savemat(path, {"A": csc_matrix(ring + ring.T), "local_info": people[:, :columns]})
    return root


def test_people_of_the_six_years_stay_with_their_links_and_their_year_as_label(tmp_path: Path):
    years = [2004, 2005, 2006, 2007, 2008, 2009, 0, 2010]
    graph = loaded(university(tmp_path, years), "cornell5")
    assert graph.labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert graph.num_edges == 5  # the ring is cut where the last two people stood


def test_columns_become_one_hot_without_missing_values_and_without_high_schools(tmp_path: Path):
    data = published.read(university(tmp_path, [2004, 2005, 2006, 2007, 2008, 2009]), "cornell5")
    wanted = [[0, 0, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1]]
    assert data.features.tolist() == wanted


@pytest.mark.parametrize(
    ("years", "columns", "words"),
    [([2001] * 6, 7, "nobody of the years"), ([2004] * 6, 4, "local_info")],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, years, columns: int, words: str):
    root = university(tmp_path, years, columns)
    with pytest.raises(DataError, match=words):
        published.read(root, "cornell5")


def test_a_file_that_is_no_matlab_file_is_refused(tmp_path: Path):
    written(tmp_path / published.files("reed98")[0], "not a matrix")
    with pytest.raises(DataError, match="wanted MATLAB arrays"):
        published.read(tmp_path, "reed98")


# ------------------------------------------------------------------------------------------ Twitch


def countries(root: Path, target: str = "", words: str = "") -> Path:
    """Four streamers in each country, in a path; the first country's files may be others."""
    for client, country in enumerate(published.COUNTRIES):
        raw = root / "Twitch" / country / "raw"
        rows = "0,5,True,1,False\n1,5,False,1,False\n2,5,True,1,False\n3,5,False,1,True\n"
        written(
            raw / f"musae_{country}_target.csv",
            "new_id,days,mature,views,partner\n" + (target if target and not client else rows),
        )
        games = words if words and not client else json.dumps({"0": [client, 9, 9], "2": []})
        written(raw / f"musae_{country}_features.json", games)
        written(raw / f"musae_{country}_edges.csv", "from,to\n0,1\n1,2\n2,3\n")
    return root


def test_every_country_is_a_client_with_its_own_links(tmp_path: Path):
    graph = loaded(countries(tmp_path), "twitch")
    partition = draw_partition(graph, GivenSettings(), seed=0)
    assert partition.sizes.tolist() == [4] * 7
    for client, shard in enumerate(shards(graph, partition)):
        assert shard.node_ids.tolist() == list(range(4 * client, 4 * client + 4))
        assert shard.graph.num_edges == 3
        assert shard.graph.labels.tolist() == [1, 0, 1, 0]
        assert shard.graph.features[0].nonzero().flatten().tolist() == sorted({client, 9})
        assert shard.graph.owners is None


def test_a_streamer_listed_twice_counts_once_and_must_not_contradict_itself(tmp_path: Path):
    twice = "0,5,True,1,False\n1,5,True,1,False\n2,5,True,1,False\n3,5,True,1,False\n"
    graph = loaded(countries(tmp_path / "same", target=twice + "3,5,True,2,False\n"), "twitch")
    assert graph.num_nodes == 28
    with pytest.raises(DataError, match="line 6"):
        loaded(countries(tmp_path / "other", target=twice + "3,5,False,2,False\n"), "twitch")


@pytest.mark.parametrize(
    "files",
    [
        {"target": "0,5,Maybe,1,False\n"},
        {"target": "5,5,True,1,False\n"},
        {"words": '{"0": [3170]}'},
        {"words": '{"9": [1]}'},
        {"words": "[]"},
    ],
)
def test_faults_of_a_country_are_named(tmp_path: Path, files: dict[str, str]):
    with pytest.raises(DataError, match="musae_DE"):
        loaded(countries(tmp_path, **files), "twitch")


def test_a_canary_lives_with_its_first_neighbour(tmp_path: Path):
    graph = loaded(countries(tmp_path), "twitch")
    canaries = draw_canaries(graph, AuditSettings(canaries=4), seed=0)
    joined = with_canaries(graph, canaries)
    assert joined.owners is not None
    assert graph.owners is not None
    assert torch.equal(joined.owners[-4:], graph.owners[canaries.neighbours[:, 0]])


def test_given_wants_data_that_say_who_holds_a_node(graph: Graph):
    with pytest.raises(ConfigError, match=r"clients\.csv"):
        draw_partition(graph, GivenSettings(), seed=0)


def test_random_clients_are_disjoint_equal_and_hold_everything(graph: Graph):
    partition = draw_partition(graph, RandomSettings(num_clients=4), seed=0)
    assert sorted(partition.nodes.tolist()) == list(range(graph.num_nodes))
    assert partition.sizes.max() - partition.sizes.min() <= 1
    with pytest.raises(ConfigError, match="num_clients"):
        draw_partition(graph, RandomSettings(num_clients=31), seed=0)


def test_a_folder_says_who_holds_a_node(tmp_path: Path):
    written(tmp_path / "edges.csv", "0,1\n1,2\n")
    written(tmp_path / "features.csv", "0,1\n1,1\n2,1\n3,1\n")
    written(tmp_path / "labels.csv", "0,0\n1,1\n2,0\n3,1\n")
    clients = written(tmp_path / "clients.csv", "node,client\n0,1\n1,1\n2,0\n3,0\n")
    settings = DataSettings.model_validate({"name": "folder", "folder": tmp_path, "split": SHARES})
    partition = draw_partition(load(settings, seed=0), GivenSettings(), seed=0)
    assert [nodes.tolist() for nodes in partition.clients] == [[2, 3], [0, 1]]
    clients.write_text("0,0\n1,2\n2,0\n3,0\n")
    with pytest.raises(DataError, match=r"clients\.csv, line 2: found client 2 but never client 1"):
        load(settings, seed=0)


# ------------------------------------------------------------- Tolokers, filtered pages, payments


def archive(root: Path, name: str, **changed: np.ndarray) -> Path:
    masks = np.array([[1, 1, 0, 0], [0, 1, 1, 0]], bool)
    arrays = {
        "node_features": np.ones((4, 2), np.float32),
        "node_labels": np.array([0, 1, 0, 1]),
        "edges": np.array([[0, 1], [1, 2]]),
        "train_masks": masks,
        "val_masks": ~masks,
        "test_masks": ~masks,
    }
    path = root / published.files(name)[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{**arrays, **changed})
    return root


@pytest.mark.parametrize("name", ["tolokers", "chameleon_filtered", "squirrel-filtered"])
def test_an_archive_has_its_splits_and_undirected_edges(tmp_path: Path, name: str):
    plain = name.replace("_", "").replace("-", "")
    settings = DataSettings.model_validate(
        {"name": name, "root": archive(tmp_path, plain), "split": {"index": 1}}
    )
    graph = load(settings, seed=0)
    assert graph.split.train.tolist() == [False, True, True, False]
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


@pytest.mark.parametrize(
    "changed",
    [
        {"edges": np.array([[0, 4]])},
        {"edges": np.array([0, 1])},
        {"node_features": np.ones((3, 2))},
        {"val_masks": np.zeros((2, 3), bool)},
    ],
)
def test_an_archive_that_does_not_fit_is_refused(tmp_path: Path, changed: dict[str, np.ndarray]):
    with pytest.raises(DataError, match=r"tolokers\.npz"):
        published.read(archive(tmp_path, "tolokers", **changed), "tolokers")


def accounts(root: Path, nodes: str, payments: str) -> Path:
    written(root / published.files("amlsim")[0], f"nodeid,isFraud,init_balance,fraudStep\n{nodes}")
    written(
        root / published.files("amlsim")[1], f"sourceNodeId,targetNodeId,value,time\n{payments}"
    )
    return root


NODES = "0,0,184.4,-1\n1,1,110.0,3\n2,0,999.0,-1\n"


def test_payments_are_directed_links_between_accounts(tmp_path: Path):
    root = accounts(tmp_path, NODES, "0,1,163.3,1\n0,1,12.0,2\n2,0,1.5,3\n")
    dataset = published.read(root, "amlsim")
    assert dataset.directed
    assert dataset.edge_index.T.tolist() == [[0, 1], [2, 0]]
    assert dataset.labels.tolist() == [0, 1, 0]
    assert dataset.features.argmax(1).tolist() == [14, 8, 15]


@pytest.mark.parametrize(
    ("nodes", "payments", "where"),
    [
        (NODES, "0,3,1.0,1\n", r"transactions\.csv, line 2"),
        ("0,2,1.0,-1\n", "0,0,1.0,1\n", r"nodes\.csv, line 2"),
        ("1,0,1.0,-1\n", "0,0,1.0,1\n", r"nodes\.csv, line 2"),
        ("0,0,-1.0,-1\n", "0,0,1.0,1\n", r"nodes\.csv, line 2"),
    ],
)
def test_faults_of_accounts_and_payments_are_named(tmp_path: Path, nodes, payments, where: str):
    with pytest.raises(DataError, match=where):
        published.read(accounts(tmp_path, nodes, payments), "amlsim")
