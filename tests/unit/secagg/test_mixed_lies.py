"""Lies that mix stages: in tags, boxes, keys and openings at once, or one after the other.

The liar is named, or its lie costs others nothing. No honest client is named or left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg.hybrid import FreshPair
from securefg.secagg.messages import Dispute, Keys, Opening, Ready
from securefg.secagg.odds import Odds
from securefg.secagg.secret import Secret
from securefg.secagg.session import Session
from tests.unit.secagg.session_world import World, edited, identity, same_sums, world
from tests.unit.secagg.test_blame import LIAR, VICTIM, lie_about_tag, others, replying
from tests.unit.secagg.test_odds import hold_round


def complain_of(bed: World, liar: int, victim: int, in_first: bool = True) -> None:
    """The liar says that its victim's box is bad."""

    def change(message: Any) -> Message:
        session = bed.hosts[liar]._session
        if session is None or (in_first and not session.is_first) or not session.sharers:
            return message
        holders = session.graph.holders(session.places[liar])
        bad = message.bad.clone()
        bad[0, holders.index(session.places[victim])] = 1
        return edited(message, bad=bad)

    replying(bed, liar, Ready, change)


def is_later(session: Session) -> bool:
    return not session.is_first


def row(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)[None]


# ------------------------------------------------------------------------------ tags and boxes


@pytest.mark.parametrize(
    ("num_clients", "liar", "victim"), [(4, 3, 1), (4, 1, 3), (6, 3, 1), (20, 1, 3)]
)
def test_later_tag_and_false_complaint_keep_nobody_out(
    num_clients: int, liar: int, victim: int
) -> None:
    """Before, the tag put the pair on record, and each complaint then cost one of the two a round.
    The liar had its victim out of every second sum, and was not named."""
    bed = world(num_clients, malicious=True)
    lie_about_tag(bed, liar, victim, is_later)
    complain_of(bed, liar, victim)
    for _ in range(3):
        assert hold_round(bed) == list(range(num_clients))
    assert bed.aggregator.blamed == {}


def test_odds_of_tags_are_no_missing_shares() -> None:
    odds = Odds({})
    odds.note([(1, 3)])
    assert not odds.has_missed(3, 1)
    odds.note_missing([(3, 1)])
    assert odds.has_missed(1, 3)
    assert odds.clients_at_odds([1], 0) == [1]


@pytest.mark.parametrize("num_clients", [4, 6])
def test_tag_and_complaint_in_one_session_name_liar(num_clients: int) -> None:
    bed = world(num_clients, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    complain_of(bed, LIAR, VICTIM)
    for _ in range(2):
        assert hold_round(bed) == others(num_clients, LIAR)
    assert list(bed.aggregator.blamed) == [LIAR]


def test_liar_with_another_victim_each_later_session_is_named() -> None:
    bed = world(6, malicious=True)
    for at, victim in enumerate((0, 1, 2, 4)):
        lie_about_tag(bed, LIAR, victim, lambda s, at=at: is_later(s) and s.round == 2 + at)
    found = [hold_round(bed) for _ in range(6)]
    assert all(set(one or ()) >= {0, 1, 2, 4, 5} for one in found)
    assert list(bed.aggregator.blamed) == [LIAR]


# ------------------------------------------------------------------------------------------ keys


def advertise(bed: World, liar: int, keys: Callable[[Any, Keys], tuple[bytes, bytes]]) -> None:
    """The liar signs other keys than its own code made."""
    handle = bed.hosts[liar].handle

    def changed(request: Message, turn: Any) -> Message:
        reply = handle(request, turn)
        if not isinstance(reply, Keys):
            return reply
        host = bed.hosts[liar]
        session = host._session
        assert session is not None
        mask_key, box_key = keys(session.pairs[liar], reply)
        for pair, public in zip(
            (session.pairs[liar].masks, session.pairs[liar].boxes), (mask_key, box_key), strict=True
        ):
            object.__setattr__(pair, "public", public)  # it stands by its lie
        signed = identity(liar).sign(
            "advertise", *host._advertised_items(session, liar, mask_key, box_key)
        )
        return Keys(mask_key=row(mask_key), box_key=row(box_key), signature=row(signed))

    bed.hosts[liar].handle = changed  # type: ignore[method-assign]


@pytest.mark.parametrize("num_clients", [4, 6])
def test_liar_with_copied_keys_of_another_client_is_named(num_clients: int) -> None:
    """It signs its victim's public halves as its own, and knows no secret behind them."""
    bed = world(num_clients, malicious=True)
    heard: list[Keys] = []
    replying(bed, VICTIM, Keys, lambda reply: (heard.append(reply), reply)[1])

    def copied(pairs: Any, reply: Keys) -> tuple[bytes, bytes]:
        return heard[-1].mask_key.numpy().tobytes(), heard[-1].box_key.numpy().tobytes()

    advertise(bed, LIAR, copied)
    for _ in range(2):
        assert hold_round(bed) == others(num_clients, LIAR)
    assert list(bed.aggregator.blamed) == [LIAR]


@pytest.mark.parametrize("num_clients", [4, 6])
def test_liar_with_halves_of_two_secrets_is_named_in_a_dispute(num_clients: int) -> None:
    """No one secret gives its mask key, so that no opening can clear it."""
    bed = world(num_clients, malicious=True)
    other = FreshPair(Secret.fresh(), "hybrid").public

    def halves(pairs: Any, reply: Keys) -> tuple[bytes, bytes]:
        return reply.mask_key.numpy().tobytes()[:32] + other[32:], reply.box_key.numpy().tobytes()

    advertise(bed, LIAR, halves)
    assert hold_round(bed) == others(num_clients, LIAR)
    assert "does not match its signed half" in bed.aggregator.blamed[LIAR]


# -------------------------------------------------------------------------------------- openings

FORMS: dict[str, Callable[[Any], Any]] = {
    "short signature": lambda m: edited(m, signature=m.signature[:, :10]),
    "folded signature": lambda m: edited(m, signature=m.signature.reshape(1, 2, 32)),
    "no signature": lambda m: edited(m, signature=m.signature[:, :0]),
    "long secret": lambda m: edited(m, secret=torch.cat([m.secret, m.secret], 1)),
    "two secrets": lambda m: edited(m, secret=m.secret.repeat(2, 1)),
    "signature of numbers": lambda m: edited(m, signature=m.signature.long()),
}


@pytest.mark.parametrize("change", FORMS.values(), ids=FORMS.keys())
def test_liar_with_opening_in_another_form_is_named(change: Callable[[Any], Any]) -> None:
    bed = world(4, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    replying(bed, LIAR, Opening, change)
    assert hold_round(bed) == others(4, LIAR)
    assert list(bed.aggregator.blamed) == [LIAR]


def test_opening_of_an_earlier_setup_names_its_sender() -> None:
    """The liar shows the key that it opened, signed, in a set-up before."""
    bed = world(6, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    handle, kept = bed.hosts[LIAR].handle, list[Message]()

    def replayed(request: Message, turn: Any) -> Message:
        reply = handle(request, turn)
        if isinstance(reply, Opening):
            kept.append(reply)
            return kept[0]
        return reply

    bed.hosts[LIAR].handle = replayed  # type: ignore[method-assign]
    exchange = bed.aggregator._exchange
    lost: list[Message] = []

    def lose_first(request: Message, reply: type[Message], clients: Clients | None = None) -> Any:
        exchanged = exchange(request, reply, clients)
        if isinstance(request, Dispute) and clients == Clients.of([LIAR]) and not lost:
            lost.append(request)
            return exchange(request, reply, Clients(()))
        return exchanged

    bed.aggregator._exchange = lose_first
    assert hold_round(bed) == others(6, LIAR), "its first opening was lost on the way"
    assert bed.aggregator.blamed == {}
    assert hold_round(bed) == others(6, LIAR)
    assert bed.aggregator.blamed == {LIAR: "sent a bad signature on the key that it opened"}


def test_two_liars_that_dispute_and_open_nothing_are_both_named() -> None:
    """Neither opens its key, so that nobody can tell which of the two lied first."""
    bed = world(7, malicious=True, dropout=0.3)
    lie_about_tag(bed, 3, 6)
    handle = bed.exchange

    def silent(request: Message, reply: type[Message], clients: Clients | None = None) -> Any:
        if isinstance(request, Dispute):
            return handle(request, reply, Clients(()))
        return handle(request, reply, clients)

    bed.aggregator._exchange = silent
    honest = [0, 1, 2, 4, 5]
    assert hold_round(bed) == honest
    assert hold_round(bed) == honest
    assert sorted(bed.aggregator.blamed) == [3, 6]
    assert same_sums(bed.sums(), bed.plain_sums(honest))
