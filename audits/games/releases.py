"""Games about releases: who trained, and which edges there are, to who knows everybody else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, CannotAttack, Place, View
from attacks.questions import KnownEdges, ReleasedOthers
from audits.closed_form import ClosedForm, membership_form
from audits.games.base import BinaryGame, plays
from audits.games.links import LinkGame
from audits.games.shared_noise import shared_sd
from audits.games.sums import SumGame, member_questions, with_and_without
from audits.known_noise import noise_on
from audits.noise_of_sums import noise_at
from audits.replay import make_replier, whole_replies
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.federation.roles import Cohort, Replies
from securefg.foundation.unique import unique_pairs
from securefg.privacy.policy import Policy
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Adversary
from securefg.runs.assembly import Experiment

M = TypeVar("M", bound=Message)
RELEASE_TARGETS = 300
NOISES, STRAYS = 5, 100
"""So many draws of noise make a typical release, and so many its spread."""


class _GivenSums(Cohort):
    """A cohort that answers every request with a known sum, by kind and field."""

    def __init__(self, policy: Policy, num_clients: int, sums: Mapping[str, Message]) -> None:
        self.num_clients, self._policy, self._sums = num_clients, policy, sums

    def ask(self, request: Message, reply: type[M], clients: Clients | None = None) -> Replies[M]:
        """Return the known sum in place of the clients' replies."""
        found = self._sums.get(reply.kind)
        if not isinstance(found, reply):
            raise CannotAttack(f"{reply.kind} is not a sum that can be made again")
        return Replies(found, Clients(((0, self.num_clients),)), ())

    def noise_stddev(self, replies: Replies[M], field: str) -> float:
        """Return the noise as in the run: it is public."""
        rule = self._policy.rule(type(replies.message), field)  # type: ignore[arg-type]
        shape = getattr(replies.message, field).shape[1:]
        return math.sqrt(self.num_clients) * rule.stddev(shape)


@dataclass(frozen=True)
class _OneRound:
    """A method of one round, so that the server's part of the run can be done again.

    templates  a client's whole replies, by kind
    layout     the private arrays among them: message, field, and one client's value
    """

    experiment: Experiment
    templates: Mapping[str, Message]
    layout: Sequence[tuple[type[Message], str, Tensor]]

    @property
    def places(self) -> list[Place]:
        return [(message.kind, name) for message, name, _ in self.layout]

    @property
    def widths(self) -> list[int]:
        return [value.numel() for _, _, value in self.layout]

    def release(self, sums: Array) -> Tensor:
        """Return what the server would release of these sums, had they no noise."""
        parts = torch.split(torch.from_numpy(sums), self.widths)
        fields: dict[str, dict[str, Tensor]] = {kind: {} for kind in self.templates}
        for (message, name, value), part in zip(self.layout, parts, strict=True):
            fields[message.kind][name] = part.reshape(1, *value.shape)
        known = {
            kind: type(template)(**{**template.values(), **fields[kind]})
            for kind, template in self.templates.items()
        }
        x = self.experiment
        cohort = _GivenSums(x.policy, x.public.num_clients, known)
        server = x.method.make_server(x.public, x.config.method, x.config.training, cohort)
        return _flatten_release(server.round(1))

    def noises(self, rng: np.random.Generator, draws: int) -> Array:
        """Return fresh noise of the sums by draw, or one row of zeros if nothing has noise."""
        left_on = noise_on(self.experiment, ())
        sds = [left_on[place].sd if place in left_on else 0.0 for place in self.places]
        scale = math.sqrt(self.experiment.public.num_clients) * np.repeat(sds, self.widths)
        return rng.normal(size=(draws if any(sds) else 1, len(scale))) * scale

    def releases(
        self, without: Array, moves: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return typical releases without each target and with it: medians over draws of noise.

        A release is no linear function of its sums, and one without noise may be nowhere near one
        with it. Each target has draws of its own. With draws in common the error of the run's own
        release would be common too, and would tell which of the two is the run's.
        """
        before, after = list[Array](), list[Array]()
        for out, move in zip(without, moves, strict=True):
            noises = self.noises(rng, NOISES)
            for found, total in ((before, out), (after, out + move)):
                found.append(np.median([self.release(total + n).numpy() for n in noises], axis=0))
        return np.stack(before), np.stack(after)

    def strays(self, sums: Array, rng: np.random.Generator) -> Array:
        """Return by draw how far fresh noise on these sums leads the release astray."""
        found: Array = np.stack([self.release(sums + n).numpy() for n in self.noises(rng, STRAYS)])
        return found - np.median(found, axis=0, keepdims=True)

    def in_sds(self, moves: Array) -> Array:
        """Return the sums' moves in standard deviations of the noise, one if there is none."""
        noises = noise_on(self.experiment, ())
        sds = [noises[place].sd if place in noises else 1.0 for place in self.places]
        scaled: Array = moves / np.repeat(sds, self.widths)
        return scaled


@plays(ReleasedOthers, closed_form=True)
def released_others(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask whether a node's label was in training, to who has the release and knows all others.

    The adversary knows all sums but for the target and the noise, and draws noise of its own to
    know what the server would have released without the target and with it. The error of one
    release is the same for all targets. It widens the interval. This needs a method of one round.
    """
    x = truth.experiment
    if x.config.training.rounds != 1 or truth.release is None:
        raise CannotAttack("the release hangs on more than one round, or there is none")
    templates = {reply.kind: reply for reply in whole_replies(truth)(x.shards[0])}
    arrays = make_replier(truth)
    again = _OneRound(x, templates, arrays(x.shards[0]))
    if not again.layout:
        raise CannotAttack("clients send nothing of their own that the release could hang on")
    numbers = _flatten_release(truth.release).numel() + sum(again.widths)
    ids, questions = member_questions(truth, rng, numbers, RELEASE_TARGETS)

    def sent(shard: Shard) -> Tensor:
        return torch.cat([value.double().flatten() for _, _, value in arrays(shard)])

    def closed(view: View) -> ClosedForm | None:
        """Return the form of the noisy sums: the release is made of them and tells no more."""
        found = [noise_at(truth, place, adversary, view) for place in again.places]
        known = [noise for noise in found if noise is not None]
        parts = np.split(moves, np.cumsum(again.widths)[:-1], axis=1)
        return membership_form(known, parts, "bounded") if len(known) == len(found) else None

    without, moves = with_and_without(truth, questions, sent)
    trains = truth.graph.split.train.numpy()[ids]
    before, after = again.releases(without, moves, rng)
    is_member, moved = trains.astype(np.int64), after - before
    strays = again.strays(without[0] + trains[0] * moves[0], rng)
    return SumGame(
        question=ReleasedOthers(ids=ids, sum_without=before, moves=moved),
        metric="AUC over training and test nodes",
        unit="label of a node",
        truth=is_member,
        # What the server makes of the noise is of no simple law: the largest of three spreads.
        shared_sd=max(
            shared_sd(is_member, rows, rng)
            for rows in (again.in_sds(moves), moved, moved @ strays.T)
        ),
        closed=closed,
        shows_noise=False,  # the noise went through what the server makes of the sums
    )


def _flatten_release(release: Message) -> Tensor:
    """Return all tensors of a release, one after the other."""
    values = release.values().values()
    return torch.cat([value.double().flatten() for value in values if isinstance(value, Tensor)])


EDGES_OF_EACH, LEAST_EDGES = 10, 5
Pairs = NDArray[np.int64]


@plays(KnownEdges)
def known_edges(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LinkGame:
    """Ask whether an edge is there, to an adversary who knows everything else.

    Targets are edges that the adversary does not hold, and as many pairs without an edge that have
    a neighbour in common, so that being near tells nothing. Prior: chance.
    """
    answers = truth.answers
    if answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    ends = truth.graph.edge_index.numpy()
    edges = unique_pairs(np.sort(ends.T[ends[0] != ends[1]], 1))
    own = [truth.experiment.shards[k].node_ids.numpy() for k in sorted(adversary.clients)]
    known = np.concatenate([*own, np.zeros(0, np.int64)])
    sides = [_unknown_pairs(pairs, known, rng) for pairs in (edges, _two_apart(edges, rng))]
    count = min(map(len, sides))
    if count < LEAST_EDGES:
        raise CannotAttack(f"{count} edges and as many pairs without; {LEAST_EDGES} are needed")
    pairs = np.concatenate([side[:count] for side in sides])
    is_linked = np.repeat(np.array([1, 0], np.int64), count)
    seen = answers.double().numpy()[pairs].reshape(len(pairs), -1)
    other = np.stack(
        [
            _turned_answers(truth, pair, bool(is_so))
            for pair, is_so in zip(pairs, is_linked, strict=True)
        ]
    )
    without = np.where(is_linked[:, None] == 1, other, seen)
    moves = np.where(is_linked[:, None] == 1, seen - other, other - seen)
    if not np.abs(moves).max() > 1e-9:
        raise CannotAttack("no answer hangs on an edge")
    order = rng.permutation(len(pairs))
    return LinkGame(
        question=KnownEdges(ids=pairs[order], sum_without=without[order], moves=moves[order]),
        metric="AUC over edges and pairs two steps apart, everything else known",
        unit="edge",
        truth=is_linked[order],
    )


def _turned_answers(truth: Truth, pair: Pairs, linked: bool) -> NDArray[np.float64]:
    """Return the answers at both ends once the edge is removed or added."""
    edges = truth.graph.edge_index
    if linked:
        there = (edges == torch.tensor(pair[:, None])).all(0)
        there |= (edges == torch.tensor(pair[::-1, None].copy())).all(0)
        turned = edges[:, ~there]
    else:
        first, second = pair.tolist()
        both = torch.tensor([[first, second], [second, first]])
        turned = torch.cat([edges, both], 1)
        turned = turned[:, (turned[0] * truth.graph.num_nodes + turned[1]).argsort()]
    found = truth.answers_on_edges(turned)
    assert found is not None
    rows: NDArray[np.float64] = found[torch.tensor(pair)].double().numpy().ravel()
    return rows


def _unknown_pairs(pairs: Pairs, known: NDArray[np.int64], rng: np.random.Generator) -> Pairs:
    return rng.permutation(pairs[~np.isin(pairs, known).all(1)])[:EDGES_OF_EACH]


def _two_apart(edges: Pairs, rng: np.random.Generator) -> Pairs:
    """Return pairs with a common neighbour and no edge."""
    both = rng.permutation(np.concatenate([edges, edges[:, ::-1]]))[: 40 * EDGES_OF_EACH]
    size = int(edges.max(initial=0)) + 1
    order = both[both[:, 0].argsort(kind="stable")]
    follow = order[:, 0][1:] == order[:, 0][:-1]
    found = np.sort(np.stack([order[:-1, 1], order[1:, 1]], 1)[follow], 1)
    found = unique_pairs(found[found[:, 0] != found[:, 1]])
    kept: Pairs = found[~np.isin(found @ [size, 1], edges @ [size, 1])]
    return kept
