"""Metrics of attacks: pure functions over arrays, each with its interval, all of them fail closed.

Labels are 0 or 1, scores are finite, shares lie in [0, 1]. Anything else raises `BadMetricInput`
and names what was found, since an audit that swaps two columns or reads a percent as a share looks
private by mistake.

Pairs that share a node are not independent, so their intervals count nodes. Were nodes drawn again
with replacement, a pair would count as often as both its nodes came up together, w_i w_j. An AUC is
linear in these products to first order, sum_p f_p w_i w_j with f_p how much pair p moves it. Its
variance over draws is, for weights that are Poisson(1), sum_i (sum of f_p over i's pairs)^2 + sum_p
f_p^2. One pass gives the same as 200 draws, to a tenth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, ndtri, stdtrit

from attacks.evidence import BadMetricInput as BadMetricInput
from attacks.evidence import Floats as Floats
from attacks.evidence import checked_scores as checked_scores
from attacks.evidence import gaussian_log_ratio as gaussian_log_ratio
from securefg.foundation.interval import Interval
from securefg.foundation.ranks import average_ranks

LEAST_FALSE_POSITIVES = 10
BELOW_CHANCE_SDS = 4.0
ROUNDING = 1e-9
MANY, FEW = 5000, 30


class Unresolved(ValueError):
    """An error: the sample is too small for the metric that was asked for."""


def _make_interval(value: float, low: float, high: float, confidence: float) -> Interval:
    return Interval(value=value, low=low, high=high, confidence=confidence)


# ---------------------------------------------------------------------------------------- checks


def checked_labels(labels: ArrayLike, length: int) -> NDArray[np.bool_]:
    """Return 0/1 labels with both classes in them, as many as there are scores. Raise
    BadMetricInput otherwise."""
    label_array = np.asarray(labels)
    if label_array.shape != (length,):
        raise BadMetricInput(f"labels of shape {label_array.shape} for {length} scores")
    others = sorted({repr(v) for v in np.unique(label_array).tolist() if v not in (0, 1)})
    if others:
        raise BadMetricInput(f"labels other than 0 and 1: {', '.join(others[:5])}")
    truth = label_array.astype(bool)
    if truth.all() or not truth.any():
        raise BadMetricInput(f"all {length} labels are {int(truth[0])}; wanted both 0 and 1")
    return truth


def checked_share(value: float, name: str) -> float:
    """Return a number strictly between 0 and 1: a confidence, a false positive rate, a delta."""
    if not 0 < value < 1:
        raise BadMetricInput(f"{name}: found {value!r}, wanted 0 < {name} < 1, not a percent")
    return float(value)


def checked_fractions(values: ArrayLike, least: float = 0.0) -> Floats:
    """Return values in [least, 1]: shares, or with least = -1 gains and cosines."""
    checked_values = checked_scores(values)
    if checked_values.min() < least - ROUNDING or checked_values.max() > 1 + ROUNDING:
        raise BadMetricInput(
            f"values from {checked_values.min():g} to {checked_values.max():g}; wanted {least:g} "
            "to 1, fractions and not percents"
        )
    return checked_values


def refuse_below_chance(value: float, chance: float, null_sd: float) -> None:
    """Raise where a result lies so far below chance that a column must be swapped.

    An attack that is wrong on purpose is right when turned round: four sd of the null below
    chance means swapped labels, the wrong class column, or a score with the wrong sign.
    """
    if value < chance - BELOW_CHANCE_SDS * null_sd:
        raise BadMetricInput(
            f"{value:.4g} lies {(chance - value) / null_sd:.1f} sd below chance ({chance:.4g}): "
            "labels swapped, the wrong class column, or a score with the wrong sign"
        )


# ------------------------------------------------------------------------------------------- AUC


def area_under_curve(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return P[score of a 1 > score of a 0] + P[equal] / 2, by ranks (Mann-Whitney)."""
    values = checked_scores(scores)
    return auc_of_ranks(checked_labels(labels, values.size), average_ranks(values))


def auc_of_ranks(labels: ArrayLike, ranks: Floats) -> float:
    """Return the AUC of scores that were ranked before."""
    truth = np.asarray(labels).astype(bool)
    positives = int(truth.sum())
    rank_sum = float(ranks[truth].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * (ranks.size - positives))


def widen_interval(narrow_interval: Interval, auc: float, more_sd: float) -> Interval:
    """Return the interval of an AUC, or of its gain, with the variance of something that all scores
    share added. The added sd is `more_sd` at chance, and alike on the scale of normal quantiles
    elsewhere."""
    if more_sd <= 0:
        return narrow_interval
    place, reach = float(ndtri(auc)), float(ndtri((1 + narrow_interval.confidence) / 2)) * more_sd
    reach *= math.sqrt(2 * math.pi)
    below = math.hypot(
        narrow_interval.value - narrow_interval.low, auc - float(ndtr(place - reach))
    )
    above = math.hypot(
        narrow_interval.high - narrow_interval.value, float(ndtr(place + reach)) - auc
    )
    low, high = (
        max(narrow_interval.value - below, narrow_interval.value - auc),
        narrow_interval.value + min(above, 1 - auc),
    )
    return _make_interval(narrow_interval.value, low, high, narrow_interval.confidence)


def auc_null_sd(num_positives: int, num_negatives: int) -> float:
    """Return sqrt((n1 + n0 + 1) / (12 n1 n0)), the sd of the AUC of scores that know nothing."""
    if min(num_positives, num_negatives) < 1:
        raise BadMetricInput(f"{num_positives} positives, {num_negatives} negatives; wanted both")
    total = num_positives + num_negatives + 1
    return math.sqrt(total / (12 * num_positives * num_negatives))


def oriented_auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the AUC of an attack that is known to work. Swapped labels raise
    (`refuse_below_chance`)."""
    value, truth = area_under_curve(labels, scores), np.asarray(labels).astype(bool)
    positives = int(truth.sum())
    refuse_below_chance(value, 0.5, auc_null_sd(positives, truth.size - positives))
    return value


def auc_interval(labels: ArrayLike, scores: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the AUC and its interval by DeLong et al. 1988.

    A perfect separation has no variance to estimate. Its far end is then the Clopper-Pearson end of
    n out of n for the smaller class.
    """
    values = checked_scores(scores)
    truth = checked_labels(labels, values.size)
    value, (over, under) = area_under_curve(truth, values), value_placements(values, truth)
    sd = math.sqrt(_placement_variance(over, under))
    return _interval_around(value, sd, confidence, min(over.size, under.size))


def auc_gain_interval(
    labels: ArrayLike, attack: ArrayLike, prior: ArrayLike, confidence: float = 0.95
) -> Interval:
    """Return AUC(attack) - AUC(prior) on the same targets, by DeLong for two correlated AUCs.

    The variance is var(V10 - W10) / n1 + var(V01 - W01) / n0 over the placements of either.
    """
    first, second = checked_scores(attack), checked_scores(prior)
    if first.size != second.size:
        raise BadMetricInput(f"{first.size} attack scores beside {second.size} prior scores")
    truth = checked_labels(labels, first.size)
    value = area_under_curve(truth, first) - area_under_curve(truth, second)
    one, other = value_placements(first, truth), value_placements(second, truth)
    sd = math.sqrt(_placement_variance(one[0] - other[0], one[1] - other[1]))
    reach = float(ndtri((1 + checked_share(confidence, "confidence")) / 2)) * sd
    return _make_interval(value, max(-1.0, value - reach), min(1.0, value + reach), confidence)


def value_placements(values: Floats, truth: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return for every 1 the share of 0s below it, and for every 0 the share of 1s above. Ties
    count half."""
    ones, zeros = values[truth], values[~truth]
    ranks = average_ranks(values)
    over = (ranks[truth] - average_ranks(ones)) / zeros.size
    under = 1 - (ranks[~truth] - average_ranks(zeros)) / ones.size
    return over, under


def _placement_variance(over: Floats, under: Floats) -> float:
    if min(over.size, under.size) < 2:
        raise Unresolved(f"{over.size} positives and {under.size} negatives; wanted 2 of each")
    return float(over.var(ddof=1)) / over.size + float(under.var(ddof=1)) / under.size


def _interval_around(value: float, sd: float, confidence: float, smaller: int) -> Interval:
    reach = float(ndtri((1 + checked_share(confidence, "confidence")) / 2)) * sd
    low, high = max(0.0, value - reach), min(1.0, value + reach)
    if sd == 0 and value in (0.0, 1.0):
        end = clopper_pearson(int(value) * smaller, smaller, confidence)
        low, high = min(value, end.low), max(value, end.high)
    return _make_interval(value, low, high, confidence)


# ------------------------------------------------------------------------- counts and top places


def clopper_pearson_upper(successes: int, trials: int, alpha: float) -> float:
    """Return the p at which so few successes have probability alpha: one-sided, exact."""
    _check_counts(successes, trials)
    checked_share(alpha, "alpha")
    if successes == trials:
        return 1.0
    return float(betaincinv(successes + 1, trials - successes, 1 - alpha))


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Return the share and its exact interval, with alpha / 2 at either end."""
    alpha = (1 - checked_share(confidence, "confidence")) / 2
    high = clopper_pearson_upper(successes, trials, alpha)
    low = 1 - clopper_pearson_upper(trials - successes, trials, alpha)
    return _make_interval(successes / trials, low, high, confidence)


def _check_counts(successes: int, trials: int) -> None:
    for count in (successes, trials):
        if int(count) != count:
            raise BadMetricInput(f"{count!r} is no count; wanted a whole number")
    if not (trials >= 1 and 0 <= successes <= trials):
        raise BadMetricInput(f"{successes} successes in {trials} trials")


def precision_at_k(labels: ArrayLike, scores: ArrayLike, k: int) -> float:
    """Return the share of 1s among the k best scores. If the k-th score is tied, return the
    expectation over ties."""
    values = checked_scores(scores)
    truth = checked_labels(labels, values.size)
    if not 1 <= k <= values.size:
        raise BadMetricInput(f"k = {k}; wanted 1 to {values.size}")
    last = np.partition(values, values.size - k)[values.size - k]
    above, tied = values > last, values == last
    room = k - int(above.sum())
    return float(truth[above].sum() + room * truth[tied].mean()) / k


def tpr_at_fpr(
    labels: ArrayLike, scores: ArrayLike, fpr: float, confidence: float = 0.95
) -> Interval:
    """Return the share of 1s above the lowest threshold that at most a share `fpr` of the 0s
    passes.

    Raise Unresolved unless fpr * negatives >= 10: below that the threshold depends on a few
    negatives.
    """
    values = checked_scores(scores)
    truth = checked_labels(labels, values.size)
    zeros = values[~truth]
    allowed = checked_share(fpr, "fpr") * zeros.size
    if allowed < LEAST_FALSE_POSITIVES - 1e-9:
        raise Unresolved(
            f"TPR at FPR {fpr:g} wants {math.ceil(LEAST_FALSE_POSITIVES / fpr)} negatives, "
            f"found {zeros.size}"
        )
    # The first negative that must stay out is the threshold; positives have to pass it.
    threshold = np.sort(zeros)[::-1][min(math.floor(allowed + 1e-9), zeros.size - 1)]
    return clopper_pearson(int((values[truth] > threshold).sum()), int(truth.sum()), confidence)


def top1_accuracy(answers: ArrayLike, scores: ArrayLike) -> float:
    """Return the share of rows whose best column is the answer. Ties for the best share the
    point."""
    table, wanted = np.asarray(scores, dtype=np.float64), np.asarray(answers)
    if table.ndim != 2 or table.size == 0:
        raise BadMetricInput(f"scores of shape {table.shape}; wanted targets by candidates")
    checked_scores(table.reshape(-1))
    if wanted.shape != table.shape[:1] or not np.issubdtype(wanted.dtype, np.integer):
        raise BadMetricInput(
            f"answers of shape {wanted.shape} and type {wanted.dtype} for {len(table)} rows; "
            "wanted one column number each"
        )
    if wanted.min() < 0 or wanted.max() >= table.shape[1]:
        raise BadMetricInput(
            f"answers from {wanted.min()} to {wanted.max()}; there are {table.shape[1]} columns"
        )
    best = table == table.max(1, keepdims=True)
    return float((best[np.arange(len(table)), wanted] / best.sum(1)).mean())


# ------------------------------------------------------------------------------------- bootstrap


def bootstrap_mean(
    values: ArrayLike,
    seed: int,
    confidence: float = 0.95,
    draws: int = 2000,
    least: float = -1.0,
) -> Interval:
    """Return the mean of shares, gains or cosines, with the percentile interval of seeded redraws.
    Redraws cannot leave a few values, so Student's interval counts if it is wider."""
    checked_values = checked_fractions(values, least)
    if checked_values.size < 2:
        raise Unresolved("one value has no spread to redraw; wanted 2 or more")
    tail = 100 * (1 - checked_share(confidence, "confidence")) / 2
    if checked_values.size > MANY:  # redrawing would agree with the normal law to the third digit
        reach = (
            -float(ndtri(tail / 100))
            * float(checked_values.std(ddof=1))
            / math.sqrt(checked_values.size)
        )
        mean = float(checked_values.mean())
        return _make_interval(mean, mean - reach, mean + reach, confidence)
    rng = np.random.default_rng(seed)
    means = checked_values[
        rng.integers(checked_values.size, size=(draws, checked_values.size))
    ].mean(1)
    low, high = np.percentile(means, [tail, 100 - tail])
    mean = float(checked_values.mean())
    if checked_values.size < FEW:
        student = float(stdtrit(checked_values.size - 1, 1 - tail / 100))
        reach = student * float(checked_values.std(ddof=1)) / math.sqrt(checked_values.size)
        low, high = min(float(low), mean - reach), max(float(high), mean + reach)
    return _make_interval(mean, max(float(low), least), min(float(high), 1.0), confidence)


def paired_gain(
    attack: ArrayLike, prior: ArrayLike, seed: int, confidence: float = 0.95, draws: int = 2000
) -> Interval:
    """Return the mean over targets of attack - prior, both shares in [0, 1], bootstrapped in
    pairs."""
    first, second = checked_fractions(attack, -1.0), checked_fractions(prior, -1.0)
    if first.size != second.size:
        raise BadMetricInput(f"{first.size} attack values beside {second.size} prior values")
    halved = bootstrap_mean((first - second) / 2, seed, confidence, draws)
    return _make_interval(2 * halved.value, 2 * halved.low, 2 * halved.high, confidence)


Pairs = NDArray[np.int64]


def pair_gain(
    truth: NDArray[np.int64], scores: Floats, prior: Floats | None, pairs: Pairs
) -> Interval:
    """Return AUC(scores) - AUC(prior), or - 0.5 without a prior, over pairs (n, 2) of nodes."""
    value, moves = _place_pairs(truth, scores)
    chance = 0.5
    if prior is not None:
        chance, of_prior = _place_pairs(truth, prior)
        moves = moves - of_prior
    value -= chance
    reach = float(ndtri(0.975)) * _pair_spread(moves, truth, pairs)
    low, high = max(-1.0, value - reach), min(1.0, value + reach)
    if reach == 0 and prior is None and abs(value) == 0.5:  # a perfect separation has no spread
        count = len(np.unique(pairs[truth == 1]))
        end = clopper_pearson(count if value > 0 else 0, count)
        low, high = min(value, end.low - 0.5), max(value, end.high - 0.5)
    return Interval(value=value, low=low, high=high)


def pair_auc(truth: NDArray[np.int64], scores: Floats, pairs: Pairs) -> Interval:
    """Return the AUC over pairs (n, 2) of nodes, with an interval over nodes."""
    gain = pair_gain(truth, scores, None, pairs)
    return Interval(
        value=gain.value + 0.5, low=max(0.0, gain.low + 0.5), high=min(1.0, gain.high + 0.5)
    )


def _place_pairs(truth: NDArray[np.int64], scores: Floats) -> tuple[float, Floats]:
    """Return the AUC, and by how much every pair moves it if it counts once more."""
    ones = truth == 1
    over, under = value_placements(checked_scores(scores), ones)
    value = float(over.mean())
    moves = np.zeros(len(truth))
    moves[ones] = (over - value) / len(over)
    moves[~ones] = (under - value) / len(under)
    return value, moves


def _pair_spread(moves: Floats, truth: NDArray[np.int64], pairs: Pairs) -> float:
    ones = int(truth.sum())
    if min(ones, len(truth) - ones) < 2:  # nothing is known of the spread: the whole range then
        return 1.0
    by_node = np.bincount(pairs.ravel(), np.repeat(moves, 2))
    return math.sqrt(float((by_node**2).sum() + (moves**2).sum()))
