"""Which label has this training node, in features summed by class? Everybody else is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from attacks.base import Array, View
from attacks.questions import SummedLabels
from audits.closed_form import ClosedForm, label_form
from audits.games.base import OutcomeGame, choose, plays
from audits.games.known_others import affordable, held_once, holders, width
from audits.noise_of_sums import noise_of_sum
from audits.replay import replaying
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.protocol.meanings import Statistic
from securefg.protocol.transcript import Adversary

SUM = Statistic(form="by_class")
MANY_LABELS = 500


@plays(SummedLabels, closed_form=True)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    """Prior: the most frequent label."""
    shards, classes = truth.experiment.shards, truth.graph.num_classes
    train = np.flatnonzero(truth.graph.split.train.numpy() & held_once(truth))
    count = affordable(truth, min(MANY_LABELS, len(train)), classes * width(truth, SUM))
    ids, answers = choose(train, count, rng), replaying(truth, SUM)
    sent = [answers([shard])[0].double() for shard in shards]
    total, without, moves = torch.stack(sent).sum(0), [], []
    for node, shard in zip(ids.tolist(), holders(truth, ids), strict=True):
        out = answers([_without(shard, node)])[0].double()
        made = [answers([_labelled(shard, node, c)])[0].double() for c in range(classes)]
        without.append(total - sent[shard.client] + out)
        moves.append(torch.stack([with_label - out for with_label in made]))
    labels = truth.graph.labels.numpy()[ids]
    added = torch.stack(moves).numpy()

    def closed(view: View) -> ClosedForm | None:
        noise = noise_of_sum(truth, SUM, adversary, view)
        shares = np.bincount(labels, minlength=classes) / len(labels)
        rows = added.reshape(len(ids), classes, -1)
        return None if noise is None else label_form(noise, rows, shares, rng)

    return OutcomeGame(
        question=SummedLabels(ids=ids, sum_without=torch.stack(without).numpy(), moves=added),
        metric="share of labels found",
        unit="label of a node",
        truth=labels,
        outcome=_is_the_label,
        prior_guess=np.full(len(ids), np.bincount(labels).argmax()),
        closed=closed,
    )


def _is_the_label(guess: Array, truth: Array) -> Array:
    return np.equal(guess, truth).astype(np.float64)


def _without(shard: Shard, node: int) -> Shard:
    split = shard.graph.split
    train = split.train & (shard.node_ids != node)
    return replace(shard, graph=replace(shard.graph, split=replace(split, train=train)))


def _labelled(shard: Shard, node: int, label: int) -> Shard:
    labels = shard.graph.labels.masked_fill(shard.node_ids == node, label)
    return replace(shard, graph=replace(shard.graph, labels=labels))
