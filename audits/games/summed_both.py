"""Is a node's label in two sums, read together? The adversary knows all other nodes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attacks.base import Targets
from attacks.summed_both import SUMS
from audits.games.base import BinaryGame
from audits.games.known_others import member_questions, width, with_and_without
from audits.replay import replaying
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.protocol.transcript import Adversary


def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    asked = [replaying(truth, need) for need in SUMS]

    def sent(shard: Shard) -> Tensor:
        return torch.cat([answers([shard])[0].double().flatten() for answers in asked])

    ids, questions = member_questions(truth, rng, sum(width(truth, need) for need in SUMS))
    without, moves = with_and_without(truth, questions, sent)
    return BinaryGame(
        targets=Targets(ids=ids, sum_without=without, moves=moves),
        metric="AUC over training and test nodes",
        unit="label of a node",
        truth=truth.graph.split.train.numpy()[ids].astype(np.int64),
    )
