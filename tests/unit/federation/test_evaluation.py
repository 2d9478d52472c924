"""Scores are plain counts and means over the masks, and pooled over clients by their nodes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from securefg.data.graph import Split
from securefg.federation.evaluation import (
    LocalScore,
    Scores,
    pool_scores,
    score_locally,
    score_logits,
)

LABELS = torch.tensor([0, 1, 0, 1, 1, 0])
# Right, right, wrong, right, wrong, right; log odds of two.
LOGITS = torch.tensor([[2.0, 0], [0, 2], [0, 2], [0, 2], [2, 0], [2, 0]])
RIGHT, WRONG = math.log1p(math.exp(-2)), math.log1p(math.exp(2))


def mask(*nodes: int) -> Tensor:
    chosen = torch.zeros(6, dtype=torch.bool)
    chosen[list(nodes)] = True
    return chosen


def split(train: list[int], val: list[int], test: list[int]) -> Split:
    return Split(mask(*train), mask(*val), mask(*test))


def local(client: int, train: list[int], val: list[int], test: list[int]) -> LocalScore:
    return score_locally(client, LOGITS, LABELS, split(train, val, test))


def test_losses_and_accuracies_are_over_their_own_masks() -> None:
    found = score_logits(LOGITS, LABELS, split([0, 1], [2, 3], [3, 4, 5]))
    assert found.train_loss == pytest.approx(RIGHT, abs=1e-6)
    assert found.val_loss == pytest.approx((RIGHT + WRONG) / 2, abs=1e-6)
    assert (found.val_accuracy, found.test_accuracy) == (0.5, pytest.approx(2 / 3))


def test_empty_masks_score_zero_and_never_nan() -> None:
    assert score_logits(LOGITS, LABELS, split([], [], [])) == Scores(0.0, 0.0, 0.0, 0.0)


def test_local_scores_are_counts() -> None:
    found = local(7, [0], [2, 3], [3, 4, 5])
    assert (found.client, found.val_correct, found.val_count) == (7, 1, 2)
    assert (found.test_correct, found.test_count) == (2, 3)
    assert found.test_accuracy == pytest.approx(2 / 3)


def test_a_client_without_test_nodes_has_no_accuracy() -> None:
    assert local(0, [0], [1], []).test_accuracy is None


def test_pooled_accuracies_count_nodes_and_not_clients() -> None:
    pooled_scores = pool_scores([local(0, [0], [0], [2]), local(1, [2], [2, 3, 4], [0, 1, 3])])
    assert pooled_scores.val_accuracy == pytest.approx(2 / 4)
    assert pooled_scores.test_accuracy == pytest.approx(3 / 4)
    assert pooled_scores.val_loss == pytest.approx((2 * RIGHT + 2 * WRONG) / 4, abs=1e-6)
    assert pooled_scores.train_loss == pytest.approx((RIGHT + WRONG) / 2, abs=1e-6)


def test_clients_that_hold_everything_apart_pool_to_the_scores_of_the_union() -> None:
    whole = split([0], [1, 2], [3, 4, 5])
    parts = [[0, 1, 3], [2, 4, 5]]
    scores = []
    for client, nodes in enumerate(parts):
        ids = torch.tensor(nodes)
        scores.append(score_locally(client, LOGITS[ids], LABELS[ids], whole[ids]))
    found, wanted = pool_scores(scores), score_logits(LOGITS, LABELS, whole)
    assert found.val_accuracy == wanted.val_accuracy
    assert found.test_accuracy == wanted.test_accuracy
    assert found.val_loss == pytest.approx(wanted.val_loss, abs=1e-6)


def test_pooling_clients_without_held_out_nodes_gives_zero_and_not_nan() -> None:
    found = pool_scores([local(0, [0], [], []), local(1, [1], [], [])])
    assert (found.val_loss, found.val_accuracy, found.test_accuracy) == (0.0, 0.0, 0.0)


def test_scoring_keeps_no_gradient() -> None:
    logits = LOGITS.clone().requires_grad_()
    assert isinstance(score_logits(logits, LABELS, split([0], [1], [2])).train_loss, float)
