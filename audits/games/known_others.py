"""Who is in a sum, to an adversary who knows everybody else: the sum without, and what each moves.

Targets are training nodes and as many test nodes, each with one holder. The method's own host is
asked as it was in round 1, with the data as they are and, for every target, with its label the
other way: in training or not. What is known of others may be read off; the attack asks for none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from attacks.base import CannotAttack, Targets
from audits.games.base import BinaryGame, choose
from audits.replay import replayed
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.protocol.meanings import Meaning

MANY_TARGETS = 100
LEAST_TARGETS = 10


def known_others(truth: Truth, need: Meaning, rng: np.random.Generator) -> BinaryGame:
    graph, partition = truth.graph, truth.experiment.partition
    if graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each")
    holders = torch.bincount(partition.nodes, minlength=graph.num_nodes)
    once = (holders == 1).numpy()
    sides = [np.flatnonzero(part.numpy() & once) for part in (graph.split.train, graph.split.test)]
    count = min(MANY_TARGETS, *map(len, sides))
    if count < LEAST_TARGETS:
        raise CannotAttack(f"{count} targets on either side; {LEAST_TARGETS} are needed")
    ids = rng.permutation(np.concatenate([choose(side, count, rng) for side in sides]))
    without, moves = _sums(truth, need, torch.from_numpy(ids))
    return BinaryGame(
        targets=Targets(ids=ids, sum_without=without, moves=moves),
        metric="AUC over training and test nodes",
        unit="label of a node",
        truth=graph.split.train.numpy()[ids].astype(np.int64),
    )


def _sums(
    truth: Truth, need: Meaning, ids: Tensor
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...]:
    """For every target, what all clients send without it, summed; and what it adds."""
    shards = truth.experiment.shards
    sent = [replayed(truth, [shard], need)[0].double() for shard in shards]
    total, without, moves = torch.stack(sent).sum(0), [], []
    for node in ids:
        (client,) = (k for k, shard in enumerate(shards) if bool((shard.node_ids == node).any()))
        other = replayed(truth, [_flipped(shards[client], node)], need)[0].double()
        trains = bool(truth.graph.split.train[node])
        move = sent[client] - other if trains else other - sent[client]
        without.append(total - move if trains else total)
        moves.append(move)
    return torch.stack(without).numpy(), torch.stack(moves).numpy()


def _flipped(shard: Shard, node: Tensor) -> Shard:
    """The client's shard with this node's label the other way: in training or not."""
    split = shard.graph.split
    train = split.train ^ (shard.node_ids == node)
    return replace(shard, graph=replace(shard.graph, split=replace(split, train=train)))
