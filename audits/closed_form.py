"""Gains that follow from the law of the noise, without sampling a run.

The adversary of the definition knows everybody but the target. On a sum with Gaussian noise of
standard deviation s, "with the target" and "without it" are two Gaussians |d| apart, d being how
far the target moves the sum. The best test for this one target has the AUC Phi(|d| / (s sqrt 2)).
The auditor knows d, so the gain over chance needs no draw of the noise. Targets are not ranked
against each other: that answers another question, since all of them share one draw of the noise.

A claim (epsilon, delta) of Gaussian noise bounds the same gain, for one unit of the claim, by
Phi(mu / sqrt 2) - 1/2, mu being the distance at which the Gaussian mechanism has this epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtr, ndtri

from attacks.base import Array, View
from audits.empirical_epsilon import mu_of_epsilon
from audits.findings.record import Basis
from securefg.foundation.interval import Interval
from securefg.foundation.roots import root_between
from securefg.privacy.accountants import Step, tightest
from securefg.privacy.discrete_gaussian import sum_gap

LABEL_DRAWS = 400


@dataclass(frozen=True)
class ClosedForm:
    """A gain of the best test, over the targets.

    gain   the mean (its interval is over the choice of targets, and its upper end includes what
           rounding and discrete noise may add)
    most   the largest gain of any target, with the same additions
    basis  computed where the adversary sees the noisy sum itself, bounded where it sees what was
           made of the sum
    """

    gain: Interval
    most: float
    basis: Basis


MakeForm = Callable[[View], ClosedForm | None]
"""From the server's view, which says how many clients' noises are in a sum; None where no form
applies."""


@dataclass(frozen=True)
class SumNoise:
    """A noise on every number of a sum.

    sd     its standard deviation
    count  how many clients' noises it is made of
    step   of the grid that values are rounded to, for discrete noise (0 for Gaussian noise)
    """

    sd: float
    count: int = 1
    step: float = 0.0

    def move_distances(self, moves: Array) -> tuple[Array, Array]:
        """Return how far every row moves the sum, in standard deviations: as it is, and at most.

        Values are rounded as floor(x + u). With the same u for both neighbours, no number moves
        by a whole step more than it does without rounding: |d| + step * sqrt(numbers that move).
        A discrete Gaussian of variance v is nearly a rounded Gaussian of variance v - 1/12.
        """
        lengths = np.linalg.norm(moves, axis=-1)
        if not self.step:
            return lengths / self.sd, lengths / self.sd
        least = math.sqrt(self.sd**2 - self.step**2 / 12)
        moved = np.sqrt((moves != 0).sum(-1))
        return lengths / self.sd, (lengths + self.step * moved) / least

    def rounding_gap(self, numbers: int) -> float:
        """Return a bound on the total variation between this noise on so many numbers and a rounded
        Gaussian: a sum of discrete Gaussians lacks `sum_gap` of being one, in logarithms."""
        if not self.step:
            return 0.0
        single = self.sd / self.step / math.sqrt(self.count)
        of_sum = math.expm1(min(numbers * sum_gap(single, self.count), 1.0))
        return min(1.0, of_sum + math.sqrt(2 * numbers * _hellinger_distance(self.sd / self.step)))


def _hellinger_distance(sd: float) -> float:
    """Return the squared Hellinger distance of N_Z(0, sd^2) and a rounded N(0, sd^2 - 1/12)."""
    reach = math.ceil(40 * sd)
    if reach > 2_000_000:  # differences are of the order sd^-4, below what doubles can tell
        return 0.0
    x = np.arange(0, reach + 1, dtype=np.float64)
    twice = np.where(x == 0, 1.0, 2.0)
    exact = np.exp(-(x**2) / (2 * sd**2))
    exact /= (twice * exact).sum()
    least = math.sqrt(sd**2 - 1 / 12)
    rounded = ndtr((0.5 - x) / least) - ndtr((-0.5 - x) / least)
    return float((twice * (np.sqrt(exact) - np.sqrt(rounded)) ** 2).sum() / 2)


def gain_of_distance(distances: Array) -> Array:
    """Return Phi(distance / sqrt 2) - 1/2, the gain of the best test between two Gaussians."""
    found: Array = ndtr(distances / math.sqrt(2)) - 0.5
    return found


def membership_form(noises: list[SumNoise], moves: list[Array], basis: Basis) -> ClosedForm:
    """Return the gain of telling whether each target is in the sums, read together.

    moves  for every sum, (targets, numbers)
    """
    pairs = [noise.move_distances(rows) for noise, rows in zip(noises, moves, strict=True)]
    exact, most = (np.sqrt(np.sum([pair[k] ** 2 for pair in pairs], axis=0)) for k in (0, 1))
    gap = sum(noise.rounding_gap(rows.shape[1]) for noise, rows in zip(noises, moves, strict=True))
    return _make_form(gain_of_distance(exact), gain_of_distance(most) + 2 * gap, basis)


def label_form(noise: SumNoise, moves: Array, prior: Array, rng: np.random.Generator) -> ClosedForm:
    """Return the gain, in labels found, over always naming the most frequent label.

    moves  (targets, labels, numbers): what each label would add to the sum
    prior  the share of every label, which the adversary knows

    The share of labels that the best guess finds grows with every distance between two labels
    (Slepian's argument: the mixed derivatives of a maximum are negative), so that stretching
    all of them by what rounding may add gives an upper bound.
    """
    stretch = np.ones(len(moves))
    for one, other in combinations(range(moves.shape[1]), 2):
        exact, most = noise.move_distances(moves[:, one] - moves[:, other])
        longer = np.divide(most, exact, out=np.ones_like(exact), where=exact > 0)
        stretch = np.maximum(stretch, longer)
    centred = (moves - moves.mean(1, keepdims=True)) / noise.sd
    gram = centred @ centred.transpose(0, 2, 1)
    draws = rng.standard_normal((len(moves), moves.shape[1], LABEL_DRAWS))
    found = _best_guess(gram, prior, draws) - prior.max()
    bound = _best_guess(gram * stretch[:, None, None] ** 2, prior, draws) - prior.max()
    return _make_form(found, bound + 2 * noise.rounding_gap(moves.shape[2]), "computed")


def _best_guess(gram: Array, prior: Array, draws: Array) -> Array:
    """Return the expected largest posterior of every target, over labels and noise.

    The log likelihood of label c under label t is z_c + gram_tc - gram_cc / 2 with z ~ N(0, gram).
    """
    sizes, vectors = np.linalg.eigh(gram)
    noise = (vectors * np.sqrt(sizes.clip(0))[:, None, :]) @ draws
    half = np.diagonal(gram, axis1=1, axis2=2)[:, :, None] / 2
    largest_posterior: Array = np.zeros(len(gram))
    for label, share in enumerate(prior):
        if share > 0:
            logs = noise + gram[:, label, :, None] - half
            weights = prior[None, :, None] * np.exp(logs - logs.max(1, keepdims=True))
            largest_posterior += share * (weights.max(1) / weights.sum(1)).mean(1)
    return largest_posterior


def _make_form(exact: Array, most: Array, basis: Basis) -> ClosedForm:
    mean = float(exact.mean())
    reach = float(ndtri(0.975)) * float(exact.std(ddof=1)) / math.sqrt(len(exact))
    high = min(float(most.mean()) + reach, 1.0)
    return ClosedForm(
        Interval(value=mean, low=mean - reach, high=max(high, mean)), float(most.max()), basis
    )


def bound_of_claim(
    epsilon: float, delta: float, steps: int = 1, *, discrete: bool = False
) -> float:
    """Return the largest gain that Gaussian noise of this claim leaves for one unit.

    steps     how many additions or removals lead from one of the two cases to the other: 1 for
              membership, 2 for a label or an attribute, which is removed with its unit and added
              anew
    discrete  the claim is of discrete noise: its epsilon is converted from zCDP, which gives a
              larger one than the exact curve of Gaussian noise at the same distance
    """
    if epsilon == 0:
        return 0.0
    mu = _mu_of_discrete(epsilon, delta) if discrete else mu_of_epsilon(epsilon, delta)
    return float(gain_of_distance(np.array(steps * mu)))


def _mu_of_discrete(epsilon: float, delta: float) -> float:
    """Return the distance, in standard deviations, of which an accountant of zCDP makes epsilon."""

    def excess(log_mu: float) -> float:
        return tightest((Step(math.exp(-log_mu), 1, discrete=True),), delta) - epsilon

    highest = math.log(mu_of_epsilon(epsilon, delta))
    return math.exp(root_between(excess, highest - 2, highest + 1e-9, xtol=1e-9))
