"""One member of a committee: it opens its boxes, signs one list of clients, and sums their masks.

A member refuses a second list for a sum, a list with few clients, with a client twice or with one
that did not sign its boxes, and to open masks before enough members signed the same list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from securefg.foundation.errors import ProtocolError
from securefg.secagg import derive
from securefg.secagg.committee.messages import Inspect, OpenMasks, Pledge
from securefg.secagg.committee.sealing import (
    box_digest,
    commit_to_seed,
    enclosed_digest,
    open_seed,
    upload_statement,
)
from securefg.secagg.committee.seating import Committee
from securefg.secagg.derive import FreshContexts, MaskContext
from securefg.secagg.encoding import Item
from securefg.secagg.errors import BadSignature, Refused
from securefg.secagg.hybrid import FreshPair, Suite
from securefg.secagg.keys import Identity, verify
from securefg.secagg.masks import Mask, Sign, apply_masks
from securefg.secagg.memory import Memory
from securefg.secagg.ring import Ring, RingArray, to_bytes
from securefg.secagg.rules import Rules
from securefg.secagg.secret import Secret

LONGEST: Final = 1 << 28
"""More numbers in one row are refused before memory is asked for."""


@dataclass
class Opening:
    """What a member knows of one sum.

    seeds   by client; a client whose box is bad has none
    digest  by client, of all its boxes and commitments
    """

    round: int
    purpose: str
    session: bytes
    seeds: dict[int, Secret] = field(default_factory=dict, repr=False)
    digest: dict[int, bytes] = field(default_factory=dict)
    pledged: tuple[int, ...] = ()
    contexts: FreshContexts = field(default_factory=FreshContexts)

    def signed_statement(self) -> tuple[Item, ...]:
        """Return what members sign: the sum, its clients and what these sealed."""
        return pledge_statement(self.session, self.pledged, self.digest)


def pledge_statement(
    session: bytes, clients: Sequence[int], digest: Mapping[int, bytes]
) -> tuple[Item, ...]:
    """Return what every member signs of a list of clients."""
    numbers = hashlib.sha256(np.array(clients, "<i8").tobytes()).digest()
    sealed = hashlib.sha256(b"".join(digest[client] for client in clients)).digest()
    return (session, numbers, sealed)


@dataclass(frozen=True)
class ShownUpload:
    """What members are shown of one client's upload; all members of a host read it once."""

    client: int
    ephemeral: bytes
    digests: list[bytes]
    commitments: list[bytes]
    digest: bytes
    is_signed: bool


def read_uploads(request: Inspect, session: bytes, roster: Sequence[bytes]) -> list[ShownUpload]:
    """Read every client's row, and check its signature."""
    columns = zip(
        request.clients.tolist(),
        to_bytes(request.ephemeral),
        [to_bytes(rows) for rows in request.digests],
        [to_bytes(rows) for rows in request.commitments],
        to_bytes(request.signatures),
        strict=True,
    )
    return [_read_upload(session, roster, *column) for column in columns]


def _read_upload(
    session: bytes,
    roster: Sequence[bytes],
    client: int,
    ephemeral: bytes,
    digests: list[bytes],
    commitments: list[bytes],
    signature: bytes,
) -> ShownUpload:
    if not 0 <= client < len(roster):
        raise Refused("the list names a client that nobody knows")
    digest = enclosed_digest(digests, commitments)
    try:
        about = upload_statement(session, client, digest)
        verify(roster[client], signature, "committee upload", *about)
        is_signed = True
    except BadSignature:
        is_signed = False
    return ShownUpload(client, ephemeral, digests, commitments, digest, is_signed)


class Member:
    """A client in its office as a member.

    roster  everybody's public identity
    rules   how many clients a list for a message must have, and may have
    memory  keeps, across restarts, which sums this member signed a list for
    """

    def __init__(
        self,
        number: int,
        secret: Secret,
        suite: Suite,
        committee: Committee,
        identity: Identity,
        roster: Sequence[bytes],
        memory: Memory,
        rules: Rules,
    ) -> None:
        self._rules = rules
        self._number, self._committee = number, committee
        self._pair, self._identity = FreshPair(secret, suite), identity
        self._roster, self._memory = roster, memory
        self._place = committee.members.index(number)
        self._group = committee.group_of(number)
        self._opening: Opening | None = None

    # --------------------------------------------------------------------------- inspect boxes

    def inspect(
        self,
        shown: Sequence[ShownUpload],
        sealed: Sequence[tuple[bytes, bytes]],
        round: int,
        purpose: str,
        session: bytes,
    ) -> list[int]:
        """Open every client's box. Return 1 for each that is bad, 0 for the others.

        sealed  every client's ciphertext and box for this member
        """
        self._rules.check_list(purpose, [upload.client for upload in shown])
        self._refuse_second(round, purpose)
        self._opening = opening = Opening(round, purpose, session)
        pairs = zip(shown, sealed, strict=True)
        return [int(not self._take_seed(opening, upload, *own)) for upload, own in pairs]

    def _take_seed(
        self, opening: Opening, upload: ShownUpload, ciphertext: bytes, box: bytes
    ) -> bool:
        """Keep a client's seed. Return whether it is the one that the client signed."""
        own = box_digest(upload.ephemeral, ciphertext, box)
        if not upload.is_signed or upload.digests[self._place] != own:
            return False
        about, sealed = (opening.session, upload.client), (upload.ephemeral, ciphertext, box)
        try:
            seed = open_seed(self._pair, *about, self._number, *sealed)
        except ProtocolError:
            return False
        if commit_to_seed(seed, *about, self._group) != upload.commitments[self._group]:
            return False
        opening.seeds[upload.client] = seed
        opening.digest[upload.client] = upload.digest
        return True

    def _refuse_second(self, round: int, purpose: str) -> None:
        self._memory.refuse_repeat(round, _office_name(purpose), [self._number], one_opens=False)

    # ------------------------------------------------------------------------- sign one list

    def sign_pledge(self, request: Pledge) -> bytes:
        """Sign the list of clients, once for a sum, and remember it first."""
        opening, clients = self._current_opening(), request.clients.tolist()
        if opening.pledged:
            raise Refused("asked to sign a second list for one sum")
        self._rules.check_list(opening.purpose, clients)
        if not set(clients) <= opening.seeds.keys():
            raise Refused("the list has a client whose box is bad or was not shown")
        self._refuse_second(opening.round, opening.purpose)
        office = _office_name(opening.purpose)
        about = (opening.round, office, [self._number], opening.session)
        self._memory.agreed(*about, clients)
        opening.pledged = tuple(clients)
        return self._identity.sign("committee pledge", *opening.signed_statement())

    # ----------------------------------------------------------------------------- sum of masks

    def open_masks(self, request: OpenMasks) -> RingArray:
        """Return the sum of this group's masks over the signed list."""
        opening = self._current_opening()
        if not opening.pledged:
            raise Refused("asked for masks before a list was signed")
        self._check_signers(opening, request)
        if not 0 < request.length <= LONGEST:
            raise Refused(f"a row of {request.length} numbers; expected 1 to {LONGEST}")
        about = (request.field, request.length, request.modulus_bits)
        context = MaskContext(opening.round, opening.purpose, *about)
        opening.contexts.claim(context)
        total: RingArray = np.zeros(request.length, Ring(request.modulus_bits).dtype)
        keys = (
            derive.self_mask_key(opening.seeds[client], opening.session, client, context)
            for client in opening.pledged
        )
        apply_masks(total, (Mask(key, Sign.ADD) for key in keys))
        return total

    def _check_signers(self, opening: Opening, request: OpenMasks) -> None:
        signers = request.signers.tolist()
        if len(set(signers)) != len(signers) or not set(signers) <= set(self._committee.members):
            raise Refused("a signature twice, or by a client that is no member")
        if len(signers) < self._committee.quorum:
            raise Refused(f"{len(signers)} members signed the list, under {self._committee.quorum}")
        for signer, signature in zip(signers, to_bytes(request.signatures), strict=True):
            verify(self._roster[signer], signature, "committee pledge", *opening.signed_statement())

    def _current_opening(self) -> Opening:
        if self._opening is None:
            raise Refused("no boxes were shown to this member")
        return self._opening


def _office_name(purpose: str) -> str:
    """Return the name under which a member's memory keeps a sum, apart from its own upload."""
    return f"committee/{purpose}"
