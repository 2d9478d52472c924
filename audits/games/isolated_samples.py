"""What are single samples of clients? As `trained_samples`, with the better of two priors.

Of dense samples many random directions come nearer to one than other clients' samples do. A guess
that is noise must not gain by that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attacks.questions import IsolatedSamples
from audits.games.base import plays
from audits.games.samples import TrainedSampleGame, nearest_of_padded
from audits.games.samples import trained_samples as trained_samples
from audits.truth import Truth
from securefg.protocol.transcript import Adversary


@plays(IsolatedSamples)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> TrainedSampleGame:
    game = trained_samples(truth, adversary, rng)
    random = rng.normal(size=game.prior_guess.shape)
    priors = (game.prior_guess, random)
    best = max(priors, key=lambda guess: float(nearest_of_padded(guess, game.truth).mean()))
    return replace(game, prior_guess=best)
