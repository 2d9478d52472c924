"""Attacks on FedGL's uploads: they work where nothing protects and fall silent under noise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attacks import get_attack
from attacks.base import CannotAttack
from attacks.models import MODEL
from attacks.rows import class_shares
from audits.games import make_game
from audits.truth import Truth
from securefg.protocol.meanings import Predictions
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from tests.small import config

SERVER = Adversary.parse("server")


def played(truth: Truth, name: str) -> float:
    """The gain of an attack on a run."""
    attack, rng = get_attack(name), np.random.default_rng(0)
    game = make_game(attack.question, truth, SERVER, rng)
    return game.gain(attack.run(truth.view(SERVER), game.question, rng)).value


def run(root: Path, *overrides: str) -> Truth:
    made = config(root, "method.embedding=hidden", "training.rounds=40", *overrides)
    return Truth.of(runner.start(made).folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return run(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("name", ["adjacency_nnls", "whitened_links", "training_labels"])
def test_the_positive_control_reaches_its_floor(plain: Truth, name: str) -> None:
    assert played(plain, name) >= get_attack(name).floor


def test_linear_algebra_beats_similarity(plain: Truth) -> None:
    assert played(plain, "adjacency_nnls") > played(plain, "similar_links") + 0.1


def test_several_rounds_whitened_beat_the_last_rounds_similarity(tmp_path: Path) -> None:
    final = run(tmp_path, "method.embedding=final", "data.csbm.num_nodes=300")
    assert played(final, "whitened_links") > played(final, "similar_links") + 0.1


def test_edges_hide_in_noise(tmp_path: Path) -> None:
    noise = "privacy={mechanism: local_gaussian, noise_multiplier: 5}"
    truth = run(tmp_path, "method.weighting=equal", noise)
    assert played(truth, "adjacency_nnls") < 0.1
    assert played(truth, "whitened_links") < 0.1


def test_masked_uploads_leave_the_adversary_a_mean(tmp_path: Path) -> None:
    masked = "privacy={secure_aggregation: {min_holders: 1}}"
    truth = run(tmp_path, masked)
    view = truth.view(SERVER)
    uploads = view.uploads(MODEL)
    assert uploads
    assert all(message.masked for message in uploads)
    with pytest.raises(CannotAttack, match="masked, so that the view holds only sums"):
        view.readable(MODEL)
    assert all(message.summed for message in view.best_rows(MODEL))
    assert played(truth, "adjacency_nnls") < 0.4


def test_the_class_that_masked_predictions_leave_out_is_completed(tmp_path: Path) -> None:
    """Rows that add up would show who holds a node, so one class stays at home; the count of
    holders, which the server has, gives it back."""
    masked = "privacy={secure_aggregation: {min_holders: 1}}"
    truth = run(tmp_path, masked)
    view, classes = truth.view(SERVER), truth.experiment.union.num_classes
    assert view.best_rows(Predictions("nodes"))[0].value.shape[-1] == classes - 1
    rows = class_shares(view, 0)
    last = rows[max(rows)]
    assert last.shape[1] == classes
    told = last.sum(1) > 0
    labels = truth.experiment.union.labels
    right = float((last.argmax(1) == labels)[told].float().mean())
    guessed = float((last[:, :-1].argmax(1) == labels)[told].float().mean())
    assert right > guessed + 0.1


def test_sums_over_some_clients_are_not_completed_by_the_count_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a plan without the rule that bare sums of rows are opened over all clients alone."""
    monkeypatch.setattr("securefg.privacy.policy._whole_sums", lambda *of: {})
    masked = "privacy={secure_aggregation: {min_holders: 1}}"
    shares = "partition.shares=[0.5, 0.5, 0.5, 0.5, 0.5]"
    truth = run(tmp_path, masked, shares, "training.participation=0.8", "training.rounds=4")
    with pytest.raises(CannotAttack, match="one class by itself"):
        class_shares(truth.view(SERVER), 0)


def test_sums_under_noise_break_no_attack(tmp_path: Path) -> None:
    noised = "privacy={mechanism: distributed_discrete, noise_multiplier: 1, clip_l2: 1.0, "
    masks = "secure_aggregation: {min_holders: 1}}"
    truth = run(tmp_path, noised + masks, "method.weighting=equal", "training.rounds=3")
    assert truth.view(SERVER).best_rows(Predictions("nodes"))[0].summed
    assert played(truth, "training_labels") < 0.5
    assert played(truth, "adjacency_nnls") < 0.3


def test_the_final_layer_is_no_ground_for_the_equations(plain: Truth) -> None:
    """The need is for hidden rows: final ones, of the same run otherwise, do not meet it."""
    nnls, settings = get_attack("adjacency_nnls"), plain.config.method
    assert plain.spoken.unmet_need(nnls) is None
    assert nnls.applies_to(plain.view(SERVER)) is None
    final = plain.experiment.method.meanings(settings.model_copy(update={"embedding": "final"}))
    uploads = {place: final[place] for place in plain.spoken.uploads}
    reason = replace(plain.spoken, uploads=uploads).unmet_need(nnls)
    assert reason is not None
    assert "hidden" in reason


def test_the_equations_are_those_of_a_gcn_of_two_layers(plain: Truth) -> None:
    view = plain.view(SERVER)
    other = {name: replace(layout, form="mlp2") for name, layout in view.networks.items()}
    for name in ("adjacency_nnls", "hidden_features"):
        assert "gcn2" in str(get_attack(name).applies_to(replace(view, networks=other)))
