"""What a transfer's amount and day reveal, to an adversary who knows everything else.

A link carries numbers: the amounts and days of its transfers. They enter sums over links, or a
network that reads edges. Who knows all other records computes the client's message with either of
two candidates for one link, and takes the likelier one.
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import Array, Attack, View, not_seen
from attacks.questions import SummedTransfers, UpdatedTransfers
from attacks.sums import known_rows, likelihood_ratios, sum_likelihoods
from securefg.protocol.meanings import Statistic, Weights

SUMS_OVER_LINKS = Statistic(form="moments", edges=True)
READS_EDGES = Weights(edges=True)


def summed_transfers(view: View, question: SummedTransfers, rng: np.random.Generator) -> Array:
    """Score which of two records a link carries, in sums over links."""
    return sum_likelihoods(view, question, SUMS_OVER_LINKS)


SUMMED_TRANSFERS = Attack(
    name="summed_transfers",
    summary="which of two amounts and days a link carries, in sums over links, knowing all else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(SUMS_OVER_LINKS,),
    assumes="the sum of round 1; all other nodes and links, and two records of which one is right",
    adversaries=frozenset({"server"}),
    question=SummedTransfers,
    floor=0.2,
    expected="AUC 1.00 on sums without noise",
    exposes="how much one account sent to another, and when, if everybody else is known",
    stopped_by="noise per person or edge in the sums; masks do not",
    run=summed_transfers,
    rounds=1,
)


def updated_transfers(view: View, question: UpdatedTransfers, rng: np.random.Generator) -> Array:
    """Score which of two records a link carries, in the first update of a network."""
    without, moves = known_rows(question)
    return likelihood_ratios(first_updates(view), without, moves)


def first_updates(view: View) -> Array:
    """Return the sum of the first round's updates: opened, or of single uploads."""
    opened, plain = view.sums(READS_EDGES), view.uploads(READS_EDGES)
    readable = [message for message in plain if not message.masked]
    rounds = [message.round for message in (opened or readable)]
    if not rounds:
        raise not_seen(READS_EDGES)
    values = [m.value.double() for m in (opened or readable) if m.round == min(rounds)]
    total = values[0] if opened else torch.cat(values).sum(0)
    found: Array = total.flatten().numpy()
    return found


UPDATED_TRANSFERS = Attack(
    name="updated_transfers",
    summary="which of two amounts and days a link carries, in the first update of a network that "
    "reads edges, knowing all else",
    source="the definition of differential privacy; the client's own training is replayed",
    needs=(READS_EDGES,),
    assumes="the updates of round 1; all other nodes and links, the client's random numbers, and "
    "two records of which one is right",
    adversaries=frozenset({"server"}),
    question=UpdatedTransfers,
    floor=0.2,
    expected="AUC 1.00 on updates without noise",
    exposes="how much one account sent to another, and when, if everybody else is known",
    stopped_by="noise on the update; masks do not",
    run=updated_transfers,
    rounds=1,
)


ATTACKS = (SUMMED_TRANSFERS, UPDATED_TRANSFERS)
