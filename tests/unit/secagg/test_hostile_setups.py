"""A lying server around set-ups: opened keys, later sessions and restarts, by real client code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.secagg.client import SecureClients
from securefg.secagg.errors import AskedBefore, BadSignature, Refused, SetupLost
from securefg.secagg.messages import (
    Advertise,
    Again,
    Deliver,
    Dispute,
    Keys,
    Opening,
    Ready,
    Roster,
    Survivors,
    Unmask,
)
from securefg.secagg.ring import from_bytes
from securefg.secagg.statements import request_hash
from tests.unit.secagg.session_world import CONFIG_HASH, Upload, World, edited, identity, world
from tests.unit.secagg.test_blame import LIAR, VICTIM, in_dispute, lie_about_tag, others
from tests.unit.secagg.test_setup_once import again


def heard_by(bed: World, client: int) -> list[Message]:
    """Every request that reaches a client."""
    found: list[Message] = []
    bed.lie(object, lambda request: (found.append(request), request)[1], client)  # type: ignore[arg-type]
    return found


def upload_of(bed: World, client: int) -> np.ndarray[Any, Any]:
    rows = bed.rows["numbers"][[client]]
    bed.hosts[client].mask(rows, [client], bed.context(Upload, "numbers"))
    return rows


# --------------------------------------------------------------------------------- opened keys


def test_host_that_opened_one_key_uploads_for_none_of_its_clients() -> None:
    bed = world(6, malicious=True, layout=[[0], [1, 2], [3], [4], [5]])
    lie_about_tag(bed, LIAR, VICTIM)
    dispute = in_dispute(bed)
    host = bed.hosts[1]
    assert isinstance(bed.answer(1, dispute, [VICTIM]), Opening)
    with pytest.raises(Refused, match="no session is open"):
        host.check_request(request_hash(bed.request))
    with pytest.raises(Refused, match="no session is open"):
        host.mask(bed.rows["numbers"][[2]], [2], bed.context(Upload, "numbers"))


def test_key_is_not_opened_for_a_peer_that_a_second_delivery_left_out() -> None:
    bed = world(6, malicious=True, dropout=0.3)
    lie_about_tag(bed, LIAR, VICTIM)
    dispute = in_dispute(bed)
    left = Deliver(
        sharers=torch.tensor(others(6, LIAR)),
        boxes=None,
        share_digests=None,
        box_ciphertexts=None,
        mask_ciphertexts=None,
    )
    assert isinstance(bed.answer(VICTIM, left, [VICTIM]), Ready)
    with pytest.raises(Refused, match="is no other than"):
        bed.answer(VICTIM, dispute, [VICTIM])


def test_key_is_not_opened_in_a_later_session() -> None:
    """The evidence is real, of the first session. In the next one the keys are gone."""
    bed = world(6, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    dispute = in_dispute(bed)
    bed.round += 1
    later = Again(
        purpose=Upload.kind,
        setup=dispute.setup,
        ordinal=1,
        model_hash=from_bytes([request_hash(bed.request)])[0],
    )
    bed.answer(VICTIM, later, [VICTIM])
    with pytest.raises(Refused, match="before anything is uploaded"):
        bed.answer(VICTIM, dispute, [VICTIM])


def test_forced_openings_leave_too_few_signers_for_a_sum() -> None:
    """One corrupt client quarrels with many. The server calls all of them survivors."""
    bed = world(6, malicious=True)
    for victim in (0, 1, 2):
        lie_about_tag(bed, LIAR, victim)
    dispute_to: dict[int, Dispute] = {}
    exchange = bed.aggregator._exchange

    def open_all(request: Message, reply: type[Message], clients: Clients | None = None) -> Any:
        if isinstance(request, Dispute):
            assert clients is not None
            dispute_to[clients.numbers()[0]] = request
        return exchange(request, reply, clients)

    bed.aggregator._exchange = open_all
    bed.aggregator._court.blame = lambda client, reason: None  # it goes on with its accomplice
    setups: list[Any] = []
    settle = bed.aggregator._court.settle

    def keep_going(*about: Any) -> set[int]:
        settle(*about)
        setups.append(bed.aggregator._setup)
        raise StopIteration

    bed.aggregator._court.settle = keep_going  # type: ignore[method-assign]
    with pytest.raises(StopIteration):
        bed.sums()
    assert set(dispute_to) == {0, 1, 2, LIAR}
    honest = [4, 5]
    for client in honest:
        bed.hosts[client].check_request(request_hash(bed.request))
        upload_of(bed, client)
        told = Survivors(clients=torch.arange(6))
        assert bed.answer(client, told, [client]).kind == "messages.Agreed"
    signatures = [m.signature for m in bed.said if m.kind == "messages.Agreed"]
    unmask = Unmask(
        survivors=torch.arange(6),
        dropped=torch.empty(0, dtype=torch.int64),
        signers=torch.tensor(honest),
        signatures=torch.cat(signatures),  # type: ignore[arg-type]
    )
    for client in honest:
        with pytest.raises(Refused, match="signatures on the survivors, under"):
            bed.answer(client, unmask, [client])


# ------------------------------------------------------------------------------- later sessions


def test_rows_are_not_masked_before_the_request_is_noted() -> None:
    """Whoever masks first and asks afterwards would leave no line in the memory."""
    bed = world(4, malicious=True)
    exchange = bed.aggregator._exchange

    class Held(Exception):
        pass

    def stop(request: Message, reply: type[Message], clients: Clients | None = None) -> Any:
        if reply is Upload:
            raise Held
        return exchange(request, reply, clients)

    bed.aggregator._exchange = stop
    with pytest.raises(Held):
        bed.sums()
    with pytest.raises(Refused, match="before its request"):
        upload_of(bed, 1)


def test_signatures_of_one_session_do_not_open_the_next() -> None:
    bed = world(6, malicious=True)
    heard = heard_by(bed, 1)
    bed.sums()
    old = next(m for m in heard if isinstance(m, Unmask))
    bed.lie(Unmask, lambda u: edited(u, signers=old.signers, signatures=old.signatures), *range(6))
    with pytest.raises(BadSignature):
        bed.sums()


def test_delivery_of_the_first_session_tells_the_next_one_nothing() -> None:
    """Its boxes are under other roots: all of them are bad, and no share is held."""
    bed = world(6, malicious=True)
    heard = heard_by(bed, 1)
    bed.sums()
    old = next(m for m in heard if isinstance(m, Deliver))
    bed.round += 1
    bed.answer(1, again(bed), [1])
    ready = bed.answer(1, old, [1])
    assert isinstance(ready, Ready)
    assert int(ready.bad.sum()) == 6
    session = bed.hosts[1]._session
    assert session is not None
    assert not session.parties[1].held_key
    assert not session.parties[1].held_seed


def test_chain_that_went_ahead_does_not_come_back() -> None:
    bed = world(4, malicious=True)
    bed.sums()
    bed.round += 1
    bed.answer(1, again(bed, ordinal=30), [1])
    with pytest.raises(Refused, match="session 1 of a set-up"):
        bed.answer(1, again(bed, ordinal=1), [1])
    with pytest.raises(SetupLost):
        bed.answer(1, again(bed, ordinal=31), [1])


def test_keys_of_an_earlier_round_are_not_taken_for_this_one() -> None:
    """The server shows one client the other's old advertisement, to which nobody has the key."""
    bed = world(6, malicious=True)
    rosters: list[Roster] = []
    bed.lie(Roster, lambda r: (rosters.append(r), r)[1], 0)
    bed.sums()
    bed.aggregator._setup = None
    old = rosters[0]

    def swap(request: Any) -> Message:
        parts = {n: getattr(request, n).clone() for n in ("mask_keys", "box_keys", "signatures")}
        for name, rows in parts.items():
            rows[4] = getattr(old, name)[4]
        return edited(request, **parts)

    bed.lie(Roster, swap, 1)
    with pytest.raises(BadSignature):
        bed.sums()


# ------------------------------------------------------------------------------------- restarts


def restart(bed: World, client: int, folder: Path) -> SecureClients:
    about = (bed.settings, CONFIG_HASH, {client: identity(client)}, bed.roster)
    bed.hosts[client] = SecureClients(*about, memory_file=folder / f"{client}.jsonl")
    return bed.hosts[client]


def test_request_done_again_is_the_one_that_was_answered(tmp_path: Path) -> None:
    """After a restart the server asks a host to redo what it never answered."""
    bed = world(4, malicious=True)
    restart(bed, 1, tmp_path)
    bed.sums()
    host = restart(bed, 1, tmp_path)
    turn, own_request = Turn(1, 1, Clients.of([1])), request_hash(bed.request)
    host.check_redo(own_request, Upload.kind, turn)
    other = request_hash(Advertise(purpose="Ask", version=2))
    for wrong in (
        (other, Upload.kind, turn),
        (own_request, "session_world.Count", turn),
        (own_request, Upload.kind, Turn(2, 1, Clients.of([1]))),
        (own_request, Upload.kind, Turn(1, 1, Clients.of([2]))),
    ):
        with pytest.raises(Refused, match="found a request to do"):
            host.check_redo(*wrong)


def test_stale_advertisement_of_a_restarted_client_is_no_use(tmp_path: Path) -> None:
    """Others are set up with the keys that it had before. It has no session, and opens nothing."""
    bed = world(4, malicious=True)
    restart(bed, 1, tmp_path)
    exchange = bed.aggregator._exchange
    seen_rosters: list[Message] = []

    def restarted(request: Message, reply: type[Message], clients: Clients | None = None) -> Any:
        if isinstance(request, Roster) and not seen_rosters:
            seen_rosters.append(request)
            restart(bed, 1, tmp_path)
        return exchange(request, reply, clients)

    bed.aggregator._exchange = restarted
    with pytest.raises(Refused, match="no session is open"):
        bed.sums()
    assert not [m for m in bed.said if isinstance(m, Ready)]


def test_opening_does_not_let_a_client_answer_a_round_twice(tmp_path: Path) -> None:
    """It uploads, restarts, is asked for fresh keys, and its accomplice starts a dispute."""
    bed = world(6, malicious=True)
    restart(bed, VICTIM, tmp_path)
    bed.sums()
    restart(bed, VICTIM, tmp_path)
    advertise = Advertise(purpose=Upload.kind, version=2)
    with pytest.raises(AskedBefore):
        bed.answer(VICTIM, advertise, [VICTIM])
    bed.round += 1
    assert isinstance(bed.answer(VICTIM, advertise, [VICTIM]), Keys)
    setup = again(bed).setup  # type: ignore[attr-defined]
    dispute = Dispute(
        setup=setup,
        peers=torch.tensor([LIAR]),
        wrapped=torch.zeros(1, 6, 48, dtype=torch.uint8),
        sent=None,
        received=None,
        signatures=from_bytes([bytes(64)]),
    )
    with pytest.raises(Refused, match="another set-up than the open one"):
        bed.answer(VICTIM, dispute, [VICTIM])
    with pytest.raises(SetupLost):
        bed.answer(VICTIM, again(bed), [VICTIM])
