"""Whose row is whose, among some hundred candidates? Scored by where the true one is ranked.

A guess is a score for every candidate. The outcome is the share of the other candidates that the
true one is ranked above, ties by half: chance has a half, and the mean is the AUC of telling the
true row from another. Noise that makes the first place hopeless still leaves ranks to measure.
Prior: for whoever knows the graph, how well a candidate fits to what known rows tell of their
neighbours'; chance for everybody else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from attacks.base import Array, CannotAttack
from attacks.questions import CandidateRows
from audits.games.base import OutcomeGame, choose, plays
from audits.games.kriging import KNOWN_SHARE, Kriged, known_apart, kriged
from audits.known_graph import known_edges
from audits.truth import Truth
from securefg.foundation.ranks import row_ranks
from securefg.protocol.transcript import Adversary

MANY_CANDIDATES = 300
TOP = 10
UNSEEN = 1e-3
"""Variance granted to entries that no known row has, in squares of the largest."""


@dataclass(frozen=True)
class CandidateGame(OutcomeGame):
    """Beside the mean rank: the first places, how ranks are spread, and the mean rank by what the
    guess says beyond the prior, which is added to it."""

    def extras(self, guess: Array) -> dict[str, float]:
        ranks = percentiles(guess, self.truth)
        own = guess[np.arange(len(guess)), self.truth]
        above = (guess > own[:, None]).sum(1)
        tied = (guess == own[:, None]).sum(1)
        low, middle, high = np.quantile(ranks, [0.1, 0.5, 0.9])
        return {
            "candidates": float(guess.shape[1]),
            "first": float(((above == 0) / tied).mean()),
            "among_the_first_ten": float((above < TOP).mean()),
            "evidence_alone": float(percentiles(guess - self.prior_guess, self.truth).mean()),
            "percentile_10": float(low),
            "percentile_50": float(middle),
            "percentile_90": float(high),
        }


@plays(CandidateRows)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> CandidateGame:
    if truth.graph.features.dim() != 2:
        raise CannotAttack("nodes hold several samples each; there is no one row to find")
    if int(truth.experiment.partition.sizes.max()) > 1:
        raise CannotAttack("clients hold several nodes each: an upload is not of one row")
    features = truth.features()
    others = np.setdiff1d(np.flatnonzero(np.abs(features).sum(1)), sorted(adversary.clients))
    most = max(2, int((1 - KNOWN_SHARE) * len(others)))
    wanted = choose(others, min(MANY_CANDIDATES, most), rng)
    order = rng.permutation(len(wanted))
    known, edges = known_apart(others, wanted, rng), known_edges(truth, adversary)
    prior = np.zeros((len(wanted), len(wanted)))
    if edges is not None and len(known):
        rows = features[known].astype(np.float64)
        told = kriged(rows, known, wanted, edges, len(features))
        prior = neighbours_say(rows, told, features[wanted[order]].astype(np.float64))
    return CandidateGame(
        question=CandidateRows(ids=wanted, candidates=features[wanted[order]]),
        metric="share of the other candidates ranked below the true row",
        unit="row",
        truth=np.argsort(order),
        outcome=percentiles,
        prior_guess=prior,
    )


def percentiles(guess: Array, truth: NDArray[np.int64]) -> Array:
    """For every target the share of other candidates below the true one, ties by half."""
    own = guess[np.arange(len(guess)), truth][:, None]
    below, tied = (guess < own).sum(1), (guess == own).sum(1) - 1
    found: Array = (below + tied / 2) / (guess.shape[1] - 1)
    return found


def neighbours_say(rows: Array, told: Kriged, candidates: Array) -> Array:
    """How well every candidate fits to what is told of a target, as a log likelihood ratio.

    Fits are ranked, and ranks are normal scores times the separation d' = sqrt(2) ndtri(AUC) that
    known rows show among themselves: the ratio of two normals that far apart.
    """
    mean = rows.mean(0)
    spread = np.square(rows - told.known).mean(0) + UNSEEN * np.abs(rows).max() ** 2

    def fits(guess: Array, of: Array) -> Array:
        found: Array = ((guess - mean) / spread) @ (of - mean).T
        return found

    shown = percentiles(fits(told.known, rows), np.arange(len(rows))).mean()
    apart = math.sqrt(2) * float(ndtri(np.clip(shown, 0.5, 1 - 1 / len(rows))))
    ranks = row_ranks(fits(told.wanted, candidates))
    weighed: Array = apart * ndtri((ranks - 0.5) / len(candidates))
    return weighed
