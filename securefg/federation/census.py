"""Both sides of exact sums: what a channel leaves out of replies, and what a census gives back.

A method sees neither. Its hosts reply as in any run, and its server reads the same sums and means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol, TypeVar

import torch
from torch import Tensor

from securefg.federation.roles import Replies, State, require_replies
from securefg.foundation.errors import PrivacyError
from securefg.privacy.policy import Policy
from securefg.privacy.sums import ExactSums
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Holdings, Size
from securefg.protocol.messages import Message, census_of

M = TypeVar("M", bound=Message)
CENSUS: Final = "census."
"""Names of censuses in a checkpoint begin so."""


class Ask(Protocol):
    """A function that sends a request to clients, by default to all, and gathers their replies."""

    def __call__(self, request: Message, reply: type[M], clients: Clients | None) -> Replies[M]: ...


# --------------------------------------------------------------------------------------- client


def without_constants(exact: ExactSums, reply: M, request: Message | None) -> M:
    """Return the reply as it may leave: without its constants and what they would give away.

    Values are multiplied by weights that are left out, rows lack the number that follows from the
    others, and rows with too few holders are 0.
    """
    constants = exact.constants(type(reply))
    if not constants:
        return reply
    values, left_out = reply.values(), dict.fromkeys(constants)
    sent = {
        name: _as_sent(exact, reply, name, value, request)
        for name, value in values.items()
        if isinstance(value, Tensor) and name not in left_out
    }
    return type(reply)(**{**values, **sent, **left_out})


def _as_sent(
    exact: ExactSums, reply: Message, name: str, value: Tensor, request: Message | None
) -> Tensor:
    declared, constants = reply.declarations[name], exact.constants(type(reply))
    full = f"{type(reply).__name__}.{name}"
    weights = getattr(reply, declared.weight) if declared.weight in constants else None
    if isinstance(weights, Tensor):
        start = exact.relative_to.get(full)
        change = value if start is None else value - getattr(request, start).to(value)
        value = weights.to(value).reshape(-1, *[1] * (value.dim() - 1)) * change
    if full in exact.shortened:
        value = value[..., :-1]
    if declared.holders in constants:
        rows = None if request is None else summable_rows_of(request)
        if rows is None:
            raise PrivacyError(f"{full}: rows were asked for without a count of holders")
        value = value.masked_fill(~rows.to(value.device)[:, None], 0)
    return value.contiguous()


def summable_rows_of(request: Message) -> Tensor | None:
    """Return the rows that a request lets into sums, or None if it does not say."""
    name = _limit_of(type(request))
    return None if name is None else getattr(request, name)


def _limit_of(request: type[Message]) -> str | None:
    declared = request.declarations.items()
    return next((name for name, d in declared if d.limits_rows), None)


# --------------------------------------------------------------------------------------- server


class Censuses:
    """A record of the constants that were counted, and of the asks that they stand around.

    ask  sends a request as it is and gathers the replies, through masks where there are any
    """

    def __init__(self, policy: Policy, ask: Ask) -> None:
        self._policy, self._ask = policy, ask
        self._counted: dict[str, State] = {}
        self._share_summed: float | None = None

    def ask(
        self, request: Message, reply: type[M], clients: Clients | None, round: int
    ) -> Replies[M]:
        """Ask for what the policy lets leave, and give back all that a server may read. Constants
        are counted before the first ask, over all clients."""
        exact = self._policy.exact
        if not exact.constants(reply):
            return self._ask(request, reply, clients)
        if reply.kind not in self._counted:
            self._counted[reply.kind] = self._take_census(reply, round)
        census = self._counted[reply.kind]
        asked = with_summable_rows(request, reply, census, self._policy.min_holders)
        replies = self._ask(asked, reply, clients)
        rows = summable_rows_of(asked)
        if rows is not None:
            self._share_summed = float(rows.float().mean())
        return with_constants(exact, replies, reply, asked, census)

    def _take_census(self, reply: type[Message], round: int) -> State:
        census = census_of(reply)
        assert census is not None
        replies = self._ask(census.asked_in(round), census.reply, None)
        return count_replies(require_replies(replies, round))

    def state(self) -> State:
        """Return all that was counted: it is not counted again after a restart."""
        return {
            f"{CENSUS}{kind}/{name}": total
            for kind, census in self._counted.items()
            for name, total in census.items()
        }

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        for key, total in state.items():
            kind, _, name = key.removeprefix(CENSUS).partition("/")
            self._counted.setdefault(kind, {})[name] = total

    def facts(self) -> dict[str, float]:
        """Return figures for the summary: the share of nodes whose rows may be summed."""
        share = self._share_summed
        return {} if share is None else {"share_of_nodes_released": share}


def count_replies(replies: Replies[M]) -> State:
    """Return the sums of a census. Sizes and holders are whole numbers."""
    counted_sums: State = {}
    assert replies.message is not None
    for name, value in replies.message.values().items():
        if isinstance(value, Tensor):
            total, means = replies.sum(name), replies.message.declarations[name].means
            counted_sums[name] = total.round() if isinstance(means, Size | Holdings) else total
    return counted_sums


def with_summable_rows(
    request: M, reply: type[Message], census: Mapping[str, Tensor], min_holders: int
) -> M:
    """Return the request with the rows that have enough holders, unless it names rows already."""
    name = _limit_of(type(request))
    counts = {d.holders for d in reply.declarations.values()} & census.keys()
    if name is None or not counts or getattr(request, name) is not None:
        return request
    (holders,) = counts
    enough = census[str(holders)].flatten() >= min_holders
    return type(request)(**{**request.values(), name: enough})


def with_constants(
    exact: ExactSums,
    replies: Replies[M],
    reply: type[M],
    request: Message,
    census: Mapping[str, Tensor],
) -> Replies[M]:
    """Return the replies with all that was left out of them restored from the census."""
    rows = summable_rows_of(request)
    constants = dict(census)
    for name in census:
        if rows is not None and reply.declarations[name].rows is not None:
            constants[name] = census[name] * rows[:, None]
    sums = {
        name: _restore_last_column(total, constants[str(reply.declarations[name].holders)])
        if f"{reply.__name__}.{name}" in exact.shortened
        else total
        for name, total in replies.sums.items()
    }
    starts = {
        name: getattr(request, start)
        for name in reply.declarations
        if (start := exact.relative_to.get(f"{reply.__name__}.{name}")) is not None
    }
    return replace(replies, sums=sums, constants=constants, starts=starts)


def _restore_last_column(summed: Tensor, holders: Tensor) -> Tensor:
    """Add the last column: a row's numbers add up to the count of its holders, all of whom are in
    the sum."""
    last = (holders - summed.sum(-1, keepdim=True)).clamp_min(0)
    return torch.cat([summed, last], -1)
