"""Checks of replies from peers that may lie. Every figure that a run reports depends on them.

A peer can always send wrong numbers of the right kind: its part of a sum is its own. It cannot end
the run of the others, book what its policy does not say, or pass for somebody else. A peer that
breaks the rules is named, and counts as dropped out.
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


def due_releases(policy: Policy, reply: type[Message], fields: Fields, turn: Turn) -> list[Release]:
    """Return what the policy books for a reply, whatever its sender claims."""
    releases_due = []
    for name, value in fields.items():
        if reply.declarations[name].is_private and isinstance(value, Stored):
            like = torch.empty(tuple(value.shape), device="meta")
            mechanism = policy.mechanism(reply, name, like[0].numel(), num_rows(like))
            releases_due.append(
                Release(mechanism, turn.clients, turn.round, turn.step, turn.attempt)
            )
    return releases_due


def check_claims(claimed: list[Release], due: list[Release]) -> None:
    """Raise ProtocolError if the claimed releases are not those that are due."""
    if Counter(claimed) != Counter(due):
        raise ProtocolError("it claims other releases than its message has in it")


def check_finite(reply: type[Message], fields: Fields) -> None:
    """Raise ProtocolError if an array of a reply has a number that is not finite."""
    for name, value in fields.items():
        if isinstance(value, Stored) and not all_finite(value):
            raise ProtocolError(f"{reply.kind}.{name} has numbers that are not finite")


def odd_ones(messages: Mapping[str, Fields]) -> dict[str, str]:
    """Return the replies that differ from most, among replies that must agree (shapes, kinds,
    scalars).

    If two kinds came from equally many hosts, nobody can tell who is wrong: all of them are odd, so
    that no host can pass its own kind off as the usual one.
    """
    reason_of_host: dict[str, str] = {}
    names = {name for fields in messages.values() for name in fields}
    for name in sorted(names):
        kinds = {host: _shown_kind(fields.get(name)) for host, fields in messages.items()}
        (usual, most), *others = Counter(kinds.values()).most_common()
        if any(count == most for _, count in others):
            reason = f"{name}: hosts sent different kinds, and no kind came from most of them"
            reason_of_host |= dict.fromkeys(kinds, reason)
            continue
        reason_of_host |= {
            host: f"{name}: {kind}, where most sent {usual}"
            for host, kind in kinds.items()
            if kind != usual
        }
    return reason_of_host


def _shown_kind(value: Any) -> str:
    if isinstance(value, Stored):
        return f"{value.dtype} {list(value.shape[1:])}"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({sha256(text.encode()).hexdigest()})"
