"""One prior for all link games: released answers; nothing is secret where the graph is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attacks.base import CannotAttack
from attacks.questions import ClientLinks
from audits import metrics
from audits.games import make_game
from audits.games.base import BinaryGame
from audits.games.links import answers_alike, link_prior
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

SERVER = Adversary.parse("server")


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    config = small.config(tmp_path_factory.mktemp("prior"), method="fedgl")
    return Truth.of(runner.start(config).folder)


def test_the_prior_of_a_clients_links_is_no_weaker_than_its_released_answers(truth: Truth) -> None:
    game = make_game(ClientLinks, truth, SERVER, np.random.default_rng(0))
    assert isinstance(game, BinaryGame)
    assert truth.answers is not None
    known = answers_alike(truth.answers.double().softmax(-1).numpy(), game.question.ids)
    best = max(metrics.area_under_curve(game.truth, scores) for scores in known)
    reached = game.prior(np.zeros(len(game.truth))).value
    assert reached == pytest.approx(max(best, 0.5))


def test_of_several_priors_the_best_is_taken_and_chance_where_none_is_better(truth: Truth) -> None:
    pairs = np.array([[0, 1], [2, 3], [4, 5], [6, 7]])
    is_edge = np.array([1, 0, 1, 0])
    telling = link_prior(truth, SERVER, pairs, is_edge, [is_edge.astype(float)])
    assert telling is not None
    assert metrics.area_under_curve(is_edge, telling) == 1
    wire = link_prior(truth, Adversary.parse("wire"), pairs, is_edge, [-is_edge.astype(float)])
    assert wire is None


def test_links_are_no_secret_to_a_server_that_is_given_the_graph(tmp_path: Path) -> None:
    tree = small.tree(tmp_path, "gfl_appnp")
    tree["partition"] = {"name": "one_node"}
    tree["training"] = {"rounds": 1, "patience": None}
    known = Truth.of(runner.start(parse_config(tree)).folder)
    with pytest.raises(CannotAttack, match="no secret"):
        link_prior(known, SERVER, np.array([[0, 1]]), np.array([1]))
