"""Membership of single samples: perceptrons of clients with one node each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import get_attack
from attacks.base import CannotAttack
from attacks.questions import MemberSamples
from audits.games import make_game
from audits.games.base import BinaryGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config

RNG = np.random.default_rng
SERVER, CLIENT, OUTSIDER = (Adversary.parse(who) for who in ("server", "client:0", "outsider"))


def made(root: Path, method: str, task: str = "sc", **privacy: Any) -> Truth:
    sizes = {"task": task, "num_features": 40}
    if task == "sc":
        sizes |= {"num_nodes": 20, "samples_per_node": 60, "degree": 5}
    else:
        sizes |= {"num_nodes": 120, "degree": 8, "graph_signal": 2, "mu": 2}
    batches = {} if method == "gfl_appnp" and task == "dnc" else {"batch_size": 5}
    tree = {
        "method": {"name": method, "hidden": 32, **batches},
        "data": {"name": "csbm", "csbm": sizes},
        "partition": {"name": "one_node"},
        "training": {"rounds": 40, "local_epochs": 10, "lr": 0.2, "patience": None},
        "privacy": privacy,
        "output": {"root": str(root), "transcript_every": 4},
    }
    return Truth.of(runner.start(parse_config(tree)).folder)


def reached(truth: Truth, attack: str, adversary: Adversary) -> float:
    game = make_game(MemberSamples, truth, adversary, RNG(0))
    assert isinstance(game, BinaryGame)
    view = truth.view(adversary)
    loaded_attack = get_attack(attack)
    reason = loaded_attack.applies_to(view)
    if reason is not None:
        raise CannotAttack(reason)
    guess = loaded_attack.run(view, game.question, RNG(0))
    assert game.null(guess, RNG(0))[1]
    return game.measure(guess).value


@pytest.fixture(scope="module", params=["gfl_appnp", "fedmlp"])
def truth(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("plain"), request.param)


def test_server_reads_samples_off_the_span_of_a_change(truth: Truth) -> None:
    assert reached(truth, "sample_span", SERVER) > 0.95


def test_client_reads_samples_off_the_models_it_is_sent(truth: Truth) -> None:
    assert reached(truth, "sample_pull", CLIENT) > 0.8


def test_released_model_alone_tells_members(truth: Truth) -> None:
    assert reached(truth, "sample_pull", OUTSIDER) > 0.55


def test_targets_of_a_client_leave_its_own_samples_out(truth: Truth) -> None:
    game = make_game(MemberSamples, truth, CLIENT, RNG(0))
    assert isinstance(game.question, MemberSamples)
    assert 0 not in game.question.clients
    assert isinstance(game, BinaryGame)
    assert game.truth.mean() == 0.5


def test_masks_leave_the_pull_and_take_the_span(tmp_path: Path) -> None:
    masks = {"dropout": 0, "corrupt": 0}
    truth = made(tmp_path, "fedmlp", secure_aggregation=masks)
    assert reached(truth, "sample_pull", SERVER) > 0.8
    with pytest.raises(CannotAttack, match="full rank"):
        reached(truth, "sample_span", SERVER)
    with pytest.raises(CannotAttack, match="masks"):
        reached(truth, "sample_gradients", SERVER)


def test_noise_on_the_update_hides_samples(tmp_path: Path) -> None:
    truth = made(tmp_path, "fedmlp", mechanism="local_gaussian", noise_multiplier=5.0)
    assert reached(truth, "sample_pull", CLIENT) < 0.6
    assert reached(truth, "sample_gradients", SERVER) < 0.6


def test_server_that_knows_who_trains_is_asked_nothing(tmp_path: Path) -> None:
    truth = made(tmp_path, "gfl_appnp", "dnc")
    with pytest.raises(CannotAttack, match="which clients train"):
        make_game(MemberSamples, truth, SERVER, RNG(0))
    assert reached(truth, "sample_pull", CLIENT) > 0.8
