"""Is a node's label in two sums, read together? The adversary knows all other nodes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attacks.questions import SummedBoth
from attacks.summed_both import SUMS
from audits.games.base import BinaryGame, plays
from audits.games.known_others import form_of_moves, member_questions, width, with_and_without
from audits.games.shared_noise import SumGame, shared_sd
from audits.known_noise import noise_on
from audits.replay import replaying
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.protocol.meanings import Statistic
from securefg.protocol.transcript import Adversary


@plays(SummedBoth, closed_form=True)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    asked = [replaying(truth, need) for need in SUMS]

    def sent(shard: Shard) -> Tensor:
        return torch.cat([answers([shard])[0].double().flatten() for answers in asked])

    widths = [width(truth, need) for need in SUMS]
    ids, questions = member_questions(truth, rng, sum(widths))
    without, moves = with_and_without(truth, questions, sent)
    so = truth.graph.split.train.numpy()[ids].astype(np.int64)
    in_sds = moves / np.repeat([noise_sd(truth, need) for need in SUMS], widths)
    return SumGame(
        question=SummedBoth(ids=ids, sum_without=without, moves=moves),
        metric="AUC over training and test nodes",
        unit="label of a node",
        truth=so,
        shared_sd=shared_sd(so, in_sds, rng),
        closed=lambda view: form_of_moves(
            truth, SUMS, np.split(moves, np.cumsum(widths)[:-1], axis=1), adversary, view
        ),
    )


def noise_sd(truth: Truth, need: Statistic) -> float:
    """Of the noise on every number; one where there is none."""
    noises = noise_on(truth.experiment, ())
    found = [noise.sd for place, noise in noises.items() if truth.meanings[place].fits(need)]
    return found[0] if found else 1.0
