"""A release without some nodes or clients holds nothing of them, and all releases are booked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.data.partition import Partition
from securefg.foundation.errors import ConfigError
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
    cost = release_without(run.folder, [3], []).erasure.epsilon["node"]
    assert (cost.now, cost.together, cost.erased) == (None, None, None)


def test_seeded_noise_books_no_claim(tmp_path: Path) -> None:
    run = runner.start(config(tmp_path, privacy={**NOISE, "noise_rng": "seeded"}))
    cost = release_without(run.folder, [3], []).erasure.epsilon["node"]
    assert cost.together is None


def test_erase_command_tells_what_each_group_pays(tmp_path: Path) -> None:
    run = runner.start(config(tmp_path))
    said = CliRunner().invoke(app, ["erase", str(run.folder.path), "--nodes", "3, 7"])
    assert said.exit_code == 0, said.output
    assert "Released again without 2 nodes and 0 clients" in said.output
    assert "epsilon per node at delta 0.01: 2.00 for this release" in said.output
    assert "the erased keep 2.00" in said.output
    assert "Recipients of the earlier releases keep them" in said.output
