from __future__ import annotations

import pytest
import torch

from securefg.data.graph import Split
from securefg.federation.evaluation import LocalScore, pool_scores, score_clients, score_locally


def test_many_clients_at_once_score_as_each_by_itself() -> None:
    stream = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 6, 3, generator=stream)
    labels = torch.randint(3, (5, 6), generator=stream)
    part = torch.randint(4, (5, 6), generator=stream)
    part[0] = 2  # a client without training and validation samples
    split = Split(part == 0, part == 1, part == 2)
    together = score_clients([3, 4, 7, 8, 9], logits, labels, split)
    for row, joint_scores in enumerate(together):
        one = score_locally(joint_scores.client, logits[row], labels[row], split[torch.tensor(row)])
        assert joint_scores.train_loss == pytest.approx(one.train_loss, rel=1e-5)
        assert joint_scores.val_loss == pytest.approx(one.val_loss, rel=1e-5)
        counts = (one.val_correct, one.val_count, one.test_correct, one.test_count)
        assert (joint_scores.val_correct, joint_scores.val_count) == counts[:2]
        assert (joint_scores.test_correct, joint_scores.test_count) == counts[2:]
        assert joint_scores.train_count == int(split.train[row].sum())
    assert [score.client for score in together] == [3, 4, 7, 8, 9]


def test_clients_that_train_nothing_do_not_dilute_the_training_loss() -> None:
    trains = LocalScore(0, 2.0, 1.0, 1, 1, 1, 1, train_count=1)
    idle = LocalScore(1, 0.0, 1.0, 1, 1, 1, 1, train_count=0)
    assert pool_scores([trains, idle, idle]).train_loss == 2.0


def test_counts_of_many_clients_are_made_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of 2,708 users must tell how often one class alone would have been right."""
    monkeypatch.setattr("securefg.federation.evaluation.MANY_CLIENTS", 3)
    logits, labels = torch.eye(3)[[0, 1, 2, 2]][:, None], torch.tensor([[0], [1], [1], [-1]])
    test = labels >= 0
    split = Split(~test & False, ~test & False, test)
    assert pool_scores(score_clients([0, 1, 2, 3], logits, labels, split)).test is None
    found = pool_scores(score_clients([0, 1, 2, 3], logits, labels, split, at_end=True)).test
    assert found is not None
    assert found.majority == pytest.approx(2 / 3)
    monkeypatch.setattr("securefg.federation.evaluation.MOST_COUNTS", 35)
    assert score_clients([0, 1, 2, 3], logits, labels, split, at_end=True)[0].test_confusion is None
