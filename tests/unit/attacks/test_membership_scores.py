"""Membership scores: what they are, and that the known mistakes show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from scipy.stats import norm

from attacks import evidence, membership
from attacks.base import CannotAttack, View
from attacks.confidence import log_confidence, scaled_confidence, standardise_confidences
from attacks.membership import (
    MEMBERSHIP_BAYES,
    MEMBERSHIP_LIRA,
    MEMBERSHIP_LOSS,
    MEMBERSHIP_RMIA,
    links_of,
    log_ratio,
    said_around,
    share_of_peers,
)
from attacks.questions import Membership, Shadows
from audits.metrics import BadMetricInput, area_under_curve, oriented_auc
from securefg.federation.roles import PublicInfo
from securefg.protocol.transcript import Adversary

NODES, CLASSES, COUNT = 200, 3, 32
ATTACKS = (MEMBERSHIP_LOSS, MEMBERSHIP_LIRA, MEMBERSHIP_RMIA, MEMBERSHIP_BAYES)


def _world(
    seed: int = 0, shadows: int = COUNT, lift: float = 1.5
) -> tuple[View, Membership, np.ndarray]:
    """Nodes of unlike difficulty; training on one lifts its own logit."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=NODES)
    ease = rng.normal(1.0, 3.0, NODES)

    def model(member: np.ndarray) -> np.ndarray:
        logits = rng.normal(0, 0.3, (NODES, CLASSES))
        logits[np.arange(NODES), labels] += ease + lift * member
        return logits.astype(np.float32)

    truth = rng.permutation(np.arange(NODES) % 2)
    members = np.stack([rng.permutation(np.arange(shadows) % 2 == 0) for _ in range(NODES)], 1)
    made = np.stack([model(member) for member in members])
    view = View(
        adversary=Adversary("outsider"),
        meanings={},
        public=PublicInfo(NODES, 1, CLASSES, 1, 0, torch.device("cpu")),
        released={},
        answers=torch.from_numpy(model(truth)),
    )
    ids = np.arange(NODES)
    question = Membership(
        ids=ids,
        known_ids=ids,
        known=np.zeros((NODES, 1), np.float32),
        labels=labels,
        edges=np.zeros((2, 0), np.int64),
        shadows=Shadows(made, members, labels),
    )
    return view, question, truth


def _run(attack, view: View, targets: Membership) -> np.ndarray:
    return attack.run(view, targets, np.random.default_rng(0))


def test_the_loss_score_is_minus_the_cross_entropy() -> None:
    view, targets, _ = _world()
    logits = torch.as_tensor(view.answers)
    wanted = -torch.nn.functional.cross_entropy(
        logits.double(), torch.from_numpy(targets.labels), reduction="none"
    )
    np.testing.assert_allclose(_run(MEMBERSHIP_LOSS, view, targets), wanted.numpy(), atol=1e-9)


def test_the_scaled_confidence_is_the_log_odds_of_the_label() -> None:
    logits = np.random.default_rng(0).normal(0, 2, (4, 6, 3))
    labels = np.array([0, 1, 2, 0, 1, 2])
    p = np.exp(log_softmax(logits, -1))[:, np.arange(6), labels]
    np.testing.assert_allclose(scaled_confidence(logits, labels), np.log(p / (1 - p)))
    np.testing.assert_allclose(log_confidence(logits, labels), np.log(p))


def test_shadows_make_unlike_nodes_comparable() -> None:
    view, targets, truth = _world()
    loss, lira, rmia, bayes = (
        area_under_curve(truth, _run(attack, view, targets)) for attack in ATTACKS
    )
    assert loss < 0.75
    assert min(lira, bayes) > 0.9
    assert rmia > loss + 0.1


def test_the_online_ratio_is_one_of_normal_densities() -> None:
    view, targets, _ = _world()
    theirs = standardise_confidences(scaled_confidence(targets.shadows.logits, targets.labels))
    own_scores = standardise_confidences(scaled_confidence(view.answers.numpy(), targets.labels))
    member, parts = targets.shadows.member, []
    for chosen in (member, ~member):
        means = np.array([theirs[chosen[:, i], i].mean() for i in range(NODES)])
        pooled = np.sum([((theirs[chosen[:, i], i] - means[i]) ** 2).sum() for i in range(NODES)])
        parts.append(norm(means, np.sqrt(pooled / (chosen.sum() - NODES))))
    wanted = parts[0].logpdf(own_scores) - parts[1].logpdf(own_scores)
    np.testing.assert_allclose(_run(MEMBERSHIP_LIRA, view, targets), wanted, rtol=1e-9, atol=1e-9)


def test_from_64_shadows_on_every_target_has_its_own_variance() -> None:
    rng = np.random.default_rng(0)
    spread = np.linspace(0.1, 2, 20)
    for count, apart in ((63, False), (64, True)):
        values = rng.normal(0, spread, (count, 20))
        _, sd = membership._fit_normal(values, np.ones((count, 20), bool))
        assert (sd.std() > 0.3) == apart


def _members_score_above_zero_and_others_below() -> None:
    ends = np.array([1.0, -1.0])
    members, others = (evidence.gaussian_log_ratio(v, 1, 0.5, -1, 0.5) for v in (ends, -ends))
    assert members[0] > 0 > members[1]
    assert others[1] > 0 > others[0]


def test_a_ratio_of_distribution_functions_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    _members_score_above_zero_and_others_below()
    monkeypatch.setattr(evidence, "_log_density", lambda x, mean, sd: norm.logcdf(x, mean, sd))
    with pytest.raises(AssertionError):
        _members_score_above_zero_and_others_below()


@pytest.mark.parametrize("attack", ATTACKS)
def test_swapped_labels_are_caught(attack) -> None:
    view, targets, truth = _world(lift=4.0)
    scores = _run(attack, view, targets)
    oriented_auc(truth, scores)
    with pytest.raises(BadMetricInput, match="labels swapped"):
        oriented_auc(1 - truth, scores)


def test_swapped_members_of_the_shadows_are_caught() -> None:
    view, targets, truth = _world()
    swapped = replace(targets, shadows=replace(targets.shadows, member=~targets.shadows.member))
    with pytest.raises(BadMetricInput, match="labels swapped"):
        oriented_auc(truth, _run(MEMBERSHIP_LIRA, view, swapped))


def test_another_class_column_is_caught() -> None:
    view, targets, truth = _world(lift=4.0)
    wrong = replace(targets, labels=(targets.labels + 1) % CLASSES)
    with pytest.raises(BadMetricInput, match="wrong class column"):
        oriented_auc(truth, _run(MEMBERSHIP_LOSS, view, wrong))


def test_the_offline_form_of_rmia_reads_no_model_that_trained_on_the_target() -> None:
    rng = np.random.default_rng(0)
    target_scores, theirs, member = rng.random(30), rng.random((8, 30)), rng.random((8, 30)) < 0.5
    member[0] = False
    other = np.where(member, rng.random((8, 30)), theirs)
    first = share_of_peers(target_scores, theirs, member)
    np.testing.assert_array_equal(first, share_of_peers(target_scores, other, member))
    assert not np.array_equal(first, share_of_peers(target_scores, theirs[::-1], member))


def test_lira_is_offline_where_no_shadow_trained_on_the_targets() -> None:
    view, targets, truth = _world()
    none = replace(targets.shadows, member=np.zeros_like(targets.shadows.member))
    assert (
        area_under_curve(truth, _run(MEMBERSHIP_LIRA, view, replace(targets, shadows=none))) > 0.75
    )


def test_what_an_attack_needs_is_asked_for() -> None:
    view, targets, _ = _world()
    for attack in ATTACKS:
        with pytest.raises(CannotAttack, match="released no model"):
            _run(attack, replace(view, answers=None), targets)
    everyone = replace(targets.shadows, member=np.ones_like(targets.shadows.member))
    for attack in ATTACKS[1:]:
        with pytest.raises(CannotAttack, match="did not"):
            _run(attack, view, replace(targets, shadows=everyone))


def test_a_null_model_is_at_chance_over_50_seeds() -> None:
    """The target model trained on none of the targets: scores know nothing of the truth."""
    rng, areas_by_attack = np.random.default_rng(1), {attack.name: [] for attack in ATTACKS}
    for seed in range(50):
        view, targets, _ = _world(seed, shadows=8)
        drawn = rng.permutation(np.arange(NODES) % 2)
        for attack in ATTACKS:
            areas_by_attack[attack.name].append(
                area_under_curve(drawn, _run(attack, view, targets))
            )
    sd = np.sqrt((NODES + 1) / (12 * (NODES / 2) ** 2))
    for values in areas_by_attack.values():
        assert abs(np.mean(values) - 0.5) < 3 * sd / np.sqrt(50)
        assert np.mean(np.abs(np.array(values) - 0.5) < 2 * sd) >= 0.88


def test_what_is_said_of_neighbours_is_the_mean_of_their_logs() -> None:
    logits = np.random.default_rng(0).normal(size=(4, 3))
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    asked = np.array([1, 3])
    found = said_around(logits, links_of(asked, edges, len(logits)), asked)
    logs = log_softmax(logits, axis=1)
    assert np.allclose(found, [(logs[0] + logs[2]) / 2, logs[3]])


def test_neighbours_that_move_with_a_member_tell_more_than_it_alone() -> None:
    rng = np.random.default_rng(2)
    member = np.stack([rng.permutation(np.arange(COUNT) % 2 == 0) for _ in range(NODES)], 1)
    truth = rng.permutation(np.arange(NODES) % 2)
    signs = member[..., None] + rng.normal(size=(COUNT, NODES, 2)) * (1.0, 1.5)
    own = truth[:, None] + rng.normal(size=(NODES, 2)) * (1.0, 1.5)
    both = log_ratio(own, signs, member)
    alone = log_ratio(own[:, :1], signs[..., :1], member)
    assert area_under_curve(truth, both) > area_under_curve(truth, alone) + 0.01
