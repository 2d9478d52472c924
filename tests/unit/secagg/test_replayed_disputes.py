"""After an opening, a restart or a new set-up, nothing of the old set-up can be asked for again."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg.client import SecureClients
from securefg.secagg.errors import BadSignature, Refused, SetupLost
from securefg.secagg.messages import Again, Deliver, Dispute, Opening, Roster
from securefg.secagg.ring import from_bytes
from securefg.secagg.statements import request_hash
from tests.unit.secagg.session_world import CONFIG_HASH, Upload, World, identity, world
from tests.unit.secagg.test_blame import LIAR, VICTIM, in_dispute, lie_about_tag


def start_victim(bed: World, folder: Path) -> None:
    """Start the victim's host, with its memory on the disk, in place of the one before."""
    identities = {VICTIM: identity(VICTIM)}
    memory = folder / "memory.jsonl"
    about = (bed.settings, CONFIG_HASH, identities, bed.roster)
    bed.hosts[VICTIM] = SecureClients(*about, memory_file=memory)


def hear_victim(bed: World) -> list[Message]:
    """Keep every request that reaches the victim."""
    heard: list[Message] = []
    bed.lie(object, lambda request: (heard.append(request), request)[1], VICTIM)  # type: ignore[arg-type]
    return heard


@pytest.mark.parametrize("restarts", [False, True])
def test_requests_of_an_opened_setup_are_all_refused(restarts: bool, tmp_path: Path) -> None:
    bed = world(6, malicious=True)
    start_victim(bed, tmp_path)
    lie_about_tag(bed, LIAR, VICTIM)
    heard = hear_victim(bed)
    dispute = in_dispute(bed)
    assert isinstance(bed.answer(VICTIM, dispute, [VICTIM]), Opening)
    setup = dispute.setup
    if restarts:
        start_victim(bed, tmp_path)
    again = Again(
        purpose=Upload.kind,
        setup=setup,
        ordinal=1,
        model_hash=from_bytes([request_hash(bed.request)])[0],
    )
    old = [m for m in heard if isinstance(m, Roster | Deliver)]
    assert len(old) == 2
    for request in (*old, dispute, again):
        with pytest.raises((Refused, SetupLost)):
            bed.answer(VICTIM, request, [VICTIM])
    with pytest.raises(Refused, match="no session is open"):
        bed.hosts[VICTIM].check_request(request_hash(bed.request))


def test_dispute_of_an_earlier_setup_opens_nothing_in_the_next(tmp_path: Path) -> None:
    """The same liar lies in both. Neither the old dispute nor the old evidence counts."""
    bed = world(6, malicious=True)
    start_victim(bed, tmp_path)
    lie_about_tag(bed, LIAR, VICTIM)
    carry = bed.aggregator._exchange
    old = in_dispute(bed)
    bed.aggregator._exchange = carry
    new = in_dispute(bed)
    assert not old.setup.equal(new.setup)
    relabelled = Dispute(**{**old.values(), "setup": new.setup})
    for request in (old, relabelled):
        bed.aggregator._exchange = carry
        in_dispute(bed)
        with pytest.raises((Refused, BadSignature)):
            bed.answer(VICTIM, request, [VICTIM])
    assert not [said for said in bed.said if isinstance(said, Opening)]


def test_client_opens_nothing_where_the_plan_has_sparse_graphs() -> None:
    """Its advertisement would fit a larger roster of the same round, in which few check signatures:
    a server that knows an opened key could name its owner as a survivor there."""
    bed = world(40, malicious=True)
    bed.aggregator._cohorts = {Upload.kind: 6}  # clients know of no plan, and of 40 identities
    lie_about_tag(bed, LIAR, VICTIM)
    bed.round += 1
    with pytest.raises(Refused, match="only where all sign the survivors for all"):
        bed.aggregator.collect(bed.request, Upload, Clients.of(range(6)), bed.round)
    assert not [said for said in bed.said if isinstance(said, Opening)]
