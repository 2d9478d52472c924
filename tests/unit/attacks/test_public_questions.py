"""Uploaded rows of public nodes tell edges, links, labels and records. Means tell colluders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import get_attack
from attacks.base import CannotAttack
from attacks.decoders import RIDGE_ROUNDS, decoder_pairs, ridge_decoded
from attacks.public_labels import kernel_scores, margins
from audits.games import make_game
from audits.games.features import mean_precision
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

WALKS = ("unmoved_rows", "walked_links", "shared_elsewhere", "public_candidates", "ridge_decoder")
LAYER = ("public_labels", "public_members", "public_candidates", "walked_links")
MASKS: dict[str, Any] = {"secure_aggregation": {"malicious": False}}
NOISE = {
    "mechanism": "local_gaussian",
    "noise_multiplier": 20.0,
    "clip_l2": 1.0,
    "delta": 1e-5,
    "unit": "client",
}
TOGETHER = {"alignment": "reference", "start": "shared"}


def made(
    root: Path, method: dict[str, Any], degree: float, privacy: dict[str, Any] | None = None
) -> Truth:
    tree = small.tree(root, method["name"])
    tree["method"] = method
    tree["data"]["csbm"] |= {"num_nodes": 300, "degree": degree, "graph_signal": 1, "mu": 6}
    tree["data"]["split"] = {"kind": "folds"}
    tree["partition"] = {"name": "public_private"}
    tree["training"] = {"rounds": 5, "local_epochs": 5, "lr": 0.05, "patience": None}
    tree["privacy"] = privacy or {}
    return Truth.of(runner.start(parse_config(tree)).folder)


def play(truth: Truth, name: str) -> tuple[Any, Any]:
    attack = get_attack(name)
    place = "server" if "server" in attack.adversaries else "client:0"
    adversary = Adversary.parse(place)
    game = make_game(attack.question, truth, adversary, np.random.default_rng(0))
    question = replace(game.question, prior=game.without_run)
    return game, attack.run(truth.view(adversary), question, np.random.default_rng(0))


WALK = {"name": "ppfl_deepwalk", "walk_length": 20}


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("walks"), WALK, 3)


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("layer"), {"name": "ppfl_gat"}, 6)


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("masked"), WALK | TOGETHER, 3, MASKS)


@pytest.fixture(scope="module")
def noised(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("noised"), WALK, 3, NOISE)


def test_unmoved_rows_of_walks_show_edges_exactly(walks: Truth) -> None:
    game, guess = play(walks, "unmoved_rows")
    assert game.measure(guess).value == 1.0
    shard = walks.experiment.shards[game.question.client]
    ends = set(shard.graph.edge_index.flatten().tolist())
    rows = shard.public.tolist()
    assert [rows[i] in ends for i in game.question.ids] == [bool(so) for so in game.truth]


@pytest.mark.parametrize("name", ["walked_links", "shared_elsewhere"])
def test_links_of_walks_gain_at_least_their_floor(walks: Truth, name: str) -> None:
    game, guess = play(walks, name)
    assert game.gain(guess).low > get_attack(name).floor


def test_public_links_targets_are_linked_as_the_truth_says(walks: Truth) -> None:
    game, _ = play(walks, "walked_links")
    public = walks.experiment.partition.public.sort().values.numpy()
    linked = set(map(tuple, walks.graph.edge_index.T.tolist()))
    pairs = public[game.question.ids].tolist()
    assert [tuple(pair) in linked for pair in pairs] == [bool(so) for so in game.truth]


def test_shared_elsewhere_targets_share_no_node_with_the_colluder(walks: Truth) -> None:
    game, _ = play(walks, "shared_elsewhere")
    shards, edges = walks.experiment.shards, walks.graph.edge_index.numpy()
    public = walks.experiment.partition.public.sort().values.numpy()
    for (first, second), is_member in list(zip(game.question.ids, game.truth, strict=True))[:80]:
        around = [set(edges[0][edges[1] == public[i]]) - set(public) for i in (first, second)]
        both = around[0] & around[1]
        assert not both & set(shards[0].node_ids.tolist())
        assert bool(both) == bool(is_member)


def test_masks_leave_links_and_shared_neighbours_in_the_mean(masked: Truth) -> None:
    for name in ("walked_links", "shared_elsewhere"):
        game, guess = play(masked, name)
        assert game.gain(guess).low > 0, name


@pytest.mark.parametrize("name", WALKS)
def test_noise_on_rows_leaves_nothing_above_the_prior(noised: Truth, name: str) -> None:
    game, guess = play(noised, name)
    assert game.gain(guess).low <= 0.01


def test_rows_of_a_layer_tell_labels_nobody_trained_on(layer: Truth) -> None:
    game, guess = play(layer, "public_labels")
    trained = layer.graph.split.train.numpy()
    public = layer.experiment.partition.public.sort().values.numpy()
    assert not trained[public[game.question.ids]].any()
    assert trained[public[game.question.known_ids]].all()
    assert game.gain(guess).low > 0
    assert 0 < game.extras(guess)["by_smoothed_features"] <= 1


@pytest.mark.parametrize("name", LAYER)
def test_guesses_about_public_nodes_pass_their_null(layer: Truth, name: str) -> None:
    game, guess = play(layer, name)
    game.check(guess if guess.ndim == 1 else guess[:, 0])
    assert game.null(guess, np.random.default_rng(0))[1]


def test_public_members_are_as_many_of_every_class(layer: Truth) -> None:
    game, _ = play(layer, "public_members")
    labels = game.question.labels
    for label in np.unique(labels):
        assert game.truth[labels == label].mean() == 0.5


def test_public_candidates_rank_records_above_chance(layer: Truth) -> None:
    game, guess = play(layer, "public_candidates")
    assert game.gain(guess).low > 0
    assert not set(game.question.known_ids) & set(game.question.ids)


def test_questions_about_public_rows_do_not_apply_to_other_runs(layer: Truth) -> None:
    assert "walks" in str(layer.spoken.unmet_need(get_attack("unmoved_rows")))
    alone = replace(layer.spoken, uploads={})
    for name in (*WALKS, *LAYER):
        assert alone.unmet_need(get_attack(name)) is not None


def test_shared_elsewhere_without_means_says_why(walks: Truth) -> None:
    game, _ = play(walks, "shared_elsewhere")
    view = replace(walks.view(Adversary.parse("client:0")), seen=())
    with pytest.raises(CannotAttack, match="no mean of rows"):
        get_attack("shared_elsewhere").run(view, game.question, np.random.default_rng(0))


def test_kernel_scores_repeat_the_labels_of_near_rows() -> None:
    known = np.array([[0.0], [0.1], [5.0], [5.1]])
    scores = kernel_scores(known, np.array([[0.05], [5.05]]), np.eye(2)[[0, 0, 1, 1]] - 0.5)
    assert scores.argmax(1).tolist() == [0, 1]


def test_margins_compare_a_label_with_the_best_other() -> None:
    found = margins(np.array([[1.0, 3.0, 2.0], [4.0, 0.0, 1.0]]), np.array([1, 2]))
    assert found.tolist() == [1.0, -3.0]


def test_mean_precision_of_a_perfect_order_is_one() -> None:
    truth = np.array([[1, 0, 1, 0]], np.float32)
    assert mean_precision(truth.astype(np.float64), truth) == 1.0
    assert mean_precision(np.array([[0.0, 2.0, 1.0, 0.5]]), truth) == pytest.approx(0.5)


def test_ridge_decoder_averages_the_guesses_of_all_clients(tmp_path: Path) -> None:
    truth = made(tmp_path, WALK, 8)
    game, guess = play(truth, "ridge_decoder")
    view, question = (
        truth.view(Adversary.parse("server")),
        replace(game.question, prior=game.without_run),
    )
    alone = []
    for client in range(4):
        pairs = decoder_pairs(view, replace(question, client=client), RIDGE_ROUNDS)
        alone.append(pairs.prior + ridge_decoded(pairs.known, pairs.rest, pairs.wanted))
    assert guess == pytest.approx(np.mean(alone, axis=0))
