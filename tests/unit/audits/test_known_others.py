"""Sums against somebody who knows all the others: everything without noise, little with it."""

from __future__ import annotations

import numpy as np
import pytest

from attacks import get_attack
from attacks.base import CannotAttack, Targets
from audits.games import make_game
from audits.truth import Truth
from securefg.protocol.transcript import Adversary, read_transcript
from securefg.run import runner
from securefg.settings.config import parse_config
from tests.unit.methods.test_two_sums import PRIVATE, tree

SERVER = Adversary("server")
OUTSIDER, CLIENT = Adversary("outsider"), Adversary("client", frozenset({0}))
ATTACKS = [
    ("summed_features", SERVER),
    ("summed_moments", SERVER),
    ("summed_labels", SERVER),
    ("summed_links", SERVER),
    ("summed_links", OUTSIDER),
    ("released_others", OUTSIDER),
    ("released_others", CLIENT),
]
MASKED = {"mechanism": "plain", "target_epsilon": None, "unit": "client"}


@pytest.fixture(scope="module")
def truth_of(tmp_path_factory: pytest.TempPathFactory):
    """The run without a defence, under masks alone, and with noise; each is made once."""
    made: dict[str, Truth] = {}

    def find(name: str) -> Truth:
        if name not in made:
            changed = {"plain": None, "masked": MASKED, "noisy": {"target_epsilon": 0.5}}[name]
            privacy = {} if changed is None else {**PRIVATE, "noise_rng": "system", **changed}
            given = tree(tmp_path_factory.mktemp(name), **({"privacy": privacy} if privacy else {}))
            made[name] = Truth.of(runner.start(parse_config(given)).folder)
        return made[name]

    return find


def played(truth: Truth, attack: str, adversary: Adversary) -> float:
    """The AUC of the attack on a run, or its share."""
    game = make_game(attack, truth, adversary, np.random.default_rng(0))
    guess = get_attack(attack).run(truth.view(adversary), game.targets, np.random.default_rng(0))
    return game.measure(guess).value


@pytest.mark.parametrize(("attack", "adversary"), ATTACKS)
@pytest.mark.parametrize("run", ["plain", "masked"])
def test_what_has_no_noise_tells_every_secret_to_who_knows_the_others(
    truth_of, run: str, attack: str, adversary: Adversary
):
    assert played(truth_of(run), attack, adversary) > 0.95


@pytest.mark.parametrize(("attack", "adversary"), ATTACKS)
def test_noise_of_a_small_epsilon_leaves_little(truth_of, attack: str, adversary: Adversary):
    # epsilon 0.5 allows .62; all targets share one draw of the system's noise, so figures spread
    assert played(truth_of("noisy"), attack, adversary) < 0.75


def test_without_knowledge_of_the_others_there_is_no_attack(truth_of):
    with pytest.raises(CannotAttack, match="does not know the other nodes"):
        get_attack("summed_features").run(
            truth_of("plain").view(SERVER), Targets(np.arange(3)), np.random.default_rng(0)
        )


def test_who_sees_nothing_of_a_sum_cannot_attack_it(truth_of):
    truth = truth_of("masked")
    game = make_game("summed_features", truth, SERVER, np.random.default_rng(0))
    with pytest.raises(CannotAttack, match="not in the view"):
        get_attack("summed_moments").run(
            truth.view(Adversary("wire")), game.targets, np.random.default_rng(0)
        )


def test_uploads_are_of_one_size_whatever_a_client_holds(truth_of):
    """All that the wire sees is when and how much."""
    for run in ("masked", "noisy"):
        sizes: dict[str, set[int]] = {}
        for record in read_transcript(truth_of(run).folder.transcript):
            if record.up and record.kind.startswith("two_sums."):
                sizes.setdefault(record.kind, set()).add(record.payload)
        assert sizes
        assert all(len(found) == 1 for found in sizes.values())
