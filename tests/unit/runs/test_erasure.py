"""A release without some nodes or clients holds nothing of them, and all releases are booked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.data.partition import Partition
from securefg.foundation.errors import ConfigError, RunFolderError
from securefg.methods.two_sums.features import class_sums
from securefg.privacy.accountants import Step, tightest
from securefg.privacy.ledger import Ledger, read_ledger
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.runs.erasure import read_erasure, release_without
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig, parse_config
from tests.small import tree

NOISE = {
    "mechanism": "distributed_discrete",
    "target_epsilon": 2,
    "delta": 0.01,
    "unit": "node",
    "secure_aggregation": {"dropout": 0, "corrupt": 0},
}


def config(root: Path, **changes: Any) -> RunConfig:
    whole = tree(root, "one_sum")
    whole["partition"] = {"name": "random", "num_clients": 5}
    whole["training"] = {"rounds": 1, "patience": None, "final_model": "last"}
    return parse_config({**whole, "privacy": NOISE, **changes})


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return runner.start(config(tmp_path_factory.mktemp("erasure"))).folder


@pytest.fixture(scope="module")
def second(first: RunFolder) -> RunFolder:
    return release_without(first, [3, 50], [1]).folder


def sums_of(config: RunConfig) -> dict[bytes, torch.Tensor]:
    """Return every client's clean part of the sum, by the client's nodes."""
    shards = prepare(config).shards
    return {shard.node_ids.numpy().tobytes(): class_sums(shard.graph) for shard in shards}


def test_erased_nodes_and_clients_are_in_no_shard(first: RunFolder, second: RunFolder) -> None:
    before, after = (Partition.load(f.path / "partition.safetensors") for f in (first, second))
    assert after.num_clients == 4
    wanted = [
        nodes[~torch.isin(nodes, torch.tensor([3, 50]))]
        for client, nodes in enumerate(before.clients)
        if client != 1
    ]
    assert all(torch.equal(a, b) for a, b in zip(after.clients, wanted, strict=True))


def test_untouched_clients_send_the_same_sums_in_new_sessions(
    first: RunFolder, second: RunFolder
) -> None:
    old, new = sums_of(first.config()), sums_of(second.config())
    same = old.keys() & new.keys()
    assert same
    assert all(torch.equal(old[nodes], new[nodes]) for nodes in same)
    uploads = [(folder.path / "ledger.jsonl").read_bytes() for folder in (first, second)]
    assert uploads[0] != uploads[1]


def test_epsilons_of_both_releases_are_composed(first: RunFolder, second: RunFolder) -> None:
    books = read_erasure(second.path)
    assert books is not None
    cost = books.epsilon["node"]
    assert cost.now == pytest.approx(2, rel=1e-3)
    assert cost.erased == pytest.approx(2, rel=1e-3)
    steps = []
    for folder, clients in ((first, 5), (second, 4)):
        ledger = Ledger(clients)
        ledger.record(list(read_ledger(folder.ledger_path)))
        (mechanism,) = ledger.mechanisms
        assert mechanism.node.noise_multiplier is not None
        steps.append(mechanism.node.noise_multiplier)
    rate = (sum(1 / z**2 for z in steps)) ** -0.5
    discrete = mechanism.accounting == "zcdp"
    whole = tightest((Step(rate, 1, discrete=discrete),), 0.01)
    assert cost.together == pytest.approx(whole, rel=1e-3)
    assert cost.together is not None
    assert cost.together > 2.5


def test_third_release_books_all_three(second: RunFolder) -> None:
    node = int(Partition.load(second.path / "partition.safetensors").nodes[-1])
    third = release_without(second, [node], [0])
    assert len(third.erasure.after) == 2
    partition = third.folder.config().partition
    assert partition.model_dump()["without_nodes"] == tuple(sorted((3, 50, node)))
    assert partition.model_dump()["without_clients"] == (0, 1)
    known = read_erasure(second.path)
    assert known is not None
    together = third.erasure.epsilon["node"]
    assert together.erased == known.epsilon["node"].together
    assert together.together is not None
    assert together.erased is not None
    assert together.together > together.erased


@pytest.mark.parametrize(
    ("nodes", "clients", "words"),
    [
        ([], [], "nothing to erase"),
        ([10_000], [], "found 10000; expected nodes"),
        ([], [5], "found 5; expected clients from 0 to 4"),
        ([-1], [], "found -1; expected nodes"),
    ],
)
def test_odd_erasure_is_refused(
    first: RunFolder, nodes: list[int], clients: list[int], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        release_without(first, nodes, clients)


def test_release_without_noise_keeps_an_infinite_claim(tmp_path: Path) -> None:
    run = runner.start(config(tmp_path, privacy={}))
    cost = release_without(run.folder, [3], [], show_difference=True).erasure.epsilon["node"]
    assert (cost.now, cost.together, cost.erased) == (None, None, None)


@pytest.mark.parametrize(
    "privacy", [{}, {"secure_aggregation": {}}, {**NOISE, "noise_rng": "seeded"}]
)
def test_difference_without_noise_is_refused_unless_asked_for(
    tmp_path: Path, privacy: dict[str, Any]
) -> None:
    """Two sums under masks whose parts differ by one person are that person's data."""
    run = runner.start(config(tmp_path, privacy=privacy))
    with pytest.raises(ConfigError, match="--show-difference"):
        release_without(run.folder, [3], [])
    cost = release_without(run.folder, [3], [], show_difference=True).erasure.epsilon["node"]
    assert cost.together is None


def test_second_release_from_one_run_is_refused(first: RunFolder, second: RunFolder) -> None:
    """Two branches would each book two releases, and people are in three."""
    with pytest.raises(RunFolderError, match="found a later release"):
        release_without(first, [9], [])
    with pytest.raises(RunFolderError, match=r"found (a later|this) release"):
        release_without(first, [3, 50], [1])


def test_release_tells_that_earlier_ones_count_too(second: RunFolder) -> None:
    assert any("erasure.json" in what for what in second.summary().epsilon["node"].not_covered)


def test_interrupted_erasure_is_taken_up_with_its_books(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner.start(config(tmp_path)).folder
    with monkeypatch.context() as patch:
        patch.setattr("securefg.runs.runner.Run.execute", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            release_without(run, [3], [])
    with pytest.raises(RunFolderError, match="found a later release"):
        release_without(run, [9], [])
    with monkeypatch.context() as patch:
        patch.setattr("securefg.runs.erasure._compose_all", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            release_without(run, [3], [])
    again = release_without(run, [3], [])
    assert again.erasure.epsilon["node"].together == pytest.approx(3.13, abs=0.02)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_release_whose_books_are_gone_is_not_erased_from(tmp_path: Path) -> None:
    run = runner.start(config(tmp_path)).folder
    later = release_without(run, [3], []).folder
    (later.path / "erasure.json").unlink()
    with pytest.raises(RunFolderError, match=r"without erasure\.json"):
        release_without(later, [9], [])


def test_another_run_in_an_earlier_place_is_refused(tmp_path: Path) -> None:
    run = runner.start(config(tmp_path / "a")).folder
    later = release_without(run, [3], []).folder
    other = runner.start(config(tmp_path / "b", seed=5)).folder
    run.path.rename(tmp_path / "gone")
    other.path.rename(run.path)
    with pytest.raises(RunFolderError, match="found another run"):
        release_without(later, [9], [])


def test_client_whose_nodes_are_all_erased_takes_no_part(tmp_path: Path) -> None:
    """Later erasures must count clients as before."""
    run = runner.start(config(tmp_path)).folder
    held = Partition.load(run.path / "partition.safetensors").clients
    later = release_without(run, held[1].tolist(), [])
    assert later.erasure.num_clients == 1
    last = release_without(later.folder, [], [1])  # number 2 of the first run
    left = Partition.load(last.folder.path / "partition.safetensors").clients
    assert [nodes.tolist() for nodes in left] == [held[k].tolist() for k in (0, 3, 4)]


def test_erased_user_is_gone_from_what_the_server_is_given(tmp_path: Path) -> None:
    whole = tree(tmp_path, "pseudo_sums")
    whole["partition"] = {"name": "one_node"}
    whole["training"] = {"rounds": 1, "patience": None, "final_model": "last"}
    run = runner.start(parse_config({**whole, "privacy": {**NOISE, "unit": "features"}})).folder
    before = prepare(run.config()).public
    again = release_without(run, [3], [])
    after = prepare(again.folder.config()).public
    assert before.edge_index is not None
    assert after.edge_index is not None
    links = int((before.edge_index == 3).any(0).sum())
    assert links > 0
    assert after.edge_index.shape[1] == before.edge_index.shape[1] - links
    assert after.num_nodes == after.num_clients == 119
    assert again.erasure.epsilon["features"].together == pytest.approx(3.13, abs=0.02)
    third = release_without(again.folder, [], [3])  # number 4 of the first run
    assert third.folder.config().partition.model_dump()["without_clients"] == (3, 4)


def test_erase_command_tells_what_each_group_pays(tmp_path: Path) -> None:
    run = runner.start(config(tmp_path))
    completed = CliRunner().invoke(app, ["erase", str(run.folder.path), "--nodes", "3, 7"])
    assert completed.exit_code == 0, completed.output
    assert "Released again without 2 nodes and 0 clients" in completed.output
    assert "epsilon per node at delta 0.01: 2.00 for this release" in completed.output
    assert "the erased keep 2.00" in completed.output
    assert "Recipients of the earlier releases keep them" in completed.output


def test_second_release_from_another_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative `output.root` must not put the releases where no other command looks."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "a")
    run = RunFolder.open(runner.start(config(Path("runs"))).folder.path.resolve())
    monkeypatch.chdir(tmp_path / "b")
    later = release_without(run, [3], []).folder
    assert later.path.parent == run.path.parent
    monkeypatch.chdir(tmp_path / "c")
    with pytest.raises(RunFolderError, match="found a later release"):
        release_without(run, [9], [])


def test_fresh_start_of_a_booked_release_is_refused(first: RunFolder, second: RunFolder) -> None:
    """The release that it replaces was sent, and would be in no books."""
    for folder in (first, second):
        with pytest.raises(RunFolderError, match="books would miss"):
            runner.start(folder.config(), fresh=True)
        assert folder.finished


def test_noise_for_edges_alone_does_not_hide_a_person(tmp_path: Path) -> None:
    """The first sum has no noise then, since no edge moves it. A node does."""
    rules = {"ClassSums.sums": {"mechanism": "plain"}}
    privacy = {**NOISE, "unit": "edge", "field_rules": rules}
    method = {"name": "noisy_counts"}
    run = runner.start(config(tmp_path, method=method, privacy=privacy)).folder
    assert run.summary().epsilon["edge"].epsilon == pytest.approx(2)
    with pytest.raises(ConfigError, match="--show-difference"):
        release_without(run, [3], [])


def test_server_is_not_given_the_erased_in_any_partition(tmp_path: Path) -> None:
    """Users may also have one node each without being dealt so by `one_node`."""
    whole = tree(tmp_path, "nfedgnn")
    whole["partition"] = {"name": "random", "num_clients": 120}
    whole["training"] = {"rounds": 1, "patience": None, "final_model": "last"}
    noise = {"mechanism": "local_gaussian", "noise_multiplier": 3, "delta": 0.01}
    run = runner.start(parse_config({**whole, "privacy": noise})).folder
    before = prepare(run.config()).public
    assert before.known_labels is not None
    node = int((before.known_labels >= 0).nonzero()[0])
    after = prepare(release_without(run, [node], []).folder.config()).public
    assert after.edge_index is not None
    assert after.known_labels is not None
    assert not bool((after.edge_index == node).any())
    assert int(after.known_labels[node]) == -1


def test_erasure_from_changed_data_is_refused(tmp_path: Path) -> None:
    """A node's number may be another person's there, and the erased would stay in."""
    data = {"name": "folder", "folder": str(tmp_path / "rows"), "split": {"kind": "shares"}}
    _write_rows(tmp_path / "rows", list(range(60)))
    run = runner.start(config(tmp_path, data=data)).folder
    _write_rows(tmp_path / "rows", list(reversed(range(60))))
    with pytest.raises(RunFolderError, match="not the data of this run"):
        release_without(run, [3], [])


def _write_rows(folder: Path, order: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    rows = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    links = np.array([[k, (k + 1) % 60] for k in range(60)]).T
    np.savez(folder / "features.npz", x=rows[order])
    np.savez(folder / "labels.npz", y=np.arange(60)[order] % 2)
    np.savez(folder / "edges.npz", edge_index=links)


def test_named_members_keep_their_office_under_new_numbers(tmp_path: Path) -> None:
    """Users trust these organisations. Others would hold the same numbers after an erasure."""
    whole = tree(tmp_path, "pseudo_sums")
    whole["partition"] = {"name": "one_node"}
    whole["training"] = {"rounds": 1, "patience": None, "final_model": "last"}
    committee = {"form": "committee", "corrupt": 0, "committee": {"members": [2, 5, 7, 40]}}
    noise = {**NOISE, "unit": "features", "secure_aggregation": committee}
    run = runner.start(parse_config({**whole, "privacy": noise})).folder
    with pytest.raises(ConfigError, match="found client 5 among the erased"):
        release_without(run, [], [3, 5])
    later = release_without(run, [], [3, 6]).folder.config()
    assert later.privacy.secure_aggregation is not None
    assert later.privacy.secure_aggregation.committee.members == (2, 4, 5, 38)
