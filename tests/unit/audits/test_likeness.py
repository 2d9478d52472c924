"""A gain that may be a shift between members and others says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from audits.foreign import ForeignTruth
from audits.games.likeness import likeness_scores
from audits.games.trained_members import trained_members
from audits.metrics import area_under_curve
from securefg.protocol.transcript import Adversary
from tests.unit.audits.foreign_networks import Convolutions, write_record

Samples = tuple[np.ndarray, np.ndarray]


def draw_sides(shift: float, count: int = 200) -> tuple[np.ndarray, ...]:
    """Samples of four classes, whose members are shifted."""
    rng = np.random.default_rng(0)
    labels, is_member = np.arange(count) % 4, rng.random(count) < 0.5
    samples = rng.normal(size=(count, 6)) + shift * is_member[:, None]
    return samples.astype(np.float32), labels, np.zeros(count, np.int64), is_member


@pytest.mark.parametrize(("shift", "low", "high"), [(0.0, 0.3, 0.58), (1.0, 0.9, 1.0)])
def test_likeness_of_shifted_members_tells_them_apart(
    shift: float, low: float, high: float
) -> None:
    sides = draw_sides(shift)
    found = area_under_curve(sides[-1].astype(int), likeness_scores(*sides))
    assert low < found <= high


def write_writers(path: Path) -> Path:
    """Record two clients with unlike digits. The truth has digits that nobody trained on, of the
    same writers: digits lie in the order of their writers."""
    flat, labels = load_digits(return_X_y=True)
    images = (flat / 16).reshape(-1, 1, 8, 8).astype(np.float32)
    rng = np.random.default_rng(0)

    def halves(start: int) -> tuple[Samples, Samples]:
        rows = start + rng.permutation(400)
        return (images[rows[:200]], labels[rows[:200]]), (images[rows[200:]], labels[rows[200:]])

    sides = [halves(0), halves(400)]
    outside = (images[900:1700], labels[900:1700])
    torch.manual_seed(0)
    write_record(path, Convolutions(), [sides[0][0], sides[1][0], outside], rounds=2)
    for name, part in (("truth.npz", 0), ("labels.npz", 1)):
        arrays = {str(client): asked[part] for client, (_, asked) in enumerate(sides)}
        np.savez(path / "private" / name, **arrays)
    return path


def metric_of(path: Path) -> str:
    truth = ForeignTruth.from_path(path)
    return trained_members(truth, Adversary.parse("server"), np.random.default_rng(0)).metric


def test_shift_of_members_is_told_beside_the_gain(tmp_path: Path) -> None:
    """An attack gains here, and nobody trained on a sample that is asked about."""
    assert "samples alone tell" in metric_of(write_writers(tmp_path / "x"))


def test_members_of_one_distribution_are_told_without_a_doubt(tmp_path: Path) -> None:
    flat, labels = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(600).reshape(3, 200)
    images = (flat / 16).reshape(-1, 1, 8, 8).astype(np.float32)
    torch.manual_seed(0)
    write_record(tmp_path / "x", Convolutions(), [(images[part], labels[part]) for part in rows])
    assert "samples alone" not in metric_of(tmp_path / "x")
