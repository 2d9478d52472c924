"""Amounts and days of transfers, against somebody who knows all else: all without noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacks import get_attack
from attacks.base import CannotAttack
from attacks.questions import SummedTransfers, SumQuestion
from audits.games import make_game
from audits.games.transfers import with_record
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config

SERVER = Adversary("server")
WIDTH = 3
CSBM = {"task": "dnc", "num_nodes": 200, "degree": 8, "graph_signal": 1.5, "mu": 1}
CSBM |= {"num_features": 6, "train_share": 0.5, "edge_features": WIDTH}
NETWORK = {"name": "fedavg", "network": "GAT", "arguments": {"edge_dim": WIDTH}}
SUMS = {"name": "two_sums", "graph": False, "link_columns": WIDTH}
MASKS = {"secure_aggregation": {"dropout": 0, "corrupt": 0}}
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "network": ("updated_transfers", NETWORK, {}),
    "masked network": ("updated_transfers", NETWORK, MASKS),
    "sums": ("summed_transfers", SUMS, {}),
    "masked sums": ("summed_transfers", SUMS, MASKS),
}
NOISE = {"mechanism": "distributed_discrete", "target_epsilon": 0.5, "delta": 1e-5, "unit": "node"}


def truth_of(root: Path, method: dict[str, Any], privacy: dict[str, Any], **csbm: Any) -> Truth:
    drawn = {**CSBM, "edge_sums": method is SUMS, **csbm}
    rounds = {"rounds": 1, "local_epochs": 2, "patience": None, "final_model": "last"}
    given = {
        "method": method,
        "data": {"name": "csbm", "csbm": drawn},
        "partition": {"name": "random", "num_clients": 3},
        "training": rounds,
        "privacy": privacy,
        "output": {"root": str(root), "transcript_every": 1},
    }
    return Truth.of(runner.start(parse_config(given)).folder)


def played(truth: Truth, name: str) -> tuple[float, SumQuestion]:
    attack = get_attack(name)
    game = make_game(attack.question, truth, SERVER, np.random.default_rng(0))
    assert isinstance(game.question, SumQuestion)
    guess = attack.run(truth.view(SERVER), game.question, np.random.default_rng(0))
    return game.measure(guess).value, game.question


@pytest.mark.parametrize("what", RUNS)
def test_messages_without_noise_tell_what_a_transfer_was(what: str, tmp_path: Path) -> None:
    name, method, privacy = RUNS[what]
    truth = truth_of(tmp_path, method, privacy)
    assert truth.spoken.unmet_need(get_attack(name)) is None
    assert played(truth, name)[0] > 0.95


def test_noise_for_a_person_leaves_little_of_a_transfer(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, SUMS, {**NOISE, **MASKS})
    area, question = played(truth, "summed_transfers")
    assert area < 0.7
    largest = np.linalg.norm(question.moves.reshape(len(question.ids), -1), axis=1).max()
    edges = truth.experiment.method.releases(
        truth.config.method, truth.config.training, truth.experiment.public
    )
    moved = [release.edge.moved(0) for release in edges if release.edge.moved is not None]
    assert 0 < largest <= max(moved) * (1 + 1e-5)


def test_runs_whose_edges_carry_nothing_are_not_attacked(tmp_path: Path) -> None:
    plain = truth_of(tmp_path, {"name": "two_sums", "graph": False}, {}, edge_features=0)
    assert plain.spoken.unmet_need(get_attack("summed_transfers")) is not None
    with pytest.raises(CannotAttack, match="carry no numbers"):
        make_game(SummedTransfers, plain, SERVER, np.random.default_rng(0))


def test_other_record_changes_both_ends_as_each_sees_it(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, SUMS, {})
    shard = truth.experiment.shards[0]
    numbers = shard.graph.edge_features
    assert numbers is not None
    seen = (torch.tensor([1.0, 0, 0]), torch.tensor([0, 1.0, 0]))
    changed = with_record(shard, 0, seen, WIDTH)
    u, v = shard.graph.edge_index[:, 0].tolist()
    back = int(((shard.graph.edge_index[0] == v) & (shard.graph.edge_index[1] == u)).nonzero()[0])
    moved = (changed.graph.features - shard.graph.features)[:, -WIDTH:] * WIDTH**0.5
    assert torch.allclose(moved[u], seen[0] - numbers[0], atol=1e-5)
    assert torch.allclose(moved[v], seen[1] - numbers[back], atol=1e-5)
    rest = torch.ones(len(moved), dtype=torch.bool)
    rest[[u, v]] = False
    assert not bool(moved[rest].any())
