"""The server's side of the committee form: one ask, then three short exchanges with the members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from securefg.foundation.errors import RoundAborted
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg.committee.complaints import Complaint, Complaints
from securefg.secagg.committee.member import pledge_statement
from securefg.secagg.committee.messages import (
    Inspect,
    Inspected,
    OpenedMasks,
    OpenMasks,
    Pledge,
    Pledged,
)
from securefg.secagg.committee.sealing import (
    BOX_BYTES,
    DIGEST_BYTES,
    MemberKey,
    box_digest,
    committee_session,
    enclosed_digest,
    upload_statement,
)
from securefg.secagg.committee.seating import Committee, seat_committee
from securefg.secagg.derive import MaskContext
from securefg.secagg.encoding import Item
from securefg.secagg.errors import AskedBefore, BadSignature
from securefg.secagg.hybrid import CIPHERTEXT_BYTES, X25519_BYTES
from securefg.secagg.keys import verify
from securefg.secagg.ring import Ring, RingArray, from_bytes, to_bytes, to_ring
from securefg.secagg.rules import Rules
from securefg.secagg.statements import request_hash
from securefg.settings.secagg import SecureAggregationSettings

Exchange = Callable[[Message, type[Any], Clients | None], Any]
Tell = Callable[[int, str], None]


@dataclass(frozen=True)
class OpenedByCommittee:
    """The reply of every client in the sum, still masked, and the way to the sum of its masks."""

    replies: Any
    survivors: tuple[int, ...]
    masks: Callable[[str, MaskContext], RingArray]

    def total(self, field: str, context: MaskContext) -> RingArray:
        """Return the clients' sum in the ring."""
        ring = Ring(context.modulus_bits)
        rows = getattr(self.replies.message, field).numpy().view(ring.dtype)
        total: RingArray = rows.reshape(len(rows), -1).sum(0, dtype=ring.dtype)
        total -= self.masks(field, context)
        return total


class CommitteeAggregator:
    """Runs one opening per ask.

    blame    takes a client's number and what it sent
    suspect  takes the number of a member that disagrees with its group
    cohorts  how many clients are to be asked for each kind of message
    """

    def __init__(
        self,
        settings: SecureAggregationSettings,
        config_hash: str,
        identities: Sequence[bytes],
        member_keys: Sequence[MemberKey],
        exchange: Exchange,
        least_survivors: Mapping[str, int] | None = None,
        cohorts: Mapping[str, int] | None = None,
        blame: Tell = lambda client, reason: None,
        suspect: Tell = lambda client, reason: None,
    ) -> None:
        self._settings, self._config = settings, config_hash.encode()
        self._identities, self._exchange = identities, exchange
        self._committee = seat_committee(settings, identities)
        self._keys, self._tell, self._suspect = tuple(member_keys), blame, suspect
        self._rules = Rules(settings, len(identities), least_survivors or {}, cohorts or {}, {})
        self.blamed: dict[int, str] = {}
        self._complaints = Complaints(self.blamed)
        self.silences: Counter[int] = Counter()  # there are no disputes in this form

    def collect(
        self, request: Message, reply: type[Message], clients: Clients | None, round: int
    ) -> OpenedByCommittee:
        """Ask every client once, and let the committee agree on who is in the sum."""
        try:
            replies = self._exchange(request, reply, self._trusted_clients(clients))
        except AskedBefore as refusal:
            raise RoundAborted(f"secure aggregation: {refusal}; nothing was unmasked") from refusal
        replies = self._whole_ones(replies)
        self._require_count(
            replies.count, self._rules.least_planned(reply.kind), "clients answered"
        )
        enclosed = Enclosed.of(replies.enclosed, self._committee)
        about = (self._keys, self._identities, self._config, round, reply.kind)
        session = committee_session(*about, request_hash(request))
        numbers = replies.clients.numbers()
        digests = [enclosed.digest(row) for row in range(len(numbers))]
        shown = enclosed.inspection_request(reply.kind, request_hash(request), numbers)
        good, members = self._inspect_boxes(shown, numbers, (session, digests))
        self._require_count(
            len(good), self._rules.least_planned(reply.kind), "clients sealed seeds"
        )
        replies = _only_rows(replies, good)
        survivors = tuple(replies.clients.numbers())
        digest = dict(zip(numbers, digests, strict=True))
        about_list = pledge_statement(session, survivors, digest)
        signers, signatures = self._collect_pledges(survivors, members, about_list)

        def sum_masks(field: str, context: MaskContext) -> RingArray:
            return self._sum_masks(field, context, signers, signatures)

        return OpenedByCommittee(replies, survivors, sum_masks)

    def _trusted_clients(self, clients: Clients | None) -> Clients | None:
        if not self.blamed:
            return clients
        asked = range(len(self._identities)) if clients is None else clients.numbers()
        return Clients.of([n for n in asked if n not in self.blamed])

    def _whole_ones(self, replies: Any) -> Any:
        """Return the replies, or raise where what came beside them has another size."""
        n, k = replies.count, len(self._committee.members)
        wanted = {
            "ephemeral": (n, X25519_BYTES),
            "commitments": (n, self._committee.num_groups, DIGEST_BYTES),
            "boxes": (n, k, BOX_BYTES),
            "signatures": (n, 64),
        }
        if self._settings.keys == "hybrid":
            wanted["ciphertexts"] = (n, k, CIPHERTEXT_BYTES)
        found_shapes = {name: tuple(rows.shape) for name, rows in replies.enclosed.items()}
        if n and (
            found_shapes != wanted or any(r.dtype != torch.uint8 for r in replies.enclosed.values())
        ):
            raise RoundAborted(
                f"secure aggregation: found {found_shapes} beside masked replies; expected {wanted}"
                "; nothing was unmasked"
            )
        return replies

    # ---------------------------------------------------------------------------- with members

    def _inspect_boxes(
        self, shown: Inspect, numbers: list[int], about: tuple[bytes, list[bytes]]
    ) -> tuple[list[int], list[int]]:
        """Return the rows of clients in the sum, and the members that open it.

        A client that signed something else than it sent is named. A member's complaint about a
        signed box is its word against the client's (`Complaints`).
        """
        signed = self._signed_ones(shown, numbers, about)
        inspected = self._ask_members(shown, Inspected, sorted(self._committee.members))
        complaints = {
            (member, numbers[row])
            for member, bad in zip(inspected.clients.numbers(), inspected.message.bad, strict=True)
            for row in np.flatnonzero(bad.numpy())
            if numbers[row] in signed
        }
        liars = self._name_liars(complaints)
        members = [m for m in inspected.clients.numbers() if m not in self.blamed]
        rest = {pair for pair in complaints if not set(pair) & self.blamed.keys()}
        away, out = self._complaints.choose_absent(
            rest, lambda absent: len(set(members) - absent) >= self._committee.quorum
        )
        good = [row for row, n in enumerate(numbers) if n in signed - out - liars]
        return good, [m for m in members if m not in away]

    def _signed_ones(
        self, shown: Inspect, numbers: list[int], about: tuple[bytes, list[bytes]]
    ) -> set[int]:
        """Return the clients that signed what they enclosed; blame the others."""
        session, digests = about
        signed_members = set()
        for n, digest, signature in zip(numbers, digests, to_bytes(shown.signatures), strict=True):
            statement = upload_statement(session, n, digest)
            try:
                verify(self._identities[n], signature, "committee upload", *statement)
                signed_members.add(n)
            except BadSignature:
                self._blame_client(n, "sent a bad signature on its sealed seeds")
        return signed_members

    def _name_liars(self, complaints: set[Complaint]) -> set[int]:
        """Blame members and clients at odds with more parties than can collude. Return clients."""
        self._complaints.note(complaints)
        most = max(1, self._rules.threat.num_corrupt(len(self._identities)))
        for member in self._complaints.find_members(most):
            self._blame_client(member, "complains of more boxes than clients can collude")
        clients = self._complaints.find_clients(self._committee.colluding)
        for client in clients:
            self._blame_client(client, "sealed seeds that more members reject than can collude")
        return set(clients)

    def _collect_pledges(
        self, survivors: tuple[int, ...], members: list[int], about: tuple[Item, ...]
    ) -> tuple[list[int], Tensor]:
        """Return who signed the list of clients, and their signatures."""
        pledged = self._ask_members(Pledge(clients=torch.tensor(survivors)), Pledged, members)
        signers, signatures = [], []
        pairs = zip(pledged.clients.numbers(), to_bytes(pledged.message.signature), strict=True)
        for member, signature in pairs:
            try:
                verify(self._identities[member], signature, "committee pledge", *about)
            except BadSignature:
                self._blame_client(member, "sent a bad signature on the list of clients")
                continue
            signers.append(member)
            signatures.append(signature)
        self._require_count(len(signers), self._committee.quorum, "members signed the list")
        return signers, from_bytes(signatures)

    def _sum_masks(
        self, field: str, context: MaskContext, signers: list[int], signatures: Tensor
    ) -> RingArray:
        """Return the sum of all masks on a field: of every group, what its members agree on."""
        request = OpenMasks(
            field=field,
            length=context.length,
            modulus_bits=context.modulus_bits,
            signers=torch.tensor(signers),
            signatures=signatures,
        )
        opened = self._ask_members(request, OpenedMasks, signers)
        ring = Ring(context.modulus_bits)
        rows = to_ring(opened.message.total, ring)
        mask_sums: dict[int, RingArray] = {}
        for member, row in zip(opened.clients.numbers(), rows, strict=True):
            group = self._committee.group_of(member)
            if not np.array_equal(mask_sums.setdefault(group, row), row):
                self._refuse_group(group, opened.clients.numbers())
        self._require_count(
            len(mask_sums), self._committee.num_groups, "groups of members answered"
        )
        total: RingArray = np.zeros(context.length, ring.dtype)
        for row in mask_sums.values():
            total += row
        return total

    def _refuse_group(self, group: int, answered: list[int]) -> NoReturn:
        """End the round: one of a group's members lies, and nothing shows which one."""
        group_members = [m for m in answered if self._committee.group_of(m) == group]
        for member in group_members:
            self._suspect(member, "disagrees with its group on the sum of masks")
        raise RoundAborted(
            f"secure aggregation: the members {group_members} of group {group} disagree on the sum "
            "of masks, so one of them lies; the sum is not used"
        )

    def _ask_members(self, request: Message, reply: type[Any], members: list[int]) -> Any:
        trusted = [m for m in members if m not in self.blamed]
        personal = [n for n, d in request.declarations.items() if d.scope == "personal"]
        places = [sorted(self._committee.members).index(m) for m in trusted]
        member_fields = {
            name: getattr(request, name)[places]
            for name in personal
            if getattr(request, name) is not None
        }
        asked = type(request)(**{**request.values(), **member_fields})
        try:
            replies = self._exchange(asked, reply, Clients.of(trusted))
        except AskedBefore as refusal:
            raise RoundAborted(f"secure aggregation: {refusal}; nothing was unmasked") from refusal
        self._require_count(
            replies.count, self._committee.quorum, f"members answered {request.kind}"
        )
        return replies

    def _blame_client(self, client: int, reason: str) -> None:
        if client not in self.blamed:
            self.blamed[client] = reason
            self._tell(client, reason)

    def _require_count(self, count: int, least: int, what: str) -> None:
        if count < least:
            raise RoundAborted(
                f"secure aggregation: {count} {what}, {least} are needed; nothing was unmasked"
            )


@dataclass(frozen=True)
class Enclosed:
    """What clients enclosed, and a digest for every client and member."""

    parts: Mapping[str, Tensor]
    digests: list[list[bytes]]
    order: list[int]

    @classmethod
    def of(cls, parts: Mapping[str, Tensor], committee: Committee) -> Enclosed:
        count = len(parts["ephemeral"])
        ciphertexts = parts.get("ciphertexts")
        sealed = [to_bytes(rows) for rows in parts["boxes"]]
        nothing = [b""] * len(committee.members)
        wrapped = [nothing] * count if ciphertexts is None else [to_bytes(c) for c in ciphertexts]
        rows = zip(to_bytes(parts["ephemeral"]), wrapped, sealed, strict=True)
        digests = [
            [box_digest(key, c, b) for c, b in zip(ciphers, boxes, strict=True)]
            for key, ciphers, boxes in rows
        ]
        order = [committee.members.index(m) for m in sorted(committee.members)]
        return cls(parts, digests, order)

    def digest(self, row: int) -> bytes:
        """Return the hash of all that a client enclosed."""
        return enclosed_digest(self.digests[row], to_bytes(self.parts["commitments"][row]))

    def inspection_request(self, purpose: str, request: bytes, numbers: list[int]) -> Inspect:
        """Return what members are shown; the personal rows are those of the sorted members."""
        ciphertexts = self.parts.get("ciphertexts")
        return Inspect(
            purpose=purpose,
            request=from_bytes([request])[0],
            clients=torch.tensor(numbers),
            ephemeral=self.parts["ephemeral"],
            digests=torch.stack([from_bytes(rows) for rows in self.digests]),
            commitments=self.parts["commitments"],
            signatures=self.parts["signatures"],
            boxes=self._by_member(self.parts["boxes"]),
            ciphertexts=None if ciphertexts is None else self._by_member(ciphertexts),
        )

    def _by_member(self, rows: Tensor) -> Tensor:
        """Return rows by client and member as rows by member and client."""
        return rows.transpose(0, 1)[self.order].contiguous()


def _only_rows(replies: Any, rows: list[int]) -> Any:
    """Return the replies of the clients in these rows."""
    if len(rows) == replies.count:
        return replies
    numbers = replies.clients.numbers()
    values = {
        name: value[rows] if isinstance(value, Tensor) else value
        for name, value in replies.message.values().items()
    }
    message = type(replies.message)(**values)
    return replace(replies, message=message, clients=Clients.of([numbers[r] for r in rows]))
