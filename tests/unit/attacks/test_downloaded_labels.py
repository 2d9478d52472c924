"""Gradients that the server sends to users tell colluders the labels that it has on record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attacks.base import CannotAttack
from attacks.downloaded_labels import DOWNLOADED_LABELS, downloaded_labels
from audits.games import make_game
from audits.games.base import NotAsked
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small


def made(root: Path, smoothness: float) -> Truth:
    tree = small.tree(root, "nfedgnn")
    tree["method"]["smoothness"] = smoothness
    tree["data"]["csbm"] |= {"num_nodes": 300, "train_share": 0.4}
    tree["partition"] = {"name": "one_node"}
    tree["training"] = {"rounds": 6, "local_epochs": 1, "lr": 0.1, "patience": None}
    return Truth.of(runner.start(parse_config(tree)).folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("plain"), 0)


def colluders(truth: Truth) -> Adversary:
    trained = np.flatnonzero(truth.graph.split.train.numpy())
    return Adversary.parse(f"client:{','.join(map(str, trained))}")


def test_downloaded_labels_gain_over_features(plain: Truth) -> None:
    adversary = colluders(plain)
    game = make_game(DOWNLOADED_LABELS.question, plain, adversary, np.random.default_rng(0))
    guess = downloaded_labels(plain.view(adversary), game.question, np.random.default_rng(0))
    assert game.measure(guess).value > 0.75
    assert game.gain(guess).low > 0
    assert game.null(guess, np.random.default_rng(0))[1]
    assert not set(game.question.ids) & set(game.question.known_ids)


def test_downloaded_labels_of_few_colluders_are_not_asked(plain: Truth) -> None:
    with pytest.raises(NotAsked, match="20 are needed"):
        make_game(
            DOWNLOADED_LABELS.question,
            plain,
            Adversary.parse("client:0"),
            np.random.default_rng(0),
        )


def test_downloaded_labels_without_gradients_say_why(plain: Truth) -> None:
    adversary = colluders(plain)
    game = make_game(DOWNLOADED_LABELS.question, plain, adversary, np.random.default_rng(0))
    view = replace(plain.view(adversary), seen=())
    with pytest.raises(CannotAttack, match="no gradient"):
        downloaded_labels(view, game.question, np.random.default_rng(0))
