"""Supervised link stealing: what a known graph teaches of another, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from attacks.base import CannotAttack
from attacks.links_learnt import (
    answered_links,
    describe_pairs,
    learn_scores,
    link_auc,
    supervised_links,
)
from attacks.questions import StolenLinks
from audits.blind import blind_view
from audits.games import make_game
from audits.games.links import LinkGame
from audits.truth import Truth
from securefg.models.gcn import normalized_adjacency
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from tests import small

RNG = np.random.default_rng
SERVER, ME, OUTSIDER = (Adversary.parse(who) for who in ("server", "client:0", "outsider"))


def rings(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, pairs, links: linked nodes lie at a middle distance, which no likeness tells."""
    rng = RNG(seed)
    rows = rng.normal(size=(200, 3))
    pairs = rng.integers(200, size=(3000, 2))
    apart = np.linalg.norm(rows[pairs[:, 0]] - rows[pairs[:, 1]], axis=1)
    middle = np.abs(apart - np.median(apart)) < 0.4
    return rows, pairs, (middle & (rng.random(3000) < 0.9)).astype(np.int64)


def taught(
    links: np.ndarray, pairs: np.ndarray, asked: np.ndarray, prior: np.ndarray
) -> StolenLinks:
    return StolenLinks(asked, None, pairs, links, prior=prior)


def test_what_links_look_like_is_learnt_where_no_likeness_tells() -> None:
    rows, pairs, links = rings(0)
    others, asked, is_link = rings(1)
    prior = RNG(2).normal(size=len(is_link))
    shadow, wanted = describe_pairs(rows, pairs), describe_pairs(others, asked)
    near = -np.linalg.norm(rows[pairs[:, 0]] - rows[pairs[:, 1]], axis=1)
    guess = learn_scores(taught(links, pairs, asked, prior), shadow, wanted, [near])
    assert link_auc(links, near) < 0.6
    assert link_auc(is_link, guess) > 0.9


def test_a_shadow_graph_that_teaches_nothing_leaves_the_prior() -> None:
    rows, pairs, links = rings(0)
    others, asked, so = rings(1)
    prior = RNG(2).normal(size=len(so)) + so
    null = taught(RNG(3).permutation(links), pairs, asked, prior)
    guess = learn_scores(null, describe_pairs(rows, pairs), describe_pairs(others, asked), [])
    assert np.array_equal(guess, prior)


def test_too_few_links_to_learn_from_are_a_reason() -> None:
    rows, pairs, links = rings(0)
    asked = StolenLinks(pairs, None, pairs, np.zeros_like(links))
    with pytest.raises(CannotAttack, match="0 links to learn from"):
        learn_scores(asked, describe_pairs(rows, pairs), describe_pairs(rows, pairs), [])


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    config = small.config(
        tmp_path_factory.mktemp("runs"), "method.pseudo_graph=false", "data.csbm.num_nodes=240"
    )
    return Truth.of(runner.start(config).folder)


def game_of(truth: Truth, adversary: Adversary) -> LinkGame:
    game = make_game(StolenLinks, truth, adversary, RNG(0))
    assert isinstance(game, LinkGame)
    return replace(game, question=replace(game.question, prior=game.without_run))


def test_an_accomplices_edges_teach_the_server_anothers(truth: Truth) -> None:
    game = game_of(truth, SERVER)
    guess = supervised_links(truth.view(SERVER), game.question, RNG(0))
    assert game.gain(guess).low > 0
    assert game.null(guess, RNG(0))[1]
    nothing = supervised_links(blind_view(truth.view(SERVER), RNG(0)), game.question, RNG(0))
    assert game.gain(nothing).high <= 1e-3


@pytest.mark.parametrize("who", [ME, OUTSIDER])
def test_answers_that_mean_nothing_leave_the_prior(truth: Truth, who: Adversary) -> None:
    game = game_of(truth, who)
    assert game.gain(answered_links(truth.view(who), game.question, RNG(0))).high > -1e-3
    guess = answered_links(blind_view(truth.view(who), RNG(0)), game.question, RNG(0))
    assert np.array_equal(guess, game.without_run)


def test_answers_that_hold_the_links_give_them(truth: Truth) -> None:
    """The positive control: answers that mix a random row per node over its links, twice."""
    size = truth.graph.num_nodes
    drawn = torch.from_numpy(RNG(1).normal(size=(size, 100))).float()
    mixed = normalized_adjacency(truth.graph.edge_index, size)
    telling = replace(truth.view(OUTSIDER), answers=mixed @ (mixed @ drawn))
    game = game_of(truth, OUTSIDER)
    guess = answered_links(telling, replace(game.question, prior=None), RNG(0))
    assert game.measure(guess).value > 0.9


@pytest.mark.parametrize("who", [SERVER, ME, OUTSIDER])
def test_no_pair_is_asked_of_which_the_adversary_knows_both_nodes(
    truth: Truth, who: Adversary
) -> None:
    game = game_of(truth, who)
    targets = game.question
    assert isinstance(targets, StolenLinks)
    known = np.unique(targets.shadow_pairs)
    assert not np.isin(targets.ids, known).all(1).any()
    edges = {tuple(edge) for edge in truth.graph.edge_index.T.tolist()}
    linked = zip(targets.shadow_pairs.tolist(), targets.shadow_linked, strict=True)
    asked = zip(targets.ids.tolist(), game.truth, strict=True)
    assert all(tuple(pair) in edges for pair, so in (*linked, *asked) if so)


def test_without_a_shadow_graph_nothing_is_guessed(truth: Truth) -> None:
    pairs, nothing = np.array([[0, 1], [2, 3]]), np.zeros((0, 2), np.int64)
    asked = StolenLinks(pairs, 1, nothing, nothing[:, 0])
    for attack, who in ((supervised_links, SERVER), (answered_links, OUTSIDER)):
        with pytest.raises(CannotAttack, match="0 links to learn from"):
            attack(truth.view(who), asked, RNG(0))
