"""The channel: the one way by which private data leaves a client.

`seal` takes a host's reply, applies each private field's rule to every client's row of it, books
the releases, and encodes. A private field without a rule raises, and nothing leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from securefg import codec
from securefg.codec import Clients
from securefg.errors import BudgetExceeded, MaskingRefused, ProtocolError
from securefg.messages import Message, Value
from securefg.privacy.accountants import claim
from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.privacy.noise import NoiseSource
from securefg.privacy.policy import Policy
from securefg.privacy.stages import num_rows


@dataclass(frozen=True)
class Turn:
    """When a message is made and for whom: names the random streams, and the ledger's entries."""

    round: int
    step: int
    clients: Clients
    attempt: int = 1


@dataclass(frozen=True)
class Sealed:
    """Bytes that may leave, and what was booked for them."""

    body: bytes
    releases: list[Release]


class Channel:
    """A host's way out. Its ledger holds the releases of this host's clients alone."""

    def __init__(self, policy: Policy, noise: NoiseSource, ledger: Ledger) -> None:
        self._policy = policy
        self._noise = noise
        self._ledger = ledger

    def seal(self, message: Message, turn: Turn) -> Sealed:
        private = {
            name: _checked(message, name, value, turn)
            for name, value in message.values().items()
            if message.declarations[name].is_private and value is not None
        }
        releases = [self._release(message, name, x, turn) for name, x in private.items()]
        check_budget(self._policy, self._ledger, [r.mechanism for r in releases])
        protected: dict[str, Value] = {
            name: self._protect(message, name, x, turn) for name, x in private.items()
        }
        self._ledger.record(releases)
        return Sealed(codec.encode_fields({**message.values(), **protected}), releases)

    def _release(self, message: Message, name: str, values: Tensor, turn: Turn) -> Release:
        rule = self._policy.rule(type(message), name)
        rows = 1 if rule.name == "plain" else num_rows(values, rule.per)
        mechanism = self._policy.mechanism(type(message), name, rows)
        return Release(mechanism, turn.clients, turn.round, turn.step, turn.attempt)

    def _protect(self, message: Message, name: str, values: Tensor, turn: Turn) -> Tensor:
        rule = self._policy.rule(type(message), name)
        stream = (message.kind, name, turn.round, turn.step)
        return rule.apply(values, self._noise, turn.clients, stream)


def check_budget(policy: Policy, ledger: Ledger, next_releases: list[Mechanism]) -> None:
    """Raise before the releases that would carry any client past the budget."""
    if policy.budget is None:
        return
    extended = []
    for profile in ledger.profiles() or [{}]:
        after = dict(profile)
        for mechanism in next_releases:
            after[mechanism] = after.get(mechanism, 0) + 1
        extended.append(after)
    after_it = claim(extended, policy.unit, policy.delta)
    if after_it.epsilon > policy.budget:
        raise BudgetExceeded(
            f"the next release would bring epsilon per {policy.unit} to {after_it.epsilon:.4g}, "
            f"past privacy.budget = {policy.budget:g}"
        )


def refuse_masking(message: type[Message], field: str) -> None:
    """Masking leaves the server nothing but a sum; a field of which it needs each value is lost."""
    if message.declarations[field].scope != "sum":
        raise MaskingRefused(
            f"{message.__name__}.{field} cannot be masked: the server needs every single value of "
            "it, and a masked field shows only the sum; noise is the defence here"
        )


def _checked(message: Message, name: str, value: Value, turn: Turn) -> Tensor:
    if not isinstance(value, Tensor) or value.shape[:1] != (len(turn.clients),):
        raise ProtocolError(
            f"{message.kind}.{name}: the first axis must be the {len(turn.clients)} clients asked, "
            f"found {message!r}"
        )
    return value
