"""What are the numbers of a node's record? As `node_features`; dense records entry by entry.

A cosine that is cut off at zero favours a random guess over the mean of dense rows. Here an entry
counts where it is right to within a tenth of its spread, for which the mean is the best guess that
knows nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array
from attacks.questions import RecordEntries
from audits.games.base import OutcomeGame, plays
from audits.games.features import node_features as node_features
from audits.games.features import resembles
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

NEAR = 0.1


@plays(RecordEntries)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    game = node_features(truth, adversary, rng)
    if game.outcome is not resembles:
        return game
    near = NEAR * truth.features().std(0)

    def right(guess: Array, rows: NDArray[np.float32]) -> Array:
        found: Array = (np.abs(guess - rows) <= near).mean(1)
        return found

    return replace(game, metric="share of a record's entries found", outcome=right)
