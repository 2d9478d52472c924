"""Games about sums, against an adversary who knows everybody but the target.

The method's own host is asked as it was in round 1, once with the target as the secret says and
once as it does not. All targets share one draw of the noise (`audits.games.shared_noise`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, CannotAttack, View
from attacks.questions import (
    SummedBoth,
    SummedFeatures,
    SummedLabels,
    SummedLinks,
    SummedMoments,
    SummedRecords,
    SumQuestion,
)
from attacks.sums import BY_CLASS, FEATURES, MOMENTS, SUMS
from audits.blind import sure_end
from audits.closed_form import ClosedForm, label_form, membership_form
from audits.games.base import BinaryGame, OutcomeGame, choose_targets, plays
from audits.games.links import LinkGame
from audits.games.shared_noise import (
    least_gain_alone,
    lower_interval,
    shared_sd,
    told_alone,
)
from audits.known_noise import noise_on
from audits.noise_of_sums import noise_of_sum
from audits.replay import make_replayer
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.foundation.interval import Interval
from securefg.protocol.meanings import Meaning, Statistic
from securefg.protocol.transcript import Adversary


@dataclass(frozen=True)
class SumGame(BinaryGame):
    """A game about members of a sum. Each target is scored as if it were asked about alone.

    in_sds       the moves in standard deviations of the noise, where sums of several sizes are read
                 together
    shows_noise  whether the scores are log likelihood ratios, so that they show the noise
    """

    in_sds: Array | None = field(default=None, kw_only=True, repr=False)
    shows_noise: bool = field(default=True, kw_only=True)

    def measure(self, guess: Array) -> Interval:
        """Return the AUC of the guess, with each target scored as if it were asked about alone."""
        self.check(guess)
        found = super().measure(self._guess_alone(guess))
        least = self._least_gain(guess)
        return lower_interval(found, None if least is None else 0.5 + least)

    def gain(self, guess: Array) -> Interval:
        """Return the gain in AUC, with each target scored as if it were asked about alone."""
        self.check(guess)
        found = super().gain(self._guess_alone(guess))
        return lower_interval(found, self._least_gain(guess))

    def sure_gain(self, guess: Array) -> float:
        """Return a gain that the guess surely had. The least gain alone is as sure by itself."""
        least = self._least_gain(guess)
        over_targets = sure_end(super().gain(self._guess_alone(guess)))
        return over_targets if least is None else min(over_targets, least)

    def _least_gain(self, guess: Array) -> float | None:
        assert isinstance(self.question, SumQuestion)
        if not self.shows_noise:
            return None
        moves = self.question.moves if self.in_sds is None else self.in_sds
        return least_gain_alone(guess, self.truth, moves)

    def _guess_alone(self, guess: Array) -> Array:
        assert isinstance(self.question, SumQuestion)
        return told_alone(guess, self.question.moves)


@dataclass(frozen=True)
class SumLinkGame(SumGame, LinkGame):
    """A game about links in a sum."""


MANY_TARGETS = 500
LEAST_TARGETS = 10
NUMBERS = 2 * 10**7
"""So many numbers, at most, are kept of what all targets together move."""
SIZE = 4 * 10**7
"""So many nodes and links, at most, are in all hosts that are asked again."""


@dataclass(frozen=True)
class BothShards:
    """A client's shard without the secret and with it. The client holds one of the two."""

    without: Shard
    inside: Shard


def known_members(
    asked: type[SumQuestion],
    truth: Truth,
    need: Meaning,
    adversary: Adversary,
    rng: np.random.Generator,
) -> BinaryGame:
    """Return a game about whether labels were in training: training and as many test nodes."""
    ids, questions = member_questions(truth, rng, meaning_width(truth, need))
    without, moves = sums_with_and_without(truth, need, questions)
    is_member = truth.graph.split.train.numpy()[ids].astype(np.int64)
    return SumGame(
        question=asked(ids=ids, sum_without=without, moves=moves),
        metric="AUC over training and test nodes",
        unit="label of a node",
        truth=is_member,
        shared_sd=shared_sd(is_member, moves, rng),
        closed=lambda view: form_of_moves(truth, [need], [moves], adversary, view),
    )


def form_of_moves(
    truth: Truth,
    needs: Sequence[Meaning],
    moves: Sequence[NDArray[np.float64]],
    adversary: Adversary,
    view: View,
) -> ClosedForm | None:
    """Return the gain that the noise on these sums leaves, or None if a sum has no noise of a known
    law.

    Only the server sees the sums themselves.
    """
    found = [noise_of_sum(truth, need, adversary, view) for need in needs]
    noises = [noise for noise in found if noise is not None]
    if len(noises) < len(needs):
        return None
    rows = [part.reshape(len(part), -1) for part in moves]
    return membership_form(noises, rows, "computed" if adversary.kind == "server" else "bounded")


def member_questions(
    truth: Truth, rng: np.random.Generator, numbers: int, many: int = MANY_TARGETS
) -> tuple[NDArray[np.int64], list[BothShards]]:
    """Return training and test nodes in random order, and each one's two shards.

    numbers is the count of numbers kept per target, and many the most targets of either side.
    """
    train, test = (
        np.flatnonzero(part.numpy() & held_once(truth))
        for part in (truth.graph.split.train, truth.graph.split.test)
    )
    count = affordable_targets(truth, min(many, len(train), len(test)), numbers)
    ids = rng.permutation(
        np.concatenate([choose_targets(side, count, rng) for side in (train, test)])
    )
    questions = []
    for node, shard in zip(ids.tolist(), find_holders(truth, ids), strict=True):
        other = _flip_label(shard, node)
        trains = bool(truth.graph.split.train[node])
        questions.append(BothShards(other, shard) if trains else BothShards(shard, other))
    return ids, questions


def held_once(truth: Truth) -> NDArray[np.bool_]:
    """Return which nodes are with one client. Raise CannotAttack if nodes hold several samples."""
    if truth.graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each")
    holders = torch.bincount(truth.experiment.partition.nodes, minlength=truth.graph.num_nodes)
    found: NDArray[np.bool_] = (holders == 1).numpy()
    return found


def find_holders(truth: Truth, ids: NDArray[np.int64]) -> list[Shard]:
    """Return the shard that has each node, for nodes that are with one client."""
    shards = truth.experiment.shards
    client = torch.full((truth.graph.num_nodes,), -1)
    for number, shard in enumerate(shards):
        client[shard.node_ids] = number
    return [shards[k] for k in client[torch.from_numpy(ids)].tolist()]


def affordable_targets(truth: Truth, available_targets: int, numbers: int) -> int:
    """Return how many targets of a side are asked, of those that were found."""
    shards = truth.experiment.shards
    size = sum(s.graph.num_nodes + s.graph.num_edges for s in shards) / len(shards)
    count = min(MANY_TARGETS, available_targets, NUMBERS // (2 * numbers), int(SIZE / (2 * size)))
    if count < LEAST_TARGETS:
        raise CannotAttack(f"{count} targets on either side; {LEAST_TARGETS} are needed")
    return count


def meaning_width(truth: Truth, need: Meaning) -> int:
    """Return how many numbers of that meaning a client sends."""
    return make_replayer(truth, need)([truth.experiment.shards[0]])[0].numel()


def sums_with_and_without(
    truth: Truth, need: Meaning, questions: Sequence[BothShards]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return by question the sum of all clients' values without its secret, and what that adds."""
    answers = make_replayer(truth, need)
    return with_and_without(truth, questions, lambda shard: answers([shard])[0].double())


def with_and_without(
    truth: Truth, questions: Sequence[BothShards], send: Callable[[Shard], Tensor]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sums without each secret, and how far each secret moves them.

    send  a function from a shard to the values that its client sends
    """
    shards = truth.experiment.shards
    sent = [send(shard) for shard in shards]
    total, without, moves = torch.stack(sent).sum(0), [], []
    for asked in questions:
        client = asked.inside.client
        out, inside = (
            sent[client] if shard is shards[client] else send(shard)
            for shard in (asked.without, asked.inside)
        )
        without.append(total - sent[client] + out)
        moves.append(inside - out)
    return torch.stack(without).numpy(), torch.stack(moves).numpy()


def _flip_label(shard: Shard, node: int) -> Shard:
    """Return the client's shard with this node's label the other way: in training or not."""
    split = shard.graph.split
    train = split.train ^ (shard.node_ids == node)
    return replace(shard, graph=replace(shard.graph, split=replace(split, train=train)))


@plays(SummedFeatures, closed_form=True)
def summed_features(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask whether a node's label is in features summed by class."""
    return known_members(SummedFeatures, truth, BY_CLASS, adversary, rng)


@plays(SummedRecords, closed_form=True)
def summed_records(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which of two feature vectors a node has: its own, or that of another node.

    A target counts as 1 where the second one is its own. Prior: chance.
    """
    once = np.flatnonzero(held_once(truth))
    count = affordable_targets(
        truth, min(MANY_TARGETS, len(once) // 2), meaning_width(truth, FEATURES)
    )
    ids = choose_targets(once, 2 * count, rng)
    has_own_record = rng.permutation(np.arange(len(ids)) % 2)
    questions = []
    for place, (node, shard) in enumerate(zip(ids.tolist(), find_holders(truth, ids), strict=True)):
        other = _with_features(shard, node, truth.graph.features[ids[place - 1]])
        questions.append(
            BothShards(other, shard) if has_own_record[place] else BothShards(shard, other)
        )
    without, moves = sums_with_and_without(truth, FEATURES, questions)
    return SumGame(
        question=SummedRecords(ids=ids, sum_without=without, moves=moves),
        metric="AUC over nodes, each with its own features or another's",
        unit="features of a node",
        truth=has_own_record,
        shared_sd=shared_sd(has_own_record, moves, rng),
        closed=lambda view: form_of_moves(truth, [FEATURES], [moves], adversary, view),
    )


def _with_features(shard: Shard, node: int, row: Tensor) -> Shard:
    """Return the client's shard with other features of this node."""
    features = torch.where((shard.node_ids == node)[:, None], row, shard.graph.features)
    return replace(shard, graph=replace(shard.graph, features=features))


@plays(SummedMoments, closed_form=True)
def summed_moments(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask whether a node's label is in summed second moments."""
    return known_members(SummedMoments, truth, MOMENTS, adversary, rng)


@plays(SummedBoth, closed_form=True)
def summed_both(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask whether a node's label is in two sums, read together."""
    asked = [make_replayer(truth, need) for need in SUMS]

    def sent(shard: Shard) -> Tensor:
        return torch.cat([answers([shard])[0].double().flatten() for answers in asked])

    widths = [meaning_width(truth, need) for need in SUMS]
    ids, questions = member_questions(truth, rng, sum(widths))
    without, moves = with_and_without(truth, questions, sent)
    is_member = truth.graph.split.train.numpy()[ids].astype(np.int64)
    in_sds = moves / np.repeat([noise_sd(truth, need) for need in SUMS], widths)
    return SumGame(
        question=SummedBoth(ids=ids, sum_without=without, moves=moves),
        metric="AUC over training and test nodes",
        unit="label of a node",
        truth=is_member,
        shared_sd=shared_sd(is_member, in_sds, rng),
        in_sds=in_sds,
        closed=lambda view: form_of_moves(
            truth, SUMS, np.split(moves, np.cumsum(widths)[:-1], axis=1), adversary, view
        ),
    )


def noise_sd(truth: Truth, need: Statistic) -> float:
    """Return the standard deviation of the noise on every number, or one if there is none."""
    noises = noise_on(truth.experiment, ())
    found = [noise.sd for place, noise in noises.items() if truth.meanings[place].fits(need)]
    return found[0] if found else 1.0


MANY_LABELS = 500


@plays(SummedLabels, closed_form=True)
def summed_labels(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    """Ask for labels in features summed by class. Prior: the most frequent label."""
    shards, classes = truth.experiment.shards, truth.graph.num_classes
    train = np.flatnonzero(truth.graph.split.train.numpy() & held_once(truth))
    count = affordable_targets(
        truth, min(MANY_LABELS, len(train)), classes * meaning_width(truth, BY_CLASS)
    )
    ids, answers = choose_targets(train, count, rng), make_replayer(truth, BY_CLASS)
    sent = [answers([shard])[0].double() for shard in shards]
    total, without, moves = torch.stack(sent).sum(0), [], []
    for node, shard in zip(ids.tolist(), find_holders(truth, ids), strict=True):
        out = answers([_without_node(shard, node)])[0].double()
        made = [answers([_with_label(shard, node, c)])[0].double() for c in range(classes)]
        without.append(total - sent[shard.client] + out)
        moves.append(torch.stack([with_label - out for with_label in made]))
    labels = truth.graph.labels.numpy()[ids]
    added = torch.stack(moves).numpy()

    def closed(view: View) -> ClosedForm | None:
        noise = noise_of_sum(truth, BY_CLASS, adversary, view)
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


def _without_node(shard: Shard, node: int) -> Shard:
    split = shard.graph.split
    train = split.train & (shard.node_ids != node)
    return replace(shard, graph=replace(shard.graph, split=replace(split, train=train)))


def _with_label(shard: Shard, node: int, label: int) -> Shard:
    labels = shard.graph.labels.masked_fill(shard.node_ids == node, label)
    return replace(shard, graph=replace(shard.graph, labels=labels))


MANY_LINKS = 300


@plays(SummedLinks, closed_form=True)
def summed_links(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask whether two nodes of one client are linked, in summed second moments.

    Targets are links and as many pairs without one: the same first node, which trains, and a second
    node of the same class as the linked one, so that classes alone tell nothing. Prior: chance. The
    model's answers for two nodes are no prior: their links make the answers, which stay with the
    client.
    """
    return known_links(SummedLinks, truth, MOMENTS, adversary, rng)


def known_links(
    asked: type[SumQuestion],
    truth: Truth,
    need: Meaning,
    adversary: Adversary,
    rng: np.random.Generator,
) -> BinaryGame:
    """Return a game about links: real ones, and as many pairs without one."""
    held_once(truth)
    link_triples = [
        triple for shard in truth.experiment.shards for triple in _link_triples(shard, rng)
    ]
    if len(link_triples) < LEAST_TARGETS:
        raise CannotAttack(f"{len(link_triples)} links; {LEAST_TARGETS} are needed")
    count = affordable_targets(
        truth, min(MANY_LINKS, len(link_triples)), meaning_width(truth, need)
    )
    chosen = [link_triples[i] for i in rng.permutation(len(link_triples))[:count]]
    pairs, is_linked, questions = [], [], []
    for shard, first, linked, other in chosen:
        for second, is_link in ((linked, 1), (other, 0)):
            pairs.append(shard.node_ids[[first, second]].numpy())
            is_linked.append(is_link)
            changed = _toggle_link(shard, first, second)
            questions.append(BothShards(changed, shard) if is_link else BothShards(shard, changed))
    without, moves = sums_with_and_without(truth, need, questions)
    order = rng.permutation(len(pairs))
    ids, truths = np.stack(pairs)[order], np.array(is_linked, np.int64)[order]
    return SumLinkGame(
        question=asked(ids=ids, sum_without=without[order], moves=moves[order]),
        metric="AUC over pairs of nodes with one client",
        unit="edge",
        truth=truths,
        shared_sd=shared_sd(truths, moves[order], rng),
        closed=lambda view: form_of_moves(truth, [need], [moves], adversary, view),
    )


def _link_triples(shard: Shard, rng: np.random.Generator) -> list[tuple[Shard, int, int, int]]:
    """Return (shard, first, linked, not linked) for every link that has such a third node."""
    graph = shard.graph
    source, target = (ends.numpy() for ends in graph.edge_index)
    once = np.flatnonzero(graph.split.train.numpy()[source] & (source != target))
    labels = graph.labels.numpy()
    by_class = {c: np.flatnonzero(labels == c) for c in np.unique(labels)}
    link_triples = []
    for edge in rng.permutation(once)[:MANY_LINKS]:
        u, v = int(source[edge]), int(target[edge])
        like: NDArray[np.int64] = rng.permutation(by_class[labels[v]])[:20]
        free = [
            int(w) for w in like if w not in (u, v) and not ((source == u) & (target == w)).any()
        ]
        if free:
            link_triples.append((shard, u, v, free[0]))
    return link_triples


def _toggle_link(shard: Shard, first: int, second: int) -> Shard:
    """Return the shard with this link added, or without it if it was there."""
    ends = shard.graph.edge_index
    here = ((ends[0] == first) & (ends[1] == second)) | ((ends[0] == second) & (ends[1] == first))
    edges = ends[:, ~here]
    if not bool(here.any()):
        edges = torch.cat([ends, torch.tensor([[first, second], [second, first]])], 1)
    return replace(shard, graph=shard.graph.with_edges(edges))
