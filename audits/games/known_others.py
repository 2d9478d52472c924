"""Sums against an adversary who knows everybody else: what is sent without a target, and with it.

The method's own host is asked as it was in round 1, once with the target as the secret says and
once as it does not. What is known of others may be read off; an attack asks for none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import CannotAttack, View
from attacks.questions import SumQuestion
from audits.closed_form import ClosedForm, membership_form
from audits.games.base import BinaryGame, choose
from audits.games.shared_noise import SumGame, shared_sd
from audits.noise_of_sums import noise_of_sum
from audits.replay import replaying
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.protocol.meanings import Meaning
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 500
LEAST_TARGETS = 10
NUMBERS = 2 * 10**7
"""So many numbers, at most, are kept of what all targets together move."""
SIZE = 4 * 10**7
"""So many nodes and links, at most, are in all hosts that are asked again."""


@dataclass(frozen=True)
class BothShards:
    """One client's shard without the secret and with it; one of them is what the client holds."""

    without: Shard
    inside: Shard


def known_members(
    asked: type[SumQuestion],
    truth: Truth,
    need: Meaning,
    adversary: Adversary,
    rng: np.random.Generator,
) -> BinaryGame:
    """Was this node's label in training? Targets are training nodes and as many test nodes."""
    ids, questions = member_questions(truth, rng, width(truth, need))
    without, moves = sums_with_and_without(truth, need, questions)
    so = truth.graph.split.train.numpy()[ids].astype(np.int64)
    return SumGame(
        question=asked(ids=ids, sum_without=without, moves=moves),
        metric="AUC over training and test nodes",
        unit="label of a node",
        truth=so,
        shared_sd=shared_sd(so, moves, rng),
        closed=lambda view: form_of_moves(truth, [need], [moves], adversary, view),
    )


def form_of_moves(
    truth: Truth,
    needs: Sequence[Meaning],
    moves: Sequence[NDArray[np.float64]],
    adversary: Adversary,
    view: View,
) -> ClosedForm | None:
    """Return the gain that the noise on these sums leaves; None where one of them has no noise of
    a known law. Only the server sees the sums themselves."""
    found = [noise_of_sum(truth, need, adversary, view) for need in needs]
    noises = [noise for noise in found if noise is not None]
    if len(noises) < len(needs):
        return None
    rows = [part.reshape(len(part), -1) for part in moves]
    return membership_form(noises, rows, "computed" if adversary.kind == "server" else "bounded")


def member_questions(
    truth: Truth, rng: np.random.Generator, numbers: int, many: int = MANY_TARGETS
) -> tuple[NDArray[np.int64], list[BothShards]]:
    """`numbers`  what is kept of every target; `many`  how many of a side there are, at most."""
    train, test = (
        np.flatnonzero(part.numpy() & held_once(truth))
        for part in (truth.graph.split.train, truth.graph.split.test)
    )
    count = affordable(truth, min(many, len(train), len(test)), numbers)
    ids = rng.permutation(np.concatenate([choose(side, count, rng) for side in (train, test)]))
    questions = []
    for node, shard in zip(ids.tolist(), holders(truth, ids), strict=True):
        other = _flipped(shard, node)
        trains = bool(truth.graph.split.train[node])
        questions.append(BothShards(other, shard) if trains else BothShards(shard, other))
    return ids, questions


def held_once(truth: Truth) -> NDArray[np.bool_]:
    """Nodes that hold one sample and are with one client."""
    if truth.graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each")
    holders = torch.bincount(truth.experiment.partition.nodes, minlength=truth.graph.num_nodes)
    found: NDArray[np.bool_] = (holders == 1).numpy()
    return found


def holders(truth: Truth, ids: NDArray[np.int64]) -> list[Shard]:
    """The shard that every node is in, of those that are with one client."""
    shards = truth.experiment.shards
    client = torch.full((truth.graph.num_nodes,), -1)
    for number, shard in enumerate(shards):
        client[shard.node_ids] = number
    return [shards[k] for k in client[torch.from_numpy(ids)].tolist()]


def affordable(truth: Truth, found: int, numbers: int) -> int:
    """How many targets of a side are asked, of those that were found."""
    shards = truth.experiment.shards
    size = sum(s.graph.num_nodes + s.graph.num_edges for s in shards) / len(shards)
    count = min(MANY_TARGETS, found, NUMBERS // (2 * numbers), int(SIZE / (2 * size)))
    if count < LEAST_TARGETS:
        raise CannotAttack(f"{count} targets on either side; {LEAST_TARGETS} are needed")
    return count


def width(truth: Truth, need: Meaning) -> int:
    return replaying(truth, need)([truth.experiment.shards[0]])[0].numel()


def sums_with_and_without(
    truth: Truth, need: Meaning, questions: Sequence[BothShards]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For every question, what all clients send without its secret, summed; and what that adds."""
    answers = replaying(truth, need)
    return with_and_without(truth, questions, lambda shard: answers([shard])[0].double())


def with_and_without(
    truth: Truth, questions: Sequence[BothShards], send: Callable[[Shard], Tensor]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    shards = truth.experiment.shards
    sent = [send(shard) for shard in shards]
    total, without, moves = torch.stack(sent).sum(0), [], []
    for asked in questions:
        own = asked.inside.client
        out, inside = (
            sent[own] if shard is shards[own] else send(shard)
            for shard in (asked.without, asked.inside)
        )
        without.append(total - sent[own] + out)
        moves.append(inside - out)
    return torch.stack(without).numpy(), torch.stack(moves).numpy()


def _flipped(shard: Shard, node: int) -> Shard:
    """The client's shard with this node's label the other way: in training or not."""
    split = shard.graph.split
    train = split.train ^ (shard.node_ids == node)
    return replace(shard, graph=replace(shard.graph, split=replace(split, train=train)))
