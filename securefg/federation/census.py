"""Both sides of exact sums: what a channel leaves out of replies, and what a census gives back.

A method sees neither. Its hosts reply as in any run, and its server reads the same sums and means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from securefg.federation.roles import Replies
from securefg.foundation.errors import PrivacyError
from securefg.privacy.sums import ExactSums
from securefg.protocol.meanings import Holdings, Size
from securefg.protocol.messages import Message

M = TypeVar("M", bound=Message)


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
    """Return the rows that a request lets into sums; None where it does not say."""
    name = _limit_of(type(request))
    return None if name is None else getattr(request, name)


def _limit_of(request: type[Message]) -> str | None:
    declared = request.declarations.items()
    return next((name for name, d in declared if d.limits_rows), None)


# --------------------------------------------------------------------------------------- server


def counted(replies: Replies[Message]) -> dict[str, Tensor]:
    """Return the sums of a census; sizes and holders are whole numbers."""
    found = {}
    for name, value in ({} if replies.message is None else replies.message.values()).items():
        if isinstance(value, Tensor):
            total, means = replies.sum(name), replies.message.declarations[name].means
            found[name] = total.round() if isinstance(means, Size | Holdings) else total
    return found


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
        name: _restored(total, constants[str(reply.declarations[name].holders)])
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


def _restored(summed: Tensor, holders: Tensor) -> Tensor:
    """Add the last column: a row's numbers add up to the count of its holders, all of whom are in
    the sum."""
    last = (holders - summed.sum(-1, keepdim=True)).clamp_min(0)
    return torch.cat([summed, last], -1)
