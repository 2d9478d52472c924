"""P2: a private node's presence, weighed by shadow clients with and without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.base import CannotAttack
from attacks.holders import presence
from attacks.questions import Presence
from audits.games import holders as game_file
from audits.games import make_game
from audits.games.base import BinaryGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

SERVER, RNG = Adversary("server"), np.random.default_rng


def made(root: Path, privacy: dict[str, Any]) -> Truth:
    tree = small.tree(root, "ppfl_deepwalk")
    tree["method"] |= {"walk_length": 20, "scoring": "split"}
    tree["data"]["csbm"] |= {"num_nodes": 240, "degree": 3, "graph_signal": 1}
    tree["partition"] = {"name": "public_private"}
    tree["training"] = {"rounds": 2, "local_epochs": 10, "lr": 0.05, "patience": None}
    tree["privacy"] = privacy
    return Truth.of(runner.start(parse_config(tree)).folder)


def played(truth: Truth) -> BinaryGame:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(game_file, "NUM_SHADOWS", 12)
        return make_game(Presence, truth, SERVER, RNG(0))


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("plain"), {})


@pytest.fixture(scope="module")
def game(truth: Truth) -> BinaryGame:
    return played(truth)


def test_a_private_node_is_told_from_one_that_is_elsewhere(truth: Truth, game: BinaryGame) -> None:
    guess = presence(truth.view(SERVER), game.question, RNG(0))
    assert game.measure(guess).value > 0.75
    assert game.gain(guess).low > 0
    assert game.null(guess, RNG(0))[1]


def test_every_candidate_is_in_half_of_the_shadows(truth: Truth, game: BinaryGame) -> None:
    member = game.question.shadow_member
    np.testing.assert_allclose(member.mean(0), 0.5)
    assert game.truth.mean() == 0.5
    private = set(truth.experiment.shards[game.question.client].node_ids.tolist())
    for node, so in zip(game.question.ids.tolist(), game.truth, strict=True):
        assert (node in private) == bool(so)
    assert np.bincount(game.question.edges[0]).min() >= 2


def test_noise_hides_presence(tmp_path: Path) -> None:
    noise = {"mechanism": "local_gaussian", "noise_multiplier": 20.0, "clip_l2": 1.0, "delta": 1e-5}
    truth = made(tmp_path, {**noise, "unit": "client"})
    game = played(truth)
    guess = presence(truth.view(SERVER), game.question, RNG(0))
    assert game.gain(guess).low < 0


def test_what_is_missing_is_named(truth: Truth, game: BinaryGame) -> None:
    view = truth.view(SERVER)
    with pytest.raises(CannotAttack, match="not in the view"):
        presence(replace(view, seen=()), game.question, RNG(0))
