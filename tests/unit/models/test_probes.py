"""Probes score held-out rows, and learn from training rows alone."""

from __future__ import annotations

import torch

from securefg.models.probes import cross_validated_f1, held_out_f1, linear_probe


def clusters(noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    stream = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    centres = torch.eye(3, 5) * 4
    return centres[labels] + noise * torch.randn(60, 5, generator=stream), labels


def test_separate_clusters_are_told_apart() -> None:
    rows, labels = clusters(0.3)
    train = torch.arange(60) < 40
    assert (linear_probe(rows, labels, train, 3).argmax(1) == labels).all()
    assert held_out_f1(rows, labels, train, ~train, 1) == {"mlp_f1": 1.0, "svc_f1": 1.0}
    assert cross_validated_f1(rows, labels, 5, 1)["svc_f1"] == 1.0


def test_labels_that_do_not_train_change_no_prediction() -> None:
    rows, labels = clusters(3.0)
    train = torch.arange(60) < 40
    lied = torch.where(train, labels, (labels + 1) % 3)
    assert torch.equal(linear_probe(rows, labels, train, 3), linear_probe(rows, lied, train, 3))
    true, false = (held_out_f1(rows, x, train, ~train, 1) for x in (labels, lied))
    assert true["svc_f1"] + false["svc_f1"] <= 1  # one prediction cannot agree with both


def test_rows_without_meaning_score_as_chance() -> None:
    rows, labels = clusters(100.0)
    assert cross_validated_f1(rows, labels, 5, 1)["svc_f1"] < 0.6


def test_rows_that_cannot_be_fitted_have_no_score() -> None:
    rows, labels = clusters(0.3)
    train, none = torch.arange(60) < 40, torch.zeros(60, dtype=torch.bool)
    assert held_out_f1(rows, labels, none, train, 1) == {}
    assert held_out_f1(rows, labels, train, none, 1) == {}
    assert held_out_f1(rows, labels, train & (labels == 1), ~train, 1) == {}
    assert cross_validated_f1(rows[:9], labels[:9], 5, 1) == {}
    assert not linear_probe(rows, labels, none, 3).any()
