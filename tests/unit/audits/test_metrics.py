"""Metrics agree with what can be computed by hand, and refuse what would mislead."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from audits import metrics
from audits.metrics import BadMetricInput, Unresolved
from securefg.foundation.interval import Interval


def drawn(seed: int, gap: float = 1.0, each: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = np.concatenate([rng.normal(gap, 1, each), rng.normal(0, 1, each)])
    return np.repeat([1, 0], each), scores


# ------------------------------------------------------------------------------------------- AUC


def test_auc_counts_ties_half() -> None:
    assert metrics.area_under_curve([1, 0, 1, 0], [2, 1, 1, 0]) == pytest.approx(3.5 / 4)
    labels, scores = drawn(0)
    rounded = np.round(scores)
    assert metrics.area_under_curve(labels, rounded) == pytest.approx(
        roc_auc_score(labels, rounded)
    )


def test_null_sd_is_the_spread_of_permuted_labels() -> None:
    labels, scores = drawn(1, each=60)
    rng = np.random.default_rng(2)
    values = [metrics.area_under_curve(rng.permutation(labels), scores) for _ in range(2000)]
    assert np.std(values) == pytest.approx(metrics.auc_null_sd(60, 60), rel=0.06)
    assert metrics.auc_null_sd(60, 60) == pytest.approx((121 / (12 * 3600)) ** 0.5)


def test_delong_interval_covers_the_true_auc_as_often_as_it_says() -> None:
    truth = float(norm.cdf(1 / 2**0.5))
    found = [metrics.auc_interval(*drawn(seed, each=80)) for seed in range(300)]
    covered = np.mean([e.low <= truth <= e.high for e in found])
    assert 0.92 <= covered <= 0.98


def test_a_perfect_auc_still_has_an_interval() -> None:
    found = metrics.auc_interval([1] * 20 + [0] * 30, [1.0] * 20 + [0.0] * 30)
    assert found.value == found.high == 1
    assert found.low == pytest.approx(0.025 ** (1 / 20))


def test_delong_variance_is_the_spread_over_redrawn_samples() -> None:
    gains, widths = [], []
    for seed in range(300):
        labels, attack = drawn(seed, each=100)
        prior = attack + np.random.default_rng(seed + 10_000).normal(0, 1, attack.size)
        found = metrics.auc_gain_interval(labels, attack, prior)
        gains.append(found.value)
        widths.append((found.high - found.low) / (2 * 1.95996))
    assert np.mean(widths) == pytest.approx(np.std(gains), rel=0.1)


def test_a_gain_over_oneself_is_nothing() -> None:
    labels, scores = drawn(3)
    found = metrics.auc_gain_interval(labels, scores, 2 * scores + 1)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    opposite = metrics.auc_gain_interval(labels, scores, -scores)
    assert opposite.low > 0 or opposite.high < 0


# ----------------------------------------------------------------------------------- other metrics


def test_precision_at_k_breaks_ties_fairly() -> None:
    assert metrics.precision_at_k([1, 0, 0, 1], [3, 2, 2, 2], 1) == 1
    # The second place is tied between one 1 and two 0s.
    assert metrics.precision_at_k([1, 0, 0, 1], [3, 2, 2, 2], 2) == pytest.approx((1 + 1 / 3) / 2)
    constant = metrics.precision_at_k([1, 0, 0, 0], [5, 5, 5, 5], 1)
    assert constant == pytest.approx(0.25)


def test_tpr_at_fpr_counts_positives_above_the_allowed_negatives() -> None:
    negatives, positives = np.arange(1000.0), np.array([989.5, 988.5, 2000, 0.5])
    labels = np.concatenate([np.zeros(1000), np.ones(4)])
    found = metrics.tpr_at_fpr(labels, np.concatenate([negatives, positives]), 0.01)
    assert found.value == 0.5  # ten negatives lie above 989.5, which is allowed
    assert found.low < 0.5 < found.high


def test_tpr_is_refused_where_too_few_negatives_decide() -> None:
    labels = np.concatenate([np.zeros(999), np.ones(10)])
    with pytest.raises(Unresolved, match="wants 1000 negatives, found 999"):
        metrics.tpr_at_fpr(labels, np.arange(1009.0), 0.01)


def test_a_constant_score_has_no_true_positives_at_a_low_rate() -> None:
    labels = np.concatenate([np.zeros(1000), np.ones(10)])
    assert metrics.tpr_at_fpr(labels, np.ones(1010), 0.01).value == 0


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.30850), (5, 10, 0.18709, 0.81291), (10, 10, 0.69150, 1.0)],
)
def test_clopper_pearson_has_the_tables_values(
    successes: int, trials: int, low: float, high: float
) -> None:
    found = metrics.clopper_pearson(successes, trials)
    assert found.low == pytest.approx(low, abs=1e-5)
    assert found.high == pytest.approx(high, abs=1e-5)


def test_bootstrap_interval_is_seeded_and_covers_the_mean() -> None:
    covered = 0
    for seed in range(200):
        values = np.random.default_rng(seed).uniform(0, 1, 60)
        found = metrics.bootstrap_mean(values, seed, draws=200)
        assert found == metrics.bootstrap_mean(values, seed, draws=200)
        covered += found.low <= 0.5 <= found.high
    assert 0.9 <= covered / 200 <= 0.985


def test_many_values_take_the_normal_law() -> None:
    values = np.random.default_rng(0).uniform(0, 1, 5001)
    many, few = metrics.bootstrap_mean(values, 0), metrics.bootstrap_mean(values[:-1], 0)
    assert many.low == pytest.approx(few.low, abs=5e-4)
    assert many.high == pytest.approx(few.high, abs=5e-4)


def test_paired_gain_uses_the_pairs() -> None:
    rng = np.random.default_rng(1)
    prior = rng.uniform(0, 0.9, 50)
    found = metrics.paired_gain(prior + 0.1, prior, seed=0)
    assert found.low == pytest.approx(0.1)
    assert found.high == pytest.approx(0.1)


def test_top1_shares_the_point_among_ties() -> None:
    table = [[0.1, 0.9, 0.0], [1, 1, 0], [0, 0, 1]]
    assert metrics.top1_accuracy([1, 0, 0], table) == pytest.approx((1 + 0.5 + 0) / 3)


def test_figures_are_what_findings_take() -> None:
    labels, scores = drawn(4)
    for measured_interval in (
        metrics.auc_interval(labels, scores),
        metrics.auc_gain_interval(labels, scores, -scores),
        metrics.bootstrap_mean(labels, 0),
    ):
        assert isinstance(measured_interval, Interval)
        assert measured_interval.low <= measured_interval.value <= measured_interval.high


# ---------------------------------------------------------------------------------- refused inputs


@pytest.mark.parametrize(
    ("labels", "scores", "says"),
    [
        ([0, 2, 1], [1, 2, 3], "other than 0 and 1: 2"),
        ([0, -1, 1], [1, 2, 3], "other than 0 and 1: -1"),
        ([1, 1, 1], [1, 2, 3], "all 3 labels are 1"),
        ([0, 1], [1, 2, 3], r"labels of shape \(2,\) for 3 scores"),
        ([0, 1, 1], [1, np.nan, 3], "1 of 3 scores are NaN"),
        ([0, 1, 1], [1, np.inf, 3], "1 of 3 scores are NaN or infinite"),
        ([], [], "not empty"),
    ],
)
def test_bad_labels_and_scores_raise_with_what_was_found(
    labels: list[int], scores: list[float], says: str
) -> None:
    with pytest.raises(BadMetricInput, match=says):
        metrics.area_under_curve(labels, scores)
    with pytest.raises(BadMetricInput, match=says):
        metrics.auc_interval(labels, scores)
    with pytest.raises(BadMetricInput, match=says):
        metrics.precision_at_k(labels, scores, 1)


def test_scores_in_the_place_of_labels_are_refused() -> None:
    labels, scores = drawn(5)
    with pytest.raises(BadMetricInput, match="other than 0 and 1"):
        metrics.area_under_curve(scores, labels)


def test_a_swapped_label_column_is_caught() -> None:
    labels, scores = drawn(6)
    assert metrics.oriented_auc(labels, scores) > 0.7
    with pytest.raises(BadMetricInput, match="labels swapped"):
        metrics.oriented_auc(1 - labels, scores)


def test_permuted_labels_are_not_taken_for_swapped_ones() -> None:
    labels, scores = drawn(7)
    rng = np.random.default_rng(0)
    for _ in range(200):
        metrics.oriented_auc(rng.permutation(labels), scores)


def test_a_percent_for_a_fraction_is_caught() -> None:
    with pytest.raises(BadMetricInput, match="fractions and not percents"):
        metrics.bootstrap_mean([81.5, 79.0], seed=0)
    with pytest.raises(BadMetricInput, match="fractions and not percents"):
        metrics.paired_gain([81.5, 79.0], [0.5, 0.5], seed=0)
    with pytest.raises(BadMetricInput, match="not a percent"):
        metrics.clopper_pearson(5, 10, confidence=95)
    with pytest.raises(BadMetricInput, match="not a percent"):
        metrics.tpr_at_fpr([0, 1], [0, 1], fpr=1.0)
    with pytest.raises(BadMetricInput, match="no count"):
        metrics.clopper_pearson(0.5, 10)  # type: ignore[arg-type]
    with pytest.raises(BadMetricInput, match="11 successes in 10 trials"):
        metrics.clopper_pearson(11, 10)


def test_wrong_class_columns_are_refused() -> None:
    with pytest.raises(BadMetricInput, match="there are 2 columns"):
        metrics.top1_accuracy([1, 2], [[0, 1], [0, 1]])
    with pytest.raises(BadMetricInput, match="float"):
        metrics.top1_accuracy([0.5, 0.5], [[0, 1], [0, 1]])


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(BadMetricInput, match="3 attack values beside 2"):
        metrics.paired_gain([0, 1, 1], [0, 1], seed=0)
    with pytest.raises(BadMetricInput, match="3 attack scores beside 2"):
        metrics.auc_gain_interval([0, 1, 1], [0, 1, 2], [0, 1])


# ------------------------------------------------------------------------------------------- LiRA


def lira_auc(in_law: object, out_law: object) -> float:
    """Members are spread widely on both sides of where non-members lie close together."""
    rng = np.random.default_rng(8)
    values = np.concatenate([rng.normal(0, 3, 2000), rng.normal(0, 1, 2000)])
    scores = in_law(values, 0, 3) - out_law(values, 0, 1)  # type: ignore[operator]
    return metrics.area_under_curve(np.repeat([1, 0], 2000), scores)


def test_lira_is_a_ratio_of_densities() -> None:
    values = np.linspace(-3, 3, 7)
    found = metrics.gaussian_log_ratio(values, 1.0, 2.0, -1.0, 0.5)
    assert found == pytest.approx(norm.logpdf(values, 1, 2) - norm.logpdf(values, -1, 0.5))


def test_a_logcdf_for_a_logpdf_is_caught() -> None:
    """The ratio of distribution functions misses half of the members, and another test knows."""
    values = np.linspace(-3, 3, 7)
    right = metrics.gaussian_log_ratio(values, 1.0, 2.0, -1.0, 0.5)
    wrong = norm.logcdf(values, 1, 2) - norm.logcdf(values, -1, 0.5)
    assert np.abs(right - wrong).max() > 1
    floor = 0.75
    assert lira_auc(norm.logpdf, norm.logpdf) > floor
    assert lira_auc(norm.logcdf, norm.logcdf) < floor


def test_lira_wants_a_positive_sd() -> None:
    with pytest.raises(BadMetricInput, match="sd: found 0"):
        metrics.gaussian_log_ratio([1.0], 0.0, 0.0, 0.0, 1.0)
