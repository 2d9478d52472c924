"""P1 and P3: private nodes show between public ones; colluders get the last client's rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.base import AnyAttack, CannotAttack, Question
from attacks.colluders import REMAINING_CLIENT, remaining_client
from attacks.links import SHARED_NEIGHBOUR
from attacks.questions import PublicLinks, RemainingClient, SharedElsewhere, SharedNeighbour
from audits.games import make_game
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

SERVER, ALONE, ALL_BUT_ONE = map(Adversary.parse, ("server", "client:0", "client:0,1,2"))
NOISE = {
    "mechanism": "local_gaussian",
    "noise_multiplier": 20.0,
    "clip_l2": 1.0,
    "delta": 1e-5,
    "unit": "client",
}


def made(root: Path, method: dict[str, Any], privacy: dict[str, Any] | None = None) -> Truth:
    tree = small.tree(root, "ppfl_deepwalk")
    tree["method"] |= {"walk_length": 20, "scoring": "split", **method}
    tree["data"]["csbm"] |= {"num_nodes": 240, "degree": 3, "graph_signal": 1}
    tree["partition"] = {"name": "public_private"}
    tree["training"] = {"rounds": 4, "local_epochs": 5, "lr": 0.05, "patience": None}
    tree["privacy"] = privacy or {}
    return Truth.of(runner.start(parse_config(tree)).folder)


@pytest.fixture(scope="module")
def pairwise(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("pairwise"), {})


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    method = {"alignment": "reference", "start": "shared"}
    return made(
        tmp_path_factory.mktemp("masked"), method, {"secure_aggregation": {"malicious": False}}
    )


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("noisy"), {}, NOISE)


def play(truth: Truth, attack: AnyAttack, adversary: Adversary) -> tuple[Any, Any]:
    game = make_game(attack.question, truth, adversary, np.random.default_rng(0))
    return game, attack.run(truth.view(adversary), game.question, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("question", "adversary"),
    [(SharedNeighbour, SERVER), (PublicLinks, SERVER), (SharedElsewhere, ALONE)],
)
def test_pairs_of_too_many_public_nodes_are_not_made(
    pairwise: Truth, question: type[Question], adversary: Adversary, monkeypatch: Any
) -> None:
    make_game(question, pairwise, adversary, np.random.default_rng(0))
    monkeypatch.setattr("audits.games.links.MOST_PUBLIC", 10)
    with pytest.raises(CannotAttack, match="public nodes; all pairs of 10"):
        make_game(question, pairwise, adversary, np.random.default_rng(0))


def test_a_private_node_between_two_public_ones_shows_in_their_rows(pairwise: Truth) -> None:
    game, guess = play(pairwise, SHARED_NEIGHBOUR, SERVER)
    assert game.measure(guess).value > 0.9
    assert game.gain(guess).low > SHARED_NEIGHBOUR.floor


def test_pairs_are_not_linked_and_half_of_them_share_a_private_neighbour(pairwise: Truth) -> None:
    game, _ = play(pairwise, SHARED_NEIGHBOUR, SERVER)
    shard = pairwise.experiment.shards[game.question.client]
    linked = {tuple(edge) for edge in shard.graph.edge_index.T.tolist()}
    public = shard.public.numpy()
    around = {v: {b for a, b in linked if a == v} - set(public.tolist()) for v in public.tolist()}
    assert game.truth.mean() == 0.5
    for (first, second), so in zip(public[game.question.ids].tolist(), game.truth, strict=True):
        assert (first, second) not in linked
        assert bool(around[first] & around[second]) == bool(so)


def test_the_null_of_shared_neighbours_is_at_chance(pairwise: Truth) -> None:
    game, guess = play(pairwise, SHARED_NEIGHBOUR, SERVER)
    at_chance = [game.null(guess, np.random.default_rng(seed))[1] for seed in range(50)]
    assert sum(at_chance) >= 48


def test_noise_and_masks_take_the_shared_neighbour_away(
    pairwise: Truth, noisy: Truth, masked: Truth
) -> None:
    game, guess = play(pairwise, SHARED_NEIGHBOUR, SERVER)
    plain = game.measure(guess).value
    game, guess = play(noisy, SHARED_NEIGHBOUR, SERVER)
    assert game.gain(guess).low < 0
    assert game.measure(guess).value < plain - 0.2
    game, guess = play(masked, SHARED_NEIGHBOUR, SERVER)
    assert game.measure(guess).value < plain - 0.05  # a mean of four still tells something


def test_all_but_one_colluders_have_the_last_clients_rows(pairwise: Truth) -> None:
    game, guess = play(pairwise, REMAINING_CLIENT, ALL_BUT_ONE)
    assert game.extras(guess) == {"exact_rows": 1.0, "honest_clients": 1.0}
    assert game.gain(guess).low > REMAINING_CLIENT.floor
    assert game.null(guess, np.random.default_rng(0))[1]


def test_masks_do_not_hide_the_last_client_from_all_others(masked: Truth) -> None:
    game, guess = play(masked, REMAINING_CLIENT, ALL_BUT_ONE)
    assert game.measure(guess).value > 0.999


def test_one_colluder_has_the_mean_of_the_rest(pairwise: Truth) -> None:
    game, guess = play(pairwise, REMAINING_CLIENT, ALONE)
    assert game.extras(guess)["exact_rows"] == 0
    assert game.extras(guess)["honest_clients"] == 3
    assert 0 < game.gain(guess).value < 0.9


def test_noise_hides_the_last_clients_rows(noisy: Truth) -> None:
    game, guess = play(noisy, REMAINING_CLIENT, ALL_BUT_ONE)
    assert game.extras(guess)["exact_rows"] == 0
    assert -0.01 < game.gain(guess).value < 0.05  # what is left is the colluders' own rows


def test_who_cannot_be_attacked_is_told_why(pairwise: Truth) -> None:
    everybody = Adversary.parse("client:0,1,2,3")
    with pytest.raises(CannotAttack, match="no client is left"):
        play(pairwise, REMAINING_CLIENT, everybody)
    game = make_game(RemainingClient, pairwise, ALONE, np.random.default_rng(0))
    view = pairwise.view(ALONE)
    with pytest.raises(CannotAttack, match="was sent no mean in round 2"):
        remaining_client(replace(view, seen=()), game.question, np.random.default_rng(0))
    for attack in (SHARED_NEIGHBOUR, REMAINING_CLIENT):
        assert pairwise.spoken.unmet_need(attack) is None
        assert attack.applies_to(view) is None
        silent = replace(pairwise.spoken, uploads={})
        assert "node rows (index public)" in str(silent.unmet_need(attack))
    unanswered = replace(pairwise.spoken, sent={})
    assert "the server sends holds mean rows" in str(unanswered.unmet_need(REMAINING_CLIENT))


def test_what_is_not_exchanged_is_not_spoken(tmp_path: Path) -> None:
    alone = made(tmp_path, {"exchange": False})
    for attack in (SHARED_NEIGHBOUR, REMAINING_CLIENT):
        assert alone.spoken.unmet_need(attack) is not None


def test_degrees_that_colluders_do_not_know_stop_them(tmp_path: Path) -> None:
    view = made(tmp_path, {"aggregation": "degree"}).view(ALL_BUT_ONE)
    assert "degrees" in str(REMAINING_CLIENT.applies_to(view))
