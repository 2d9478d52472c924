"""Whose node is it, and is this edge there: what uploads and answers tell of either."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attacks.base import CannotAttack
from attacks.holders import HELD_ROWS, held_rows, node_owner
from attacks.questions import HeldNodes, KnownEdges, Question
from attacks.sums import RELEASED_EDGES, released_edges
from audits.blind import at_chance, blind_view
from audits.games import make_game
from audits.games.base import BinaryGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from tests import small

RNG = np.random.default_rng
SERVER, ME, OUTSIDER = (Adversary.parse(who) for who in ("server", "client:0", "outsider"))
LOUVAIN = "partition={name: louvain, num_clients: 4}"


def ran(root: Path, *overrides: str, method: str = "fedgl") -> Truth:
    return Truth.of(runner.start(small.config(root, *overrides, method=method)).folder)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return ran(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """Clients whose records differ: sparse features, a community each."""
    return ran(
        tmp_path_factory.mktemp("apart"),
        LOUVAIN,
        "data.csbm={task: dnc, num_nodes: 300, degree: 8, graph_signal: 2, mu: 2, "
        "num_features: 200}",
        "training.rounds=5",
    )


def game_of(asked: type[Question], truth: Truth, who: Adversary) -> BinaryGame:
    game = make_game(asked, truth, who, RNG(0))
    assert isinstance(game, BinaryGame)
    return replace(game, question=replace(game.question, prior=game.without_run))


def test_rows_that_are_not_zero_tell_what_a_client_holds(truth: Truth) -> None:
    game = game_of(HeldNodes, truth, SERVER)
    guess = held_rows(truth.view(SERVER), game.question, RNG(0))
    assert game.measure(guess).value == 1.0
    assert game.gain(guess).low > HELD_ROWS.floor
    assert game.null(guess, RNG(0))[1]
    blind = held_rows(blind_view(truth.view(SERVER), RNG(0)), game.question, RNG(0))
    assert at_chance(game.gain(blind))


def test_of_masked_rows_nothing_but_the_number_of_holders_is_left(tmp_path: Path) -> None:
    shares = "partition.shares=[0.5, 0.6, 0.7, 0.5, 0.6]"
    masked = ran(tmp_path, shares, "privacy={secure_aggregation: {}}")
    game = game_of(HeldNodes, masked, SERVER)
    guess = held_rows(masked.view(SERVER), game.question, RNG(0))
    assert game.gain(guess).low <= 0


def test_the_client_whose_layer_moved_along_a_record_has_it(apart: Truth) -> None:
    game = game_of(HeldNodes, apart, SERVER)
    guess = node_owner(apart.view(SERVER), game.question, RNG(0))
    assert game.gain(guess).low > 0
    assert game.null(guess, RNG(0))[1]
    blind = node_owner(blind_view(apart.view(SERVER), RNG(0)), game.question, RNG(0))
    assert at_chance(game.gain(blind))


def test_records_that_are_not_known_cannot_be_looked_for(apart: Truth) -> None:
    ids = np.arange(3)
    asked = HeldNodes(ids=ids, client=1, known_ids=ids, known=np.zeros((3, 0), np.float32))
    with pytest.raises(CannotAttack, match="features are not known"):
        node_owner(apart.view(SERVER), asked, RNG(0))


@pytest.mark.parametrize("who", [ME, OUTSIDER])
def test_who_knows_all_else_sees_every_edge_in_the_answers(truth: Truth, who: Adversary) -> None:
    game = game_of(KnownEdges, truth, who)
    guess = released_edges(truth.view(who), game.question, RNG(0))
    assert game.measure(guess).value == 1.0
    assert game.gain(guess).low > RELEASED_EDGES.floor
    blind = released_edges(blind_view(truth.view(who), RNG(0)), game.question, RNG(0))
    assert at_chance(game.gain(blind))


def test_half_of_the_pairs_are_edges_and_none_is_the_adversarys(truth: Truth) -> None:
    game = game_of(KnownEdges, truth, ME)
    edges = {tuple(edge) for edge in truth.graph.edge_index.T.tolist()}
    own_nodes = truth.experiment.shards[0].node_ids.numpy()
    assert game.truth.mean() == 0.5
    for pair, so in zip(game.question.ids, game.truth, strict=True):
        assert (tuple(pair.tolist()) in edges) == bool(so)
        assert not np.isin(pair, own_nodes).all()


def test_answers_that_use_no_neighbours_tell_of_no_edge(tmp_path: Path) -> None:
    rows = ran(tmp_path, "method={name: fedavg, network: MLP}", LOUVAIN, "training.rounds=1")
    with pytest.raises(CannotAttack, match="no answer hangs on an edge"):
        make_game(KnownEdges, rows, OUTSIDER, RNG(0))
