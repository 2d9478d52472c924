"""Was this node's label in training, to somebody who has the release and knows everybody else?

Of a method of one round the server's part can be done again: from the sums as they are without a
target and with it, what would the server have released, had there been no noise?
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from attacks.base import CannotAttack, Targets, View
from audits.closed_form import ClosedForm, membership_form
from audits.games.base import BinaryGame
from audits.games.known_others import member_questions, with_and_without
from audits.games.shared_noise import SumGame, shared_sd
from audits.known_noise import noise_on
from audits.noise_of_sums import noise_at
from audits.replay import replying, whole_replies
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.federation.roles import Cohort, Replies
from securefg.privacy.policy import Policy
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Adversary

M = TypeVar("M", bound=Message)
MANY_TARGETS = 300
CLOSED_FORM = True


class _GivenSums(Cohort):
    """Answers every request with a sum that is known, by kind and field."""

    def __init__(self, policy: Policy, num_clients: int, sums: Mapping[str, Message]) -> None:
        self.num_clients, self._policy, self._sums = num_clients, policy, sums

    def ask(self, request: Message, reply: type[M], clients: Clients | None = None) -> Replies[M]:
        found = self._sums.get(reply.kind)
        if not isinstance(found, reply):
            raise CannotAttack(f"{reply.kind} is not a sum that can be made again")
        return Replies(found, Clients(((0, self.num_clients),)), ())

    def noise_stddev(self, replies: Replies[M], field: str) -> float:
        """As in the run: it is public."""
        rule = self._policy.rule(type(replies.message), field)  # type: ignore[arg-type]
        shape = getattr(replies.message, field).shape[1:]
        return math.sqrt(self.num_clients) * rule.stddev(shape)


def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    x = truth.experiment
    if x.config.training.rounds != 1 or truth.release is None:
        raise CannotAttack("the release hangs on more than one round, or there is none")
    templates = {reply.kind: reply for reply in whole_replies(truth)(x.shards[0])}
    layout = replying(truth)(x.shards[0])
    if not layout:
        raise CannotAttack("clients send nothing of their own that the release could hang on")
    released = sum(v.numel() for v in truth.release.values().values() if isinstance(v, Tensor))
    numbers = released + sum(value.numel() for _, _, value in layout)
    ids, questions = member_questions(truth, rng, numbers, MANY_TARGETS)

    def sent(shard: Shard) -> Tensor:
        return torch.cat([value.double().flatten() for _, _, value in replying_once(shard)])

    replying_once = replying(truth)
    without, moves = with_and_without(truth, questions, sent)

    def release(sums: Tensor) -> Tensor:
        fields: dict[str, dict[str, Tensor]] = {kind: {} for kind in templates}
        start = 0
        for message, name, value in layout:
            part = sums[start : start + value.numel()].reshape(1, *value.shape)
            fields[message.kind][name] = part
            start += value.numel()
        known = {
            kind: type(template)(**{**template.values(), **fields[kind]})
            for kind, template in templates.items()
        }
        cohort = _GivenSums(x.policy, x.public.num_clients, known)
        server = x.method.make_server(x.public, x.config.method, x.config.training, cohort)
        return _flat(server.round(1))

    trains = truth.graph.split.train.numpy()[ids]
    actual = release(torch.from_numpy(without[0] + trains[0] * moves[0]))  # without any change
    pairs = [
        (release(torch.from_numpy(out)), actual)
        if inside
        else (actual, release(torch.from_numpy(out + move)))
        for out, move, inside in zip(without, moves, trains, strict=True)
    ]
    so = trains.astype(np.int64)
    noises = noise_on(x, ())
    sds = [noises[m.kind, name].sd if (m.kind, name) in noises else 1.0 for m, name, _ in layout]
    in_sds = moves / np.repeat(sds, [value.numel() for _, _, value in layout])
    places = [(message.kind, name) for message, name, _ in layout]
    parts = np.split(moves, np.cumsum([value.numel() for _, _, value in layout])[:-1], axis=1)

    def closed(view: View) -> ClosedForm | None:
        """The release is made of the noisy sums, and tells no more than they do."""
        found = [noise_at(truth, place, adversary, view) for place in places]
        known = [noise for noise in found if noise is not None]
        return membership_form(known, parts, "bounded") if len(known) == len(places) else None

    out = torch.stack([after - before for before, after in pairs]).numpy()
    return SumGame(
        targets=Targets(
            ids=ids,
            sum_without=torch.stack([before for before, _ in pairs]).numpy(),
            moves=out,
        ),
        metric="AUC over training and test nodes",
        unit="label of a node",
        truth=so,
        # What the server makes of the noise is of no simple law: the larger of two spreads.
        shared_sd=max(shared_sd(so, moved, rng) for moved in (in_sds, out)),
        closed=closed,
    )


def _flat(release: Message) -> Tensor:
    """All tensors of a release, one after the other."""
    values = release.values().values()
    return torch.cat([value.double().flatten() for value in values if isinstance(value, Tensor)])
