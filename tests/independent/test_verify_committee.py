"""A second implementation of the committee form agrees to the bit with real clients and members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from securefg.protocol.messages import Message
from securefg.secagg.committee.messages import Inspect, OpenedMasks, Pledged
from securefg.secagg.statements import request_hash
from tests.independent.primitives import Pair, Stream
from tests.independent.test_verify_session import seed_of
from tests.independent.verify_committee import (
    Seated,
    Upload,
    draw_members,
    pledge_said,
    session_id,
    upload_said,
)
from tests.independent.verify_disputes import has_signed
from tests.unit.secagg.committee_world import CommitteeWorld, committee_world, member_secret
from tests.unit.secagg.session_world import CONFIG_HASH, Ask
from tests.unit.secagg.session_world import Upload as Reply


def rows_of(value: Any) -> list[bytes]:
    return [row.tobytes() for row in value.numpy()]


class Watched:
    """A committee whose clients draw from seeds, and a second look at all that they send."""

    def __init__(self, num_clients: int, **settings: Any) -> None:
        self.world: CommitteeWorld = committee_world(num_clients, **settings)
        self.streams = [Stream(seed_of(f"committee {n}")) for n in range(num_clients)]
        for n, host in enumerate(self.world.hosts):
            host._random = Stream(seed_of(f"committee {n}")).read
        chosen = self.world.committee
        hybrid = self.world.settings.keys == "hybrid"
        pairs = tuple(Pair(member_secret(m).reveal(), hybrid) for m in chosen.members)
        self.seated = Seated(chosen.members, pairs, chosen.absent + 1)
        self.heard: list[tuple[int, Message]] = []
        for kind in (Pledged, OpenedMasks):
            self.world.replies_changed[kind] = self._note
        assert draw_members(self.world.roster, len(chosen.members)) == chosen.members

    def _note(self, reply: Message, who: list[int]) -> Message:
        self.heard.append((who[0], reply))
        return reply

    def context(self, field: str) -> tuple[Any, ...]:
        made = self.world.context(field)
        return (made.round, made.message, made.field, made.length, 1 << made.modulus_bits)

    def hold_sum(self, silent: dict[str, set[int]]) -> None:
        """Open a sum, and recompute every byte of it."""
        self.world.silent, self.heard[:] = silent, []
        self.world.uploads.clear()
        total = self.world.total()
        about = (self.world.round, Reply.kind, request_hash(self.world.request))
        self.session = session_id(self.seated, self.world.roster, CONFIG_HASH.encode(), about)
        uploads = [self.check_upload(n) for n in sorted(self.world.uploads)]
        self.check_members(uploads)
        assert np.array_equal(total, self.world.plain([upload.number for upload in uploads]))

    def check_upload(self, number: int) -> Upload:
        reply, enclosed = self.world.uploads[number]
        sent = rows_of(enclosed["ciphertexts"][0]) if "ciphertexts" in enclosed else []
        stream = self.streams[number]
        upload = Upload.of(number, self.session, self.seated, stream, sent)
        for name, rows in upload.enclosed.items():
            found = enclosed[name] if name == "ephemeral" else enclosed[name][0]
            assert rows_of(found) == rows, name
        signature = rows_of(enclosed["signatures"])[0]
        public = self.world.roster[number]
        assert has_signed(public, signature, "committee upload", *upload_said(upload))
        row = self.world.rows[number].copy()
        for group in range(self.seated.num_groups):
            row += upload.keystream(group, self.context("numbers"))
        assert reply.numbers[0].numpy().tobytes() == row.tobytes()  # type: ignore[attr-defined]
        return upload

    def check_members(self, uploads: list[Upload]) -> None:
        pledged_words = pledge_said(self.session, uploads)
        fields: dict[int, list[str]] = {}
        for member, reply in self.heard:
            if isinstance(reply, Pledged):
                signature = rows_of(reply.signature)[0]
                public = self.world.roster[member]
                assert has_signed(public, signature, "committee pledge", *pledged_words)
                continue
            assert isinstance(reply, OpenedMasks)
            name = ("size", "numbers")[len(fields.setdefault(member, []))]
            fields[member].append(name)
            group = self.seated.members.index(member) // self.seated.each
            streams = [upload.keystream(group, self.context(name)) for upload in uploads]
            expected = np.sum(streams, axis=0, dtype=streams[0].dtype)
            assert reply.total.numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("keys", ["hybrid", "classical"])
@pytest.mark.parametrize("bits", [32, 64])
def test_second_implementation_agrees_on_committee_sums(keys: str, bits: int) -> None:
    watched = Watched(8, keys=keys, ring_bits=bits)
    watched.hold_sum({})
    watched.hold_sum({Inspect.kind: {watched.world.committee.members[0]}})


def test_second_implementation_agrees_with_dropouts_and_more_groups() -> None:
    watched = Watched(12, dropout=0.3, committee={"colluding": 2, "absent": 1})
    for silent in ({1, 5}, {0}, set[int]()):
        watched.hold_sum({Ask.kind: silent})
