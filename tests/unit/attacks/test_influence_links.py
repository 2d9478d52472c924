"""LinkTeller: a client that changes its own features sees in the answers who is linked to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from attacks.base import CannotAttack
from attacks.links import INFLUENCE_LINKS, influence_links
from attacks.questions import OthersLinks
from audits.games import make_game
from audits.games.links import LinkGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from tests import small

ME, RNG = Adversary.parse("client:0"), np.random.default_rng


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    config = small.config(tmp_path_factory.mktemp("runs"), "method.pseudo_graph=false")
    return Truth.of(runner.start(config).folder)


@pytest.fixture(scope="module")
def game(truth: Truth) -> LinkGame:
    return make_game(OthersLinks, truth, ME, RNG(0))


def test_links_that_others_hold_show_in_the_answers(truth: Truth, game: LinkGame) -> None:
    guess = influence_links(truth.view(ME), game.question, RNG(0))
    assert game.measure(guess).value > 0.9
    assert game.gain(guess).low > INFLUENCE_LINKS.floor
    assert game.null(guess, RNG(0))[1]


def test_targets_are_edges_that_the_client_does_not_hold(truth: Truth, game: LinkGame) -> None:
    own_nodes = set(truth.experiment.shards[0].node_ids.tolist())
    edges = {tuple(edge) for edge in truth.graph.edge_index.T.tolist()}
    for (mine, other), so in zip(game.question.ids.tolist(), game.truth, strict=True):
        assert mine in own_nodes
        assert other not in own_nodes
        assert ((mine, other) in edges) == bool(so)


def test_answers_that_do_not_move_tell_nothing(truth: Truth, game: LinkGame) -> None:
    view = truth.view(ME)
    deaf = replace(view, query=lambda nodes, features: view.answers)
    guess = influence_links(deaf, game.question, RNG(0))
    assert game.measure(guess).value == 0.5


def test_a_query_without_a_change_is_the_answer(truth: Truth) -> None:
    view = truth.view(ME)
    shard = view.own[0]
    same = view.query(shard.node_ids[:3], shard.graph.features[:3])
    torch.testing.assert_close(same, view.answers)


def test_nobody_changes_what_another_holds(truth: Truth, game: LinkGame) -> None:
    view = truth.view(ME)
    others = np.setdiff1d(np.arange(120), view.own[0].node_ids.numpy())
    with pytest.raises(ValueError, match="its own nodes alone"):
        view.query(torch.from_numpy(others[:1]), view.own[0].graph.features[:1])
    pairs = np.array([[others[0], others[1]]])
    with pytest.raises(CannotAttack, match="not the adversary's own"):
        influence_links(view, OthersLinks(ids=pairs), RNG(0))


def test_who_may_not_query_cannot_attack(truth: Truth, game: LinkGame) -> None:
    for who in ("server", "outsider", "wire"):
        view = truth.view(Adversary.parse(who))
        assert view.query is None
        with pytest.raises(CannotAttack, match="cannot be queried"):
            influence_links(view, game.question, RNG(0))
