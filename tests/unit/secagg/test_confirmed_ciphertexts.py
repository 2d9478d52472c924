"""A server that encapsulates in a client's name gets no upload, and false confirmations are named.

Without confirmations a server could swap the ciphertexts to a victim, call dropped whom the victim
encapsulated to, and read the upload once X25519 alone is broken. In cohorts of four and six it
needed no colluder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from securefg.protocol.messages import Message
from securefg.secagg.dealt import Dealt
from securefg.secagg.errors import Refused
from securefg.secagg.hybrid import CIPHERTEXT_BYTES, encapsulate_secret
from securefg.secagg.links import Offer
from securefg.secagg.messages import Deliver, Opening, Ready
from securefg.secagg.secret import Secret
from securefg.secagg.session import NO_TAG, Session
from tests.unit.secagg.session_world import World, edited, same_sums, world
from tests.unit.secagg.test_blame import others

SENDER, RECEIVER = 1, 3
"""Place 1 encapsulates to place 3 in complete graphs of four clients or more."""


def swap_ciphertexts(bed: World, victim: int) -> None:
    """The server encapsulates to the victim in the name of all behind it, and ignores tags."""

    def change(request: Any) -> Message:
        if request.mask_ciphertexts is None:
            return request
        setup = bed.aggregator._setup
        assert setup is not None
        key = setup.roster.mask_keys[setup.members.index(victim)].numpy().tobytes()
        rows = request.mask_ciphertexts.clone()
        for at in range(len(setup.graph.neighbours_behind(victim))):
            own = bytearray(encapsulate_secret(key)[1])
            rows[0, at, :CIPHERTEXT_BYTES] = torch.frombuffer(own, dtype=torch.uint8)
        return edited(request, mask_ciphertexts=rows)

    bed.lie(Deliver, change, victim)


@pytest.mark.parametrize("num_clients", [4, 6, 20])
def test_client_uploads_nothing_under_swapped_ciphertexts(
    num_clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dealt, "at_odds", lambda dealt: [])
    bed = world(num_clients, malicious=True)
    victim = num_clients - 1
    swap_ciphertexts(bed, victim)
    with pytest.raises(Refused, match="not confirmed by its sender"):
        bed.sums()
    assert victim not in bed.masked


def test_client_told_that_the_sender_is_away_uploads_without_it() -> None:
    """The second delivery leaves the sender out, so that no mask is made with it."""
    bed = world(6, malicious=True, dropout=0.3, drops={Ready: {SENDER}})
    spoil_offer(bed, SENDER, [RECEIVER], slice(CIPHERTEXT_BYTES, None))
    assert same_sums(bed.sums(), bed.plain_sums(others(6, SENDER)))
    assert bed.aggregator.blamed == {}


# ------------------------------------------------------------------------------------ lying clients

Lie = Callable[[World, int, int], None]


def spoil_offer(bed: World, sender: int, receivers: list[int], part: slice) -> None:
    """The sender's own code garbles a part of what it sends to some neighbours."""
    fresh = bed.hosts[sender]._fresh_session

    def lying(*about: Any) -> Session:
        session = fresh(*about)
        honest = session.offer_links

        def offer(number: int) -> Offer:
            made = honest(number)
            for at, peer in enumerate(session.graph.neighbours_ahead(session.places[number])):
                if session.clients[peer] in receivers:
                    row = bytearray(made.masks[at])
                    row[part] = bytes(b ^ 1 for b in row[part])
                    made.masks[at] = bytes(row)
            return made

        session.offer_links = offer  # type: ignore[method-assign]
        return session

    bed.hosts[sender]._fresh_session = lying  # type: ignore[method-assign]


def false_confirmation(bed: World, sender: int, receiver: int) -> None:
    spoil_offer(bed, sender, [receiver], slice(CIPHERTEXT_BYTES, None))


def false_ciphertext(bed: World, sender: int, receiver: int) -> None:
    spoil_offer(bed, sender, [receiver], slice(0, 4))


def sign_no_tag(bed: World, liar: int, peer: int) -> None:
    """The liar says that it has no link with a neighbour."""
    host = bed.hosts[liar]
    fresh = host._fresh_session

    def lying(*about: Any) -> Session:
        session = fresh(*about)
        honest = session._wrap_root

        def wrapped(drop_root: Secret, place: int, other: int) -> bytes:
            is_pair = (session.clients[place], session.clients[other]) == (liar, peer)
            row = honest(drop_root, place, other)
            if not is_pair:
                return row
            session._tags.pop((min(place, other), max(place, other)), None)  # it stands by its lie
            return row[:32] + NO_TAG

        session._wrap_root = wrapped  # type: ignore[method-assign]
        return session

    host._fresh_session = lying  # type: ignore[method-assign]


def both_sides(bed: World, sender: int, receiver: int) -> None:
    """A false confirmation, and no tag either: both tags are then alike."""
    false_confirmation(bed, sender, receiver)
    sign_no_tag(bed, sender, receiver)


LIES: dict[str, tuple[Lie, int]] = {
    "false confirmation": (false_confirmation, SENDER),
    "false ciphertext": (false_ciphertext, SENDER),
    "false confirmation and no tag": (both_sides, SENDER),
    "rejected confirmation": (lambda bed, s, r: sign_no_tag(bed, r, s), RECEIVER),
}


@pytest.mark.parametrize("num_clients", [4, 6])
@pytest.mark.parametrize(("lie", "liar"), LIES.values(), ids=LIES.keys())
def test_liar_about_a_confirmation_is_named(lie: Lie, liar: int, num_clients: int) -> None:
    bed = world(num_clients, malicious=True)
    lie(bed, SENDER, RECEIVER)
    for _ in range(2):
        assert same_sums(bed.sums(), bed.plain_sums(others(num_clients, liar)))
    assert list(bed.aggregator.blamed) == [liar]


def test_rejecting_receiver_opens_its_key_for_the_judge() -> None:
    bed = world(6, malicious=True)
    both_sides(bed, SENDER, RECEIVER)
    bed.sums()
    assert len([said for said in bed.said if isinstance(said, Opening)]) == 2


def test_liar_about_confirmations_in_a_sparse_graph_is_named() -> None:
    bed = world(36, malicious=True)
    liar = 5
    spoil_offer(bed, liar, others(36, liar), slice(CIPHERTEXT_BYTES, None))
    assert same_sums(bed.sums(), bed.plain_sums(others(36, liar)))
    assert list(bed.aggregator.blamed) == [liar]
