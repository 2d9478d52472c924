"""The clients' side of the committee form, for all clients of one host at once.

A client answers a request with one message: its masked reply, and the seeds of its masks sealed to
the members, whom it computes by itself. It refuses a second upload of what it uploaded before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.secagg import derive
from securefg.secagg.committee.member import Member, read_uploads
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
    check_member_keys,
    committee_session,
    seal_seeds,
    upload_statement,
)
from securefg.secagg.committee.seating import seat_committee
from securefg.secagg.derive import FreshContexts, MaskContext
from securefg.secagg.errors import Refused
from securefg.secagg.hybrid import CIPHERTEXT_BYTES, X25519_BYTES
from securefg.secagg.keys import Identity
from securefg.secagg.masking_clients import MaskingClients
from securefg.secagg.masks import RowMask, apply_row_masks
from securefg.secagg.ring import RingArray, from_bytes, from_ring, stack_rows, to_bytes
from securefg.secagg.rules import Rules
from securefg.secagg.secret import SYSTEM_RANDOM, RandomBytes, Secret
from securefg.settings.secagg import SecureAggregationSettings


@dataclass
class Upload:
    """One masked reply of some clients of this host; `seeds` has one seed for each group."""

    round: int
    purpose: str
    numbers: list[int]
    session: bytes = b""
    seeds: dict[int, list[Secret]] = field(default_factory=dict, repr=False)
    contexts: FreshContexts = field(default_factory=FreshContexts)


class CommitteeClients(MaskingClients):
    """All clients of a host; some of them may be members.

    member_keys  of all members, as they enrolled
    secrets      of the members among this host's clients
    cohorts      how many clients are to be asked for each kind of message
    rounds       in how many rounds of the run each kind may be asked for
    """

    def __init__(
        self,
        settings: SecureAggregationSettings,
        config_hash: str,
        identities: Mapping[int, Identity],
        roster: Sequence[bytes],
        member_keys: Sequence[MemberKey],
        secrets: Mapping[int, Secret],
        least_survivors: Mapping[str, int] | None = None,
        random_bytes: RandomBytes = SYSTEM_RANDOM,
        cohorts: Mapping[str, int] | None = None,
        memory_file: Path | None = None,
        rounds: Mapping[str, int] | None = None,
    ) -> None:
        rules = Rules(settings, len(roster), least_survivors or {}, cohorts or {}, rounds or {})
        super().__init__(
            settings, config_hash, identities, roster, rules, random_bytes, memory_file
        )
        self._committee = seat_committee(settings, roster)
        check_member_keys(member_keys, self._committee, roster, self._config, settings.keys)
        self._keys = tuple(member_keys)
        self._members = {
            number: Member(
                number,
                secret,
                settings.keys,
                self._committee,
                identities[number],
                roster,
                self.memory,
                rules,
            )
            for number, secret in secrets.items()
        }
        self._upload: Upload | None = None

    @contextmanager
    def _over_when_refused(self) -> Iterator[None]:
        """End the open upload on any fault: nothing of it leaves afterwards."""
        try:
            yield
        except Exception:
            self._upload = None
            raise

    # -------------------------------------------------------------------------- masked upload

    def check_reply(self, purpose: str, turn: Turn, constants: Sequence[str]) -> None:
        """Refuse a reply that left before, or more often than planned."""
        numbers, rules = turn.clients.numbers(), self._rules
        with self._over_when_refused():
            # Members open one of two uploads at most, since they sign one list with its boxes.
            self.memory.refuse_repeat(turn.round, purpose, numbers, one_opens=True)
            self.memory.refuse_more(turn.round, purpose, numbers, rules.rounds.get(purpose))
            for name in constants:
                self.memory.refuse_constant(turn.round, f"{purpose}.{name}", numbers)
            rules.check_population(purpose)
            self._upload = Upload(turn.round, purpose, numbers)

    def check_request(self, request_hash: bytes) -> None:
        """Note the request, and draw fresh seeds for its answer."""
        upload = self._current_upload()
        with self._over_when_refused():
            if upload.session:
                raise Refused("a second request for one upload")
            about = (upload.round, upload.purpose, upload.numbers)
            self.memory.refuse_other_request(*about, request_hash)
            upload.session = self._session_id(upload.round, upload.purpose, request_hash)
            everybody = len(self._roster)
            self.memory.uploaded(*about, upload.session, everybody, request_hash)
            groups = range(self._committee.num_groups)
            upload.seeds = {n: [Secret.fresh(self._random) for _ in groups] for n in upload.numbers}

    def _session_id(self, round: int, purpose: str, request: bytes) -> bytes:
        about = (self._keys, self._roster, self._config)
        return committee_session(*about, round, purpose, request)

    def mask(self, rows: RingArray, numbers: list[int], context: MaskContext) -> None:
        """Put the masks of all groups on every client's row, in place."""
        upload = self._current_upload()
        with self._over_when_refused():
            self._check_rows(upload, numbers, context)
        masks = [
            RowMask(derive.self_mask_key(seed, upload.session, n, context), row, None)
            for row, n in enumerate(numbers)
            for seed in upload.seeds[n]
        ]
        apply_row_masks(rows, masks)

    def _check_rows(self, upload: Upload, numbers: list[int], context: MaskContext) -> None:
        asked = (upload.round, upload.purpose)
        if numbers != upload.numbers or (context.round, context.message) != asked:
            raise Refused("asked to mask other rows than those of the open request")
        if not upload.seeds or context.recipients:
            raise Refused("asked to mask before the request, or for recipients")
        upload.contexts.claim(context)
        if context.constant:
            about = (upload.round, upload.purpose, context.field, upload.session, numbers)
            self.memory.claim_constant(*about, len(self._roster))

    def enclose_keys(self, purpose: str) -> dict[str, Tensor]:
        """Seal the seeds of the open upload to the members, sign the boxes, forget the seeds."""
        upload, self._upload = self._upload, None
        if upload is None or not upload.seeds or upload.purpose != purpose:
            return {}
        sealed = {
            n: seal_seeds(
                self._keys,
                self._committee,
                seeds,
                upload.session,
                n,
                self._settings.keys,
                self._random,
            )
            for n, seeds in upload.seeds.items()
        }
        signatures = [
            self._identities[n].sign(
                "committee upload",
                *upload_statement(upload.session, n, one.digest()),
            )
            for n, one in sealed.items()
        ]
        enclosed = {
            "ephemeral": from_bytes([one.ephemeral for one in sealed.values()]),
            "commitments": stack_rows([one.commitments for one in sealed.values()]),
            "boxes": stack_rows([one.boxes for one in sealed.values()]),
            "signatures": from_bytes(signatures),
        }
        if self._settings.keys == "hybrid":
            enclosed["ciphertexts"] = stack_rows([one.ciphertexts for one in sealed.values()])
        return {name: rows for name, rows in enclosed.items() if rows is not None}

    def open(self, totals: RingArray, numbers: list[int], context: MaskContext) -> None:
        """Raise: sums for recipients are refused when the run is planned."""
        raise Refused("sums for recipients need form: session")

    def _current_upload(self) -> Upload:
        if self._upload is None:
            raise Refused("no request is open")
        return self._upload

    # ------------------------------------------------------------------------- as members

    def handle(self, request: Message, turn: Turn) -> Message:
        """Answer a stage for the members among `turn.clients`; all must be members."""
        numbers = turn.clients.numbers()
        if not set(numbers) <= self._members.keys():
            raise Refused(f"{request.kind} is for members of the committee alone")
        members = [self._members[number] for number in numbers]
        match request:
            case Inspect():
                return self._inspect_boxes(request, members, turn.round)
            case Pledge():
                return Pledged(signature=from_bytes([m.sign_pledge(request) for m in members]))
            case OpenMasks():
                totals = [from_ring(m.open_masks(request)) for m in members]
                return OpenedMasks(total=torch.stack(totals))
        raise Refused(f"{request.kind} is no stage of secure aggregation by a committee")

    def _inspect_boxes(self, request: Inspect, members: list[Member], round: int) -> Inspected:
        self._check_shapes(request, len(members))
        session = self._session_id(round, request.purpose, to_bytes(request.request[None])[0])
        shown = read_uploads(request, session, self._roster)
        rows = [
            member.inspect(shown, _sealed_for_member(request, row), round, request.purpose, session)
            for row, member in enumerate(members)
        ]
        return Inspected(bad=torch.tensor(rows, dtype=torch.uint8))

    def _check_shapes(self, request: Inspect, num_members: int) -> None:
        """Raise unless every array has a whole row for every client."""
        if request.clients.dim() != 1 or request.clients.dtype is not torch.int64:
            raise Refused(f"{request.kind}.clients: found other than a list of numbers")
        n, k, groups = len(request.clients), len(self._keys), self._committee.num_groups
        expected: dict[str, tuple[int, ...]] = {
            "request": (DIGEST_BYTES,),
            "ephemeral": (n, X25519_BYTES),
            "digests": (n, k, DIGEST_BYTES),
            "commitments": (n, groups, DIGEST_BYTES),
            "signatures": (n, 64),
            "boxes": (num_members, n, BOX_BYTES),
        }
        if self._settings.keys == "hybrid":
            expected["ciphertexts"] = (num_members, n, CIPHERTEXT_BYTES)
        elif request.ciphertexts is not None:
            raise Refused(f"{request.kind}.ciphertexts: found some; expected none")
        for name, shape in expected.items():
            rows: Tensor | None = getattr(request, name)
            if rows is None or tuple(rows.shape) != shape or rows.dtype is not torch.uint8:
                found = "nothing" if rows is None else f"{list(rows.shape)} of {rows.dtype}"
                raise Refused(
                    f"{request.kind}.{name}: found {found}; expected {list(shape)} of torch.uint8"
                )


def _sealed_for_member(request: Inspect, row: int) -> list[tuple[bytes, bytes]]:
    """Return every client's ciphertext and box for the member of this row."""
    boxes = to_bytes(request.boxes[row])
    if request.ciphertexts is None:
        return [(b"", box) for box in boxes]
    return list(zip(to_bytes(request.ciphertexts[row]), boxes, strict=True))
