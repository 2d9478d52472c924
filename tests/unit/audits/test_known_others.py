"""Sums against somebody who knows all the others: everything without noise, little with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attacks import get_attack
from attacks.base import CannotAttack, Targets
from audits.games import make_game
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.run import runner
from securefg.settings.config import parse_config
from tests.unit.methods.test_two_sums import PRIVATE, tree

SERVER = Adversary("server")
ATTACKS = ("summed_features", "summed_moments")


def played(root: Path, attack: str, **privacy) -> float:
    """The AUC of the attack on a run."""
    given = tree(
        root, **({"privacy": {**PRIVATE, "noise_rng": "system", **privacy}} if privacy else {})
    )
    truth = Truth.of(runner.start(parse_config(given)).folder)
    game = make_game(attack, truth, SERVER, np.random.default_rng(0))
    guess = get_attack(attack).run(truth.view(SERVER), game.targets, np.random.default_rng(0))
    return game.measure(guess).value


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_sum_without_noise_tells_every_label_to_who_knows_the_others(tmp_path: Path, attack: str):
    assert played(tmp_path, attack) == 1.0


@pytest.mark.parametrize("attack", ATTACKS)
def test_masks_alone_hide_nobody_from_who_knows_the_others(tmp_path: Path, attack: str):
    masked = {"mechanism": "plain", "target_epsilon": None, "unit": "client"}
    assert played(tmp_path, attack, **masked) == 1.0


@pytest.mark.parametrize("attack", ATTACKS)
def test_noise_of_a_small_epsilon_leaves_little(tmp_path: Path, attack: str):
    assert played(tmp_path, attack, target_epsilon=0.5) < 0.65


def test_without_knowledge_of_the_others_there_is_no_attack(tmp_path: Path):
    truth = Truth.of(runner.start(parse_config(tree(tmp_path))).folder)
    with pytest.raises(CannotAttack, match="does not know the other nodes"):
        get_attack("summed_features").run(
            truth.view(SERVER), Targets(np.arange(3)), np.random.default_rng(0)
        )
