"""The forms of secure aggregation behind one interface: the session, and the committee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg import messages
from securefg.secagg.client import SecureClients
from securefg.secagg.committee import messages as committee_messages
from securefg.secagg.committee.clients import CommitteeClients
from securefg.secagg.committee.sealing import MemberKey, make_member_keys, read_secret, secret_file
from securefg.secagg.committee.seating import seat_committee
from securefg.secagg.committee.server import CommitteeAggregator
from securefg.secagg.derive import MaskContext
from securefg.secagg.keys import Identity, load_identities
from securefg.secagg.masking_clients import MaskingClients
from securefg.secagg.ring import RingArray
from securefg.secagg.server import Aggregator, Exchange
from securefg.settings.secagg import SecureAggregationSettings

_MESSAGES: tuple[type[Message], ...] = (*messages.MESSAGES, *committee_messages.MESSAGES)
STAGES: Final = {message.kind: message for message in _MESSAGES}


class OpenedSums(Protocol):
    """The masked replies of an ask, and the sums that they opened to."""

    @property
    def replies(self) -> Any:
        """The replies of the clients in the sum, still masked."""

    def total(self, field: str, context: MaskContext) -> RingArray:
        """Return the sum of a field in the ring."""


class SumCollector(Protocol):
    """The server's side: one ask through masks."""

    blamed: dict[int, str]

    @property
    def silences(self) -> Counter[int]:
        """How often clients kept a key closed in a dispute."""

    def collect(
        self, request: Message, reply: type[Message], clients: Clients | None, round: int
    ) -> OpenedSums:
        """Ask, and open what the sums need."""


@dataclass(frozen=True)
class Secure:
    """What the server needs to drive secure aggregation; nothing of it is secret.

    member_keys  of the committee; none in a session
    """

    settings: SecureAggregationSettings
    config_hash: str
    identities: Sequence[bytes]
    member_keys: tuple[MemberKey, ...] = ()

    @property
    def has_enclosures(self) -> bool:
        """Return whether key material travels beside masked replies."""
        return self.settings.form == "committee"

    def committee_words(self) -> str | None:
        """Return what the committee protects from; None in a session."""
        if self.settings.form != "committee":
            return None
        return seat_committee(self.settings, self.identities).in_words()


def make_collector(
    secure: Secure,
    exchange: Exchange,
    least_survivors: Mapping[str, int],
    cohorts: Mapping[str, int],
    blame: Callable[[int, str], None],
    suspect: Callable[[int, str], None],
) -> SumCollector:
    """Return the server's side of the form that the settings name."""
    about = (secure.settings, secure.config_hash, secure.identities)
    if secure.settings.form == "committee":
        return CommitteeAggregator(
            *about, secure.member_keys, exchange, least_survivors, cohorts, blame, suspect
        )
    return Aggregator(*about, exchange, least_survivors, cohorts, blame, suspect)


def make_clients(
    settings: SecureAggregationSettings,
    config_hash: str,
    identities: Mapping[int, Identity],
    roster: Sequence[bytes],
    member_keys: Sequence[MemberKey],
    folder: Path,
    least_survivors: Mapping[str, int],
    cohorts: Mapping[str, int],
    memory_file: Path | None,
    rounds: Mapping[str, int],
) -> MaskingClients:
    """Return the clients' side of the form that the settings name.

    folder  where the members among these clients keep the secrets of their keys
    """
    about = (settings, config_hash, identities, roster)
    if settings.form == "session":
        return SecureClients(
            *about, least_survivors, cohorts=cohorts, memory_file=memory_file, rounds=rounds
        )
    members = [key.member for key in member_keys if key.member in identities]
    secrets = {member: read_secret(secret_file(folder, member)) for member in members}
    return CommitteeClients(
        *about,
        member_keys,
        secrets,
        least_survivors,
        cohorts=cohorts,
        memory_file=memory_file,
        rounds=rounds,
    )


def enrol_members(
    settings: SecureAggregationSettings,
    config_hash: str,
    folder: Path,
    hosts: Mapping[str, Clients],
    roster: Sequence[bytes],
) -> tuple[MemberKey, ...]:
    """Return the signed keys of the committee's members, made where they are missing.

    In one organisation's experiment this stands for enrolment, where each member makes its own.
    """
    if settings.form == "session":
        return ()
    members = set(seat_committee(settings, roster).members)
    identities: dict[int, Identity] = {}
    for name, clients in hosts.items():
        if members & set(clients.numbers()):
            identities |= load_identities(folder / f"{name}.keys", clients)
    return member_keys_of(settings, config_hash, folder, identities, roster)


def member_keys_of(
    settings: SecureAggregationSettings,
    config_hash: str,
    folder: Path,
    identities: Mapping[int, Identity],
    roster: Sequence[bytes],
) -> tuple[MemberKey, ...]:
    """Return the members' keys, signed by these identities; none in a session."""
    if settings.form == "session":
        return ()
    committee = seat_committee(settings, roster)
    return make_member_keys(folder, committee, identities, config_hash, settings.keys)
