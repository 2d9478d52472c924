"""Gradient inversion of small graphs: records by the span of a change, edges by linear algebra."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attacks.candidates import SPANNED_RECORDS
from attacks.links import INVERTED_EDGES, inverted_edges, solve_neighbours
from attacks.models import INSIDE_SPAN, Moved, reads_a_span
from attacks.questions import ListedRecords, SmallGraphEdges
from audits.blind import blind_view
from audits.games import make_game
from audits.games.candidates import RecordGame
from audits.games.links import EdgeGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from tests import small

RNG, SERVER = np.random.default_rng, Adversary.parse("server")


def made(root: Path, *more: str, network: str = "GraphSAGE", optimizer: str = "sgd") -> Truth:
    arguments = "arguments: {dropout: 0.0, hidden_channels: 64}, weighting: equal, upload: update"
    config = small.config(
        root,
        f"method={{name: fedavg, network: {network}, {arguments}, optimizer: {optimizer}}}",
        "partition={name: louvain, num_clients: 12}",
        "data.csbm={task: dnc, num_nodes: 240, degree: 6, graph_signal: 2, mu: 6, "
        "num_features: 100}",
        "training={rounds: 1, lr: 0.1, local_epochs: 3, patience: null}",
        *more,
    )
    return Truth.of(runner.start(config).folder)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("runs"))


def records(truth: Truth) -> RecordGame:
    game = make_game(ListedRecords, truth, SERVER, RNG(0))
    assert isinstance(game, RecordGame)
    return replace(game, question=replace(game.question, prior=game.without_run))


def edges(truth: Truth) -> EdgeGame:
    game = make_game(SmallGraphEdges, truth, SERVER, RNG(0))
    assert isinstance(game, EdgeGame)
    return replace(game, question=replace(game.question, prior=game.without_run))


def test_a_record_is_in_the_span_of_what_it_moved_and_a_stranger_is_not() -> None:
    rng = RNG(0)
    rows, strangers = rng.normal(size=(2, 10, 50))
    change = Moved(rng.normal(size=(30, 10)) @ rows)
    assert change.rank == 10
    assert change.tells
    assert change.share_outside(rows).max() < 1e-6
    assert change.share_outside(strangers).min() > 0.5
    assert change.share_outside(np.zeros((1, 50))) == 1.0


def test_more_nodes_than_units_hide_every_record() -> None:
    rng = RNG(0)
    rows = rng.normal(size=(40, 50))
    change = Moved(rng.normal(size=(30, 40)) @ rows)
    assert not change.tells
    assert change.share_outside(rows).min() > INSIDE_SPAN


@pytest.mark.parametrize("swapped", [False, True])
def test_neighbours_are_solved_for_whichever_matrix_is_over_own_rows(swapped: bool) -> None:
    rng = RNG(1)
    rows = rng.normal(size=(8, 20))
    linked = np.triu(rng.random((8, 8)) < 0.3, 1)
    linked |= linked.T
    shares = linked / np.maximum(linked.sum(1, keepdims=True), 1)
    errors = rng.normal(size=(16, 8))
    errors[:, 6:] = 0  # no label reaches these two
    parts = [Moved(errors @ shares @ rows), Moved(errors @ rows)]
    found = solve_neighbours(parts[::-1] if swapped else parts, rows)
    assert np.allclose(found[:6], shares[:6], atol=1e-6)
    assert not found[6:].any()


def test_every_record_near_a_label_is_found_and_no_other(truth: Truth) -> None:
    game = records(truth)
    guess = SPANNED_RECORDS.run(truth.view(SERVER), game.question, RNG(0))
    assert game.extras(guess)["exact_nodes_near_labels"] == 1.0
    assert game.gain(guess).low > SPANNED_RECORDS.floor
    assert game.null(guess, RNG(0))[1]


def test_every_edge_near_a_label_is_solved_for(truth: Truth) -> None:
    game = edges(truth)
    guess = inverted_edges(truth.view(SERVER), game.question, RNG(0))
    assert game.extras(guess)["exact_edges"] == 1.0
    assert game.gain(guess).low > INVERTED_EDGES.floor
    assert game.null(guess, RNG(0))[1]


def test_meaningless_uploads_leave_the_prior(truth: Truth) -> None:
    blind = blind_view(truth.view(SERVER), RNG(0))
    for game, attack in ((records(truth), SPANNED_RECORDS), (edges(truth), INVERTED_EDGES)):
        assert game.gain(attack.run(blind, game.question, RNG(0))).high <= 1e-3


@pytest.mark.parametrize(
    ("more", "how", "reason"),
    [
        ((), {"optimizer": "adam"}, "by adam, which scales every weight alone"),
        (("data.csbm.num_features=20", "partition.num_clients=2"), {}, "full rank"),
        (
            (
                "privacy={mechanism: local_gaussian, target_epsilon: 1000, unit: client, "
                "clip_l2: 1.0}",
            ),
            {},
            "noise on the update fills the span",
        ),
    ],
)
def test_where_no_span_is_left_the_reason_is_told(
    tmp_path: Path, more: tuple[str, ...], how: dict[str, str], reason: str
) -> None:
    view = made(tmp_path, *more, **how).view(SERVER)
    assert reason in str(reads_a_span(view))


def test_a_layer_of_one_matrix_gives_records_and_no_edges(tmp_path: Path) -> None:
    truth = made(tmp_path, network="GCN")
    view = truth.view(SERVER)
    assert "1 matrices over features" in str(INVERTED_EDGES.applies_to(view))
    assert SPANNED_RECORDS.applies_to(view) is None
    game = records(truth)
    guess = SPANNED_RECORDS.run(view, game.question, RNG(0))
    assert 0 < game.extras(guess)["exact_nodes"] < 0.5


def test_an_update_without_an_own_part_finds_nobody(truth: Truth) -> None:
    """The null: a client's upload replaced by another's."""
    game, view = records(truth), truth.view(SERVER)
    size = truth.graph.num_nodes
    client = int(game.question.ids[0]) // size
    other = next(k for k in range(12) if k != client)
    swapped = []
    for seen in view.seen:
        fields = dict(seen.fields or {})
        if seen.header.up and seen.clients.numbers() == [client]:
            rows = next(s for s in view.seen if s.header.up and s.clients.numbers() == [other])
            fields["weights"] = (rows.fields or {})["weights"]
        swapped.append(replace(seen, fields=fields))
    asked = game.question.ids[game.question.ids // size == client]
    own = replace(game.question, ids=asked, prior=None)
    guess = SPANNED_RECORDS.run(replace(view, seen=tuple(swapped)), own, RNG(0))
    held = torch.isin(
        torch.from_numpy(own.ids % size), truth.experiment.shards[client].node_ids
    ).numpy()
    assert guess[held].max() <= guess[~held].max()
