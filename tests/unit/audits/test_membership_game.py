"""The game of membership on a small over-trained run: targets, shadows, controls, strength."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attacks.base import CannotAttack
from attacks.membership import MEMBERSHIP_LIRA, MEMBERSHIP_LOSS, MEMBERSHIP_RMIA
from attacks.questions import Question
from audits import shadows as shadow_training
from audits.games.membership import MembershipGame, balance_nodes, membership
from audits.metrics import area_under_curve
from audits.shadows import redraw_experiment
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

OUTSIDER = Adversary("outsider")
CSBM = {**small.CSBM, "num_nodes": 400, "mu": 1, "train_share": 0.2}


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """No dropout, no decay, long local training: it remembers its labels."""
    tree = small.tree(tmp_path_factory.mktemp("runs"))
    tree["data"]["csbm"] = dict(CSBM)
    tree["method"] |= {"dropout": 0.0, "pseudo_graph": False}
    tree["training"] |= {"rounds": 2, "local_epochs": 60, "lr": 0.03, "weight_decay": 0.0}
    tree["audit"] = {"num_shadows": 32}
    return Truth.of(runner.start(parse_config(tree)).folder)


@pytest.fixture(scope="module")
def game(truth: Truth) -> MembershipGame:
    return membership(truth, OUTSIDER, np.random.default_rng(0))


def judged(truth: Truth, **settings: object) -> Truth:
    return truth.judged_by(truth.config.audit.model_copy(update=settings))


def _guess(truth: Truth, game: MembershipGame, attack, adversary: Adversary = OUTSIDER):
    return attack.run(truth.view(adversary), game.question, np.random.default_rng(0))


def test_an_over_trained_model_tells_its_members_and_lira_is_the_stronger(truth, game) -> None:
    loss, lira, rmia = (
        game.measure(_guess(truth, game, attack))
        for attack in (MEMBERSHIP_LOSS, MEMBERSHIP_LIRA, MEMBERSHIP_RMIA)
    )
    assert lira.low > 0.55
    assert lira.value >= loss.value
    assert rmia.value > 0.55
    assert game.gain(_guess(truth, game, MEMBERSHIP_LIRA)).low > 0


def test_the_server_reads_the_clients_own_predictions(truth: Truth, game: MembershipGame) -> None:
    outside = _guess(truth, game, MEMBERSHIP_LOSS)
    server = _guess(truth, game, MEMBERSHIP_LOSS, Adversary("server"))
    assert np.isfinite(server).all()
    assert not np.allclose(outside, server)
    assert area_under_curve(game.truth, server) > 0.55


def test_targets_are_as_many_members_as_others_of_every_class(truth, game) -> None:
    labels, member = game.question.labels, game.truth.astype(bool)
    for label in np.unique(labels):
        assert member[labels == label].mean() == 0.5
    train = truth.graph.split.train.numpy()[game.question.ids]
    test = truth.graph.split.test.numpy()[game.question.ids]
    np.testing.assert_array_equal(train, member)
    np.testing.assert_array_equal(test, ~member)
    ends = member[: len(member) // 2].mean()
    assert 0.3 < ends < 0.7  # shuffled


def test_all_adversaries_are_asked_the_same_targets_in_an_order_of_their_own(truth, game) -> None:
    other = membership(truth, Adversary("server"), np.random.default_rng(1))
    assert set(other.question.ids) == set(game.question.ids)
    assert not np.array_equal(other.question.ids, game.question.ids)
    place = {node: i for i, node in enumerate(other.question.ids)}
    order = [place[node] for node in game.question.ids]
    np.testing.assert_array_equal(
        other.question.shadows.logits[:, order], game.question.shadows.logits
    )
    np.testing.assert_array_equal(
        other.question.shadows.member[:, order], game.question.shadows.member
    )


def test_the_null_is_at_chance_over_50_seeds(truth: Truth, game: MembershipGame) -> None:
    guess = _guess(truth, game, MEMBERSHIP_LIRA)
    found = [game.null(guess, np.random.default_rng(seed)) for seed in range(50)]
    assert sum(at_chance for _, at_chance in found) >= 49
    assert abs(np.mean([figure.value for figure, _ in found]) - 0.5) < 0.01


def test_shadows_learn_their_own_members(game: MembershipGame) -> None:
    shadows, labels = game.question.shadows, game.question.labels
    assert shadows.logits.shape[:2] == shadows.member.shape == (32, len(labels))
    assert np.abs(shadows.member.mean(1) - 0.5).max() < 0.05
    right = shadows.logits.argmax(-1) == labels
    assert right[shadows.member].mean() > right[~shadows.member].mean() + 0.05


def test_shadows_are_made_once(truth, game, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr(shadow_training, "train_shadows", refuse)
    membership(truth, OUTSIDER, np.random.default_rng(2))
    with pytest.raises(AssertionError, match="trained again"):
        membership(judged(truth, num_shadows=8), OUTSIDER, np.random.default_rng(2))


def test_other_recipes_data_and_targets_have_other_shadows(truth: Truth) -> None:
    recipe, graph, ids = shadow_training.recipe_of(truth), truth.graph, np.arange(30)
    other = graph.labels.roll(1)
    names = {
        shadow_training._recipe_hash(recipe, graph, ids),
        shadow_training._recipe_hash(replace(recipe, epochs=recipe.epochs + 1), graph, ids),
        shadow_training._recipe_hash(recipe, replace(graph, labels=other), ids),
        shadow_training._recipe_hash(recipe, graph, ids + 1),
    }
    assert len(names) == 4


def test_shadows_of_the_method_are_runs_of_it_that_learn_their_own_members(truth, game) -> None:
    judged_truth = judged(truth, shadows="method", num_shadows=4)
    method_shadows = shadow_training.shadows_for(judged_truth, game.question.ids)
    assert method_shadows.logits.shape == (4, *game.question.shadows.logits.shape[1:])
    right = method_shadows.logits.argmax(-1) == game.question.labels
    assert right[method_shadows.member].mean() > right[~method_shadows.member].mean() + 0.02
    assert shadow_training.shadows_for(judged_truth, game.question.ids).logits.tolist() == (
        method_shadows.logits.tolist()
    )


def test_a_shadow_of_the_method_trains_on_its_half_at_every_client(truth, game) -> None:
    ids = game.question.ids
    member = np.arange(len(ids)) % 2 == 0
    shadow = redraw_experiment(truth.experiment, ids, member, 0)
    for shard in shadow.shards:
        held = np.isin(ids, shard.node_ids.numpy())
        trained = shard.node_ids[shard.graph.split.train].numpy()
        assert set(ids[held & member]) == set(trained) & set(ids)
    assert shadow.config.seed != truth.config.seed


def test_shadows_of_the_method_that_take_too_long_are_not_made(truth, game) -> None:
    own = judged(truth, shadows="method", num_shadows=5, shadow_seconds=1e-6)
    with pytest.raises(CannotAttack, match="5 shadows of the method would take"):
        shadow_training.shadows_for(own, game.question.ids)


def test_a_shadows_graph_lacks_a_share_of_the_edges_in_both_directions(truth: Truth) -> None:
    graph = truth.graph
    kept = shadow_training.thin_edges(graph, 0.25, torch.Generator().manual_seed(0))
    assert abs(1 - kept.shape[1] / graph.edge_index.shape[1] - 0.25) < 0.05
    pairs = {tuple(edge) for edge in kept.T.tolist()}
    assert pairs == {(b, a) for a, b in pairs}


def test_low_false_positive_rates_are_told_only_where_there_are_targets_enough(game) -> None:
    truth = np.arange(2000) % 2
    many = MembershipGame(Question(ids=np.arange(2000)), "AUC", "label", truth)
    assert many.extras(truth + 0.0) == {"tpr_at_1_percent_fpr": 1.0}
    assert game.extras(game.truth + 0.0) == {}


def test_membership_is_no_secret_to_a_server_with_the_labels(tmp_path: Path) -> None:
    tree = small.tree(tmp_path, "nfedgnn")
    tree["partition"] = {"name": "one_node"}
    tree["data"]["csbm"] = dict(CSBM)
    run = Truth.of(runner.start(parse_config(tree)).folder)
    with pytest.raises(CannotAttack, match="no secret"):
        membership(run, Adversary("server"), np.random.default_rng(0))
    found = membership(run, OUTSIDER, np.random.default_rng(0))
    assert np.isfinite(_guess(run, found, MEMBERSHIP_RMIA)).all()


def test_a_run_that_releases_no_model_is_not_attacked(tmp_path: Path) -> None:
    run = Truth.of(runner.start(small.config(tmp_path, method="alone")).folder)
    with pytest.raises(CannotAttack, match="released no model"):
        membership(run, OUTSIDER, np.random.default_rng(0))


def test_too_few_targets_are_refused() -> None:
    labels, train = np.zeros(30, int), np.arange(30) < 5
    with pytest.raises(CannotAttack, match="10 targets"):
        balance_nodes(labels, train, ~train, np.random.default_rng(0))
