"""Membership from the models that every client is sent, by a client without the nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attacks.base import CannotAttack
from attacks.membership_gradients import MEMBERSHIP_BROADCASTS
from attacks.questions import OthersMembers
from audits.blind import at_chance, blind_view
from audits.games import make_game
from audits.games.membership import MembershipGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from tests import small

RNG, ME = np.random.default_rng, Adversary.parse("client:0")
FIVE = "partition.shares=[0.3, 0.5, 0.5, 0.5, 0.5]"


def ran(root: Path, *more: str) -> Truth:
    config = small.config(
        root,
        "data.csbm={task: dnc, num_nodes: 700, degree: 8, graph_signal: 2, mu: 2, "
        "num_features: 100}",
        FIVE,
        "method.weighting=equal",
        "training={rounds: 5, local_epochs: 5, patience: null}",
        *more,
    )
    return Truth.of(runner.start(config).folder)


def game_of(truth: Truth) -> MembershipGame:
    game = make_game(OthersMembers, truth, ME, RNG(0))
    assert isinstance(game, MembershipGame)
    return game


@pytest.mark.parametrize("defence", ["privacy={}", "privacy={secure_aggregation: {}}"])
def test_models_that_all_are_sent_tell_members_masked_or_not(tmp_path: Path, defence: str) -> None:
    truth = ran(tmp_path, defence)
    game, view = game_of(truth), truth.view(ME)
    guess = MEMBERSHIP_BROADCASTS.run(view, game.question, RNG(0))
    assert game.gain(guess).low > 0
    assert game.null(guess, RNG(0))[1]
    blind = MEMBERSHIP_BROADCASTS.run(blind_view(view, RNG(0)), game.question, RNG(0))
    assert at_chance(game.gain(blind))
    own = truth.experiment.shards[0].node_ids.numpy()
    assert not np.isin(game.question.ids, own).any()
    with pytest.raises(CannotAttack, match="fewer than two models"):
        MEMBERSHIP_BROADCASTS.run(replace(view, seen=()), game.question, RNG(0))


def test_noise_on_the_updates_hides_members(tmp_path: Path) -> None:
    noise = "privacy={mechanism: local_gaussian, target_epsilon: 8, unit: row, clip_l2: 1.0}"
    truth = ran(tmp_path, noise)
    game = game_of(truth)
    assert game.gain(MEMBERSHIP_BROADCASTS.run(truth.view(ME), game.question, RNG(0))).low <= 0.02
