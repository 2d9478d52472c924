"""Intervals are Student's, and a verdict says no more than the numbers do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from papers.statistics import Estimate, estimate, verdict


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_intervals_are_those_of_scipy(count: int) -> None:
    values = np.random.default_rng(count).normal(70, 3, count)
    mean_estimate = estimate(values.tolist())
    low, high = stats.t.interval(0.95, count - 1, values.mean(), stats.sem(values))
    assert mean_estimate.half_width is not None
    assert mean_estimate.mean - mean_estimate.half_width == pytest.approx(low)
    assert mean_estimate.mean + mean_estimate.half_width == pytest.approx(high)
    assert mean_estimate.count == count


def test_an_interval_by_hand() -> None:
    # t_{.975, 1} = 12.706 and s = sqrt 2: 12.706 * sqrt 2 / sqrt 2.
    assert estimate([1.0, 3.0]).half_width == pytest.approx(12.7062047)


def test_one_seed_has_no_interval() -> None:
    assert estimate([4.0]).half_width is None


@pytest.mark.parametrize(
    ("ours", "paper", "interval", "said"),
    [
        (82.0, 83.0, None, "within 1.5 points"),
        (81.5, 83.0, None, "within 1.5 points"),
        (81.49, 83.0, None, "below"),
        (84.51, 83.0, None, "above"),
        (51.0, 54.2, 3.69, "within the paper's interval"),
        (50.0, 54.2, 3.69, "below"),
        (93.2, 93.4, 0.1, "within 1.5 points"),
        (99.0, 93.4, 0.1, "above"),
    ],
)
def test_verdicts(ours: float, paper: float, interval: float | None, said: str) -> None:
    assert verdict(Estimate(ours, None, 1), paper, interval, 1.5, "within 1.5 points") == said


@pytest.mark.parametrize(
    ("half", "interval", "said"),
    [
        (4.1, None, "below, within our interval"),
        (3.9, None, "below"),
        (3.1, 1.0, "below, intervals meet"),
        (2.9, 1.0, "below"),
    ],
)
def test_a_verdict_says_where_intervals_meet(
    half: float, interval: float | None, said: str
) -> None:
    assert verdict(Estimate(79.0, half, 5), 83.0, interval, 1.5, "within 1.5 points") == said
