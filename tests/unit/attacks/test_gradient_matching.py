"""Samples by gradient matching: the simulation is the training, and a few samples are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacks import gradient_matching
from attacks.base import CannotAttack
from attacks.gradient_matching import GRADIENT_MATCHING, Layers, Recipe, Seen, simulate_steps
from attacks.questions import TrainingSamples
from audits.games import make_game
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

STEPS = 400
SERVER, RNG = Adversary("server"), np.random.default_rng


def made(root: Path, privacy: dict[str, Any] | None = None) -> Truth:
    """Eight clients, each training on three samples of thirty numbers."""
    tree = small.tree(root, "fedmlp")
    tree["method"] |= {"hidden": 32, "batch_size": None, "upload": "update"}
    csbm = {"task": "sc", "num_nodes": 8, "degree": 4, "graph_signal": 1, "mu": 1}
    tree["data"]["csbm"] = {**csbm, "num_features": 30, "samples_per_node": 30}
    tree["partition"] = {"name": "one_node"}
    tree["training"] = {"rounds": 1, "local_epochs": 1, "lr": 0.1, "patience": None}
    tree["privacy"] = privacy or {}
    return Truth.of(runner.start(parse_config(tree)).folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def found(plain: Truth) -> tuple[Any, Any]:
    return play(plain)


def play(truth: Truth) -> tuple[Any, Any]:
    game = make_game(TrainingSamples, truth, SERVER, RNG(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient_matching, "STEPS", STEPS)
        return game, GRADIENT_MATCHING.run(truth.view(SERVER), game.question, RNG(0))


def test_a_few_samples_are_found(found: tuple[Any, Any]) -> None:
    game, guess = found
    assert game.measure(guess).value > 0.9
    assert game.gain(guess).low > GRADIENT_MATCHING.floor
    assert game.null(guess, RNG(0))[1]


def test_the_simulated_change_of_the_true_samples_is_the_one_uploaded(plain: Truth) -> None:
    game = make_game(TrainingSamples, plain, SERVER, RNG(0))
    view = plain.view(SERVER)
    vector, changes = gradient_matching._read_changes(view, game.question)
    start = Layers(vector[: 30 * 32].view(30, 32), vector[30 * 32 :].view(32, 2))
    seen = Seen.from_changes(changes, start, 3)
    inputs = torch.from_numpy(game.truth) @ seen.basis.mT
    graph = plain.experiment.shards
    labels = torch.stack(
        [graph[k].graph.labels[0][graph[k].graph.split.train[0]] for k in game.question.ids]
    )
    hot = torch.nn.functional.one_hot(labels, 2).double()
    first, second = simulate_steps(inputs, hot, seen.start, start.second, Recipe(1, 0.1))
    torch.testing.assert_close(first, seen.first, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(second, seen.second, atol=1e-6, rtol=1e-4)


def test_masks_leave_a_mean_that_is_nobodys(tmp_path: Path, found: Any) -> None:
    masked, guess = play(made(tmp_path, {"secure_aggregation": {}}))
    game, plain = found
    assert masked.measure(guess).value < game.measure(plain).value - 0.2


def test_what_is_too_much_or_not_seen_is_refused(plain: Truth) -> None:
    game = make_game(TrainingSamples, plain, SERVER, RNG(0))
    view = plain.view(SERVER)
    with pytest.raises(CannotAttack, match="200 training samples"):
        GRADIENT_MATCHING.run(view, replace(game.question, num_samples=200), RNG(0))
    with pytest.raises(CannotAttack, match="not in the view"):
        GRADIENT_MATCHING.run(replace(view, seen=()), game.question, RNG(0))
