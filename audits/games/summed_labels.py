"""Which label has this training node, in features summed by class? Everybody else is known.

Every target is asked about with a label: its own, or another, by a fair coin.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attacks.base import Targets
from audits.games.base import BinaryGame, choose
from audits.games.known_others import Question, affordable, held_once, holders, known_sums, width
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.protocol.meanings import Statistic
from securefg.protocol.transcript import Adversary

SUM = Statistic(form="by_class")
MANY_LABELS = 1000


def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    train = np.flatnonzero(truth.graph.split.train.numpy() & held_once(truth))
    ids = choose(
        train, 2 * affordable(truth, min(MANY_LABELS, len(train)) // 2, width(truth, SUM)), rng
    )
    so = rng.permutation(np.arange(len(ids)) % 2)
    labels, classes = truth.graph.labels.numpy()[ids], truth.graph.num_classes
    shown = np.where(so == 1, labels, (labels + rng.integers(1, classes, len(ids))) % classes)
    out, questions = [], []
    for node, label, shard in zip(ids.tolist(), shown.tolist(), holders(truth, ids), strict=True):
        out.append(Question(_without(shard, node), shard))
        questions.append(Question(_without(shard, node), _labelled(shard, node, label)))
    without, _ = known_sums(truth, SUM, out)
    _, moves = known_sums(truth, SUM, questions)
    return BinaryGame(
        targets=Targets(ids=ids, sum_without=without, moves=moves),
        metric="AUC over true and other labels",
        unit="label of a node",
        truth=so.astype(np.int64),
    )


def _without(shard: Shard, node: int) -> Shard:
    split = shard.graph.split
    train = split.train & (shard.node_ids != node)
    return replace(shard, graph=replace(shard.graph, split=replace(split, train=train)))


def _labelled(shard: Shard, node: int, label: int) -> Shard:
    labels = shard.graph.labels.masked_fill(shard.node_ids == node, label)
    return replace(shard, graph=replace(shard.graph, labels=labels))
