"""The channel: the one way by which private data leaves a client.

`seal` takes a host's reply, applies each private field's rule to every client's row of it, masks
what is to be masked, and books the releases. A private field without a rule raises, and nothing
leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from securefg.federation.census import without_constants
from securefg.foundation.errors import BudgetExceeded, PrivacyError, ProtocolError
from securefg.privacy.accountants import claim
from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.privacy.masking_plan import MaskedField
from securefg.privacy.noise import NoiseSource
from securefg.privacy.policy import Policy
from securefg.protocol import codec
from securefg.protocol.arrays import all_finite, num_rows
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message, Value
from securefg.secagg.committee import messages as committee_messages
from securefg.secagg.derive import MaskContext
from securefg.secagg.messages import KEY_MESSAGES
from securefg.secagg.ring import RingArray, from_ring


@dataclass(frozen=True)
class Sealed:
    """A set of fields that may leave, and what was booked for them. Encode them before the host
    goes on: an array that no rule changed is still the host's own."""

    fields: Mapping[str, Value] = field(repr=False)
    releases: list[Release]

    @property
    def body(self) -> bytes:
        """Return the fields, encoded."""
        return codec.encode_fields(self.fields)


class Masker(Protocol):
    """An object that puts the masks of the open session on rows of ring elements, in place."""

    def mask(self, rows: RingArray, numbers: list[int], context: MaskContext) -> None:
        """Add the masks of these clients to the rows of ring elements, in place."""


class Channel:
    """A host's way out. Its ledger holds the releases of this host's clients alone."""

    def __init__(
        self, policy: Policy, noise: NoiseSource, ledger: Ledger, masker: Masker | None = None
    ) -> None:
        self.policy = policy
        self._noise = noise
        self._ledger = ledger
        self._masker = masker

    def check_budget(self, releases: list[Release], turn: Turn) -> None:
        """Raise before releases that would carry any of these clients past the budget."""
        mechanisms = [release.mechanism for release in releases]
        check_budget(self.policy, self._ledger, turn.clients, mechanisms)

    def seal(
        self,
        message: Message,
        turn: Turn,
        admitted: list[Release] | None = None,
        request: Message | None = None,
    ) -> Sealed:
        """Return the reply with its rules applied, and what was booked for it.

        request   what the reply answers
        admitted  what the request may release, where its budget was checked before the host saw it;
                  nothing beside it leaves
        """
        _refuse_unsealed(message, turn)
        self._check_clients(message, turn)
        if self.policy.exact.counted:
            message = without_constants(self.policy.exact, message, request)
        private = {
            name: self._check_field(message, name, value)
            for name, value in message.values().items()
            if message.declarations[name].is_private and isinstance(value, Tensor)
        }
        message = type(message)(**{**message.values(), **private})
        releases = [self._make_release(message, name, x, turn) for name, x in private.items()]
        if admitted is None:
            self.check_budget(releases, turn)
        else:
            _refuse_beside(releases, admitted)
        protected: dict[str, Value] = {
            name: self._protect_field(message, name, x, turn) for name, x in private.items()
        }
        self._ledger.record(releases)
        return Sealed({**message.values(), **protected}, releases)

    def _check_clients(self, message: Message, turn: Turn) -> None:
        """Raise unless the first axis of every private field is the client."""
        for name, value in message.values().items():
            if not message.declarations[name].is_private or value is None:
                continue
            if not isinstance(value, Tensor) or value.shape[:1] != (len(turn.clients),):
                raise ProtocolError(
                    f"{message.kind}.{name}: the first axis must be the {len(turn.clients)} "
                    f"clients asked, found {message!r}"
                )

    def _check_field(self, message: Message, name: str, value: Tensor) -> Tensor:
        """Return the field, with 0 in place of NaN and infinity where a rule or a mask applies to
        it.

        Nothing is raised on a value before its noise: an error would tell of the data what noise
        and masks hide. A field that leaves as it is keeps such numbers, since its reader sees all
        of it: the federation then ends the run (`Federation`), and a deployed server drops the
        site.
        """
        if self._leaves_as_it_is(type(message), name) or all_finite(value):
            return value
        return value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)

    def _leaves_as_it_is(self, message: type[Message], name: str) -> bool:
        is_masked = self.policy.mask(message, name) is not None
        return not is_masked and self.policy.rule(message, name).is_bare

    def _make_release(self, message: Message, name: str, values: Tensor, turn: Turn) -> Release:
        dim, rows = values[0].numel(), num_rows(values)
        mechanism = self.policy.mechanism(type(message), name, dim, rows)
        return Release(mechanism, turn.clients, turn.round, turn.step, turn.attempt)

    def _protect_field(self, message: Message, name: str, values: Tensor, turn: Turn) -> Tensor:
        stream = (message.kind, name, turn.round, turn.step)
        masked = self.policy.mask(type(message), name)
        if masked is not None:
            return self._mask_field(masked, message, name, values, turn, stream)
        if message.declarations[name].scope == "recipients":
            raise PrivacyError(f"{message.kind}.{name} is for its recipients and has no masks")
        rule = self.policy.rule(type(message), name)
        return rule.apply(values, self._noise, turn.clients, stream)

    def _mask_field(
        self,
        masked: MaskedField,
        message: Message,
        name: str,
        values: Tensor,
        turn: Turn,
        stream: tuple[str | int, ...],
    ) -> Tensor:
        if self._masker is None:
            raise PrivacyError(f"{message.kind}.{name} is to be masked, and no session is open")
        weights = message.values().get(message.declarations[name].weight or "")
        rows = masked.encode(
            values.cpu(),
            weights if isinstance(weights, Tensor) else None,
            self._noise,
            turn.clients,
            stream,
        )
        context = mask_context(message, name, turn.round, masked, rows.shape[1])
        self._masker.mask(rows, turn.clients.numbers(), context)
        return from_ring(rows).reshape(values.shape)


def mask_context(
    message: Message | type[Message], name: str, round: int, masked: MaskedField, length: int
) -> MaskContext:
    """Return what a mask key serves: both sides must name it alike."""
    bits, recipients = masked.grid.ring.bits, masked.recipients
    constant = message.declarations[name].constant and masked.rule.is_bare
    return MaskContext(round, message.kind, name, length, bits, recipients, constant)


def check_budget(
    policy: Policy, ledger: Ledger, clients: Clients, next_releases: list[Mechanism]
) -> None:
    """Raise before the releases that would carry any of these clients past the budget."""
    if policy.budget is None:
        return
    extended = []
    for profile in ledger.profiles(clients) or [{}]:
        after = dict(profile)
        for mechanism in next_releases:
            after[mechanism] = after.get(mechanism, 0) + 1
        extended.append(after)
    after_it = claim(extended, policy.unit, policy.delta, population=policy.population)
    if after_it.epsilon > policy.budget:
        raise BudgetExceeded(
            f"the next release would bring epsilon per {policy.unit} to {after_it.epsilon:.4g}, "
            f"past privacy.budget = {policy.budget:g}"
        )


def _refuse_unsealed(message: Message, turn: Turn) -> None:
    """Raise an error if anything from data would leave beside the rules.

    A reply has no personal field, and its public ones hold no array, no word and no number but the
    round's. Keys and signatures of secure aggregation are no data.
    """
    if isinstance(message, (*KEY_MESSAGES, *committee_messages.KEY_MESSAGES)):
        return
    for name, value in message.values().items():
        scope = message.declarations[name].scope
        if scope == "personal":
            raise ProtocolError(f"{message.kind}.{name} is personal and cannot be in a reply")
        if scope == "confidential" and value is not None:
            raise PrivacyError(
                f"{message.kind}.{name} is confidential, which only keys are, and no record would "
                "keep it; declare it private(...); nothing was sent"
            )
        if scope == "public" and isinstance(value, Tensor):
            raise PrivacyError(
                f"{message.kind}.{name} is an array that a client would send as public, beside "
                "the rules; declare it private(...); nothing was sent"
            )
        if scope == "public" and value is not None and not _is_round(value, turn.round):
            raise PrivacyError(
                f"{message.kind}.{name} is public in a client's reply and is not the number of "
                "the round; declare it private(...), an array; nothing was sent"
            )


def _is_round(value: Value, round: int) -> bool:
    """Return whether a public value is the number of the round and nothing else."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == round


def _refuse_beside(releases: list[Release], admitted: list[Release]) -> None:
    """Raise where a reply holds what was not admitted, or in another size."""
    if releases == admitted:
        return
    beside = Counter(releases) - Counter(admitted)
    if beside:
        names = ", ".join(sorted(release.mechanism.field for release in beside))
        raise PrivacyError(
            f"{names}: found in a reply, or in another size, than the plan of the request has; "
            "nothing was sent"
        )
