"""Games about counts of neighbours' labels, against an adversary who knows everybody else."""

from __future__ import annotations

import numpy as np

from attacks.counts import COUNTS
from attacks.questions import CountedLabels, CountedLinks
from audits.games.base import BinaryGame, plays
from audits.games.sums import known_links, known_members
from audits.truth import Truth
from securefg.protocol.transcript import Adversary


@plays(CountedLinks, closed_form=True)
def counted_links(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask whether two nodes of one client are linked; targets as in `summed_links`."""
    return known_links(CountedLinks, truth, COUNTS, adversary, rng)


@plays(CountedLabels, closed_form=True)
def counted_labels(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask whether labels are in the counts: training nodes, and as many test nodes."""
    return known_members(CountedLabels, truth, COUNTS, adversary, rng)
