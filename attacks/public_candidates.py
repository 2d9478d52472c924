"""Which record of a list is of the node behind an uploaded row of a public node?"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.decoders import RIDGE_ROUNDS, decoder_pairs, ridge_decoded
from attacks.questions import PublicCandidates
from securefg.protocol.meanings import NodeRows

PUBLIC_ROWS = NodeRows(index="public")


def public_candidates(view: View, question: PublicCandidates, rng: np.random.Generator) -> Array:
    """Score every record of the pool for every row by what a ridge decoder reads in the row.

    The decoder is taught by nodes whose rows and records are known. A record fits as well as it
    agrees with the decoded one beyond the mean of the known records, both scaled by how much each
    entry varies.
    """
    pairs = decoder_pairs(view, question, RIDGE_ROUNDS)
    decoded = ridge_decoded(pairs.known, pairs.rest, pairs.wanted)
    known = question.known.astype(np.float64)
    spread = known.var(0) + known.var()
    found: Array = (decoded / spread) @ (question.candidates - known.mean(0)).T
    return found


PUBLIC_CANDIDATES = Attack(
    name="public_candidates",
    summary="which of some hundred records is of a public node, from its uploaded row",
    source="a ridge decoder learnt from auxiliary pairs, then a rank for every candidate",
    needs=(PUBLIC_ROWS,),
    assumes="one client's uploaded rows or their sum; the records of some public nodes from "
    "elsewhere; a pool with the node's record in it",
    adversaries=frozenset({"server"}),
    question=PublicCandidates,
    floor=0.05,
    expected="ranks of 0.6 to 0.8 of the pool: rows hold a neighbourhood and not one record",
    exposes="which person of a known list an uploaded row is about",
    stopped_by="noise on the rows; fewer numbers per row; masks do not",
    run=public_candidates,
    rounds=RIDGE_ROUNDS,
)

ATTACKS = (PUBLIC_CANDIDATES,)
