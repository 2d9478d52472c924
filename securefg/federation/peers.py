"""What is checked of replies where the peers may lie: every figure that a run reports stands on it.

A peer can always send wrong numbers of the right kind; its part of a sum is its own. What it cannot
do is to end the run of the others, to book what its policy does not say, or to pass for somebody
else. Who sent what breaks the rules is named, and counts as dropped out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch

from securefg.foundation.errors import ProtocolError
from securefg.privacy.ledger import Release
from securefg.privacy.policy import Policy
from securefg.protocol.arrays import Stored, all_finite, num_rows
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message

Fields = Mapping[str, Any]
SHOWN = 60


def due(policy: Policy, reply: type[Message], fields: Fields, turn: Turn) -> list[Release]:
    """What the policy books for a reply, whatever its sender claims."""
    found = []
    for name, value in fields.items():
        if reply.declarations[name].is_private and isinstance(value, Stored):
            like = torch.empty(tuple(value.shape), device="meta")
            mechanism = policy.mechanism(reply, name, like[0].numel(), num_rows(like))
            found.append(Release(mechanism, turn.clients, turn.round, turn.step, turn.attempt))
    return found


def check_claims(claimed: list[Release], due: list[Release]) -> None:
    if Counter(claimed) != Counter(due):
        raise ProtocolError("it claims other releases than its message has in it")


def check_finite(reply: type[Message], fields: Fields) -> None:
    for name, value in fields.items():
        if isinstance(value, Stored) and not all_finite(value):
            raise ProtocolError(f"{reply.kind}.{name} has numbers that are not finite")


def odd_ones(messages: Mapping[str, Fields]) -> dict[str, str]:
    """Of replies that must agree (shapes, kinds, scalars), those that differ from most."""
    found: dict[str, str] = {}
    names = {name for fields in messages.values() for name in fields}
    for name in sorted(names):
        kinds = {host: _kind(fields.get(name)) for host, fields in messages.items()}
        usual = Counter(kinds.values()).most_common(1)[0][0]
        found |= {
            host: f"{name}: {kind}, where most sent {usual}"
            for host, kind in kinds.items()
            if kind != usual
        }
    return found


def _kind(value: Any) -> str:
    if isinstance(value, Stored):
        return f"{value.dtype} {list(value.shape[1:])}"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({sha256(text.encode()).hexdigest()})"
