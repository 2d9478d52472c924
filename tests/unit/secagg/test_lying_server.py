"""Every lie that a server could open a single upload with is refused, and it learns nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from securefg.foundation.errors import RoundAborted, SecurefgError
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg import boxes, derive
from securefg.secagg.dealt import Dealt
from securefg.secagg.errors import BadKey, BadSignature, Refused
from securefg.secagg.keys import FORMAT
from securefg.secagg.masks import Mask, Sign, apply_masks
from securefg.secagg.messages import (
    Advertise,
    Agreed,
    Deliver,
    Keys,
    Ready,
    Revealed,
    Roster,
    Shares,
    Survivors,
    Unmask,
)
from securefg.secagg.session import Session
from securefg.secagg.statements import request_hash
from tests.unit.secagg.session_world import (
    Ask,
    Change,
    Upload,
    World,
    edited,
    everything_made,
    same_sums,
    world,
)

ROSTER_COLUMNS = ("clients", "mask_keys", "box_keys", "signatures")


def rows_of(roster: Roster, rows: list[int]) -> Message:
    """The roster with other rows, as they stand in it."""
    return edited(roster, **{name: getattr(roster, name)[rows] for name in ROSTER_COLUMNS})


def flipped(values: torch.Tensor, *place: int) -> torch.Tensor:
    changed = values.clone()
    changed[place] ^= 1
    return changed


def swapped(name: str) -> Change:
    """Keys of clients 1 and 2 in one another's place, each with the other's signature or not."""

    def change(roster: Roster) -> Message:
        return edited(roster, **{name: getattr(roster, name)[[0, 2, 1, 3, 4, 5]]})

    return change


def refused(bed: World, error: type[SecurefgError], match: str | None = None) -> None:
    """The session ends in this error, and before it no share of any kind was revealed."""
    with pytest.raises(error, match=match):
        bed.collect()
    assert not bed.revealed()


ROSTERS: dict[str, tuple[Change, type[SecurefgError], str]] = {
    "a client twice": (
        lambda r: rows_of(r, [0, 1, 1, 2, 3, 4, 5]),
        Refused,
        "names a client twice",
    ),
    "out of order": (lambda r: rows_of(r, [0, 2, 1, 3, 4, 5]), Refused, "or out of order"),
    "without the receiver": (lambda r: rows_of(r, [1, 2, 3, 4, 5]), Refused, "leaves out a client"),
    "a stranger": (
        lambda r: edited(r, clients=[0, 1, 2, 3, 4, 6]),
        Refused,
        "a client that nobody knows",
    ),
    "a number below zero": (
        lambda r: edited(rows_of(r, [1, 0, 2, 3, 4, 5]), clients=[-1, 0, 2, 3, 4, 5]),
        Refused,
        "a client that nobody knows",
    ),
    "a client under another's name": (
        lambda r: edited(rows_of(r, [0, 1, 2, 3, 4]), clients=[0, 1, 2, 3, 5]),
        BadSignature,
        "advertise",
    ),
    "two clients": (lambda r: rows_of(r, [0, 1]), Refused, "a cohort of 2, under 3"),
    "one client": (lambda r: rows_of(r, [0]), Refused, "a cohort of 1, under 3"),
    "mask keys swapped": (swapped("mask_keys"), BadSignature, "advertise"),
    "box keys swapped": (swapped("box_keys"), BadSignature, "advertise"),
    "signatures swapped": (swapped("signatures"), BadSignature, "advertise"),
    "a mask key changed": (
        lambda r: edited(r, mask_keys=flipped(r.mask_keys, 3, 0)),
        BadSignature,
        "advertise",
    ),
    "a box key changed": (
        lambda r: edited(r, box_keys=flipped(r.box_keys, 3, 31)),
        BadSignature,
        "advertise",
    ),
    "mask and box keys exchanged": (
        lambda r: edited(r, mask_keys=r.box_keys, box_keys=r.mask_keys),
        BadSignature,
        "advertise",
    ),
}


@pytest.mark.parametrize(("change", "error", "words"), ROSTERS.values(), ids=ROSTERS.keys())
def test_a_false_roster_is_refused(change: Change, error: type[SecurefgError], words: str) -> None:
    bed = world(6)
    bed.lie(Roster, change, 0)
    refused(bed, error, words)
    assert not any(isinstance(message, Shares) for message in bed.said)


def test_a_cohort_under_a_higher_minimum_is_refused() -> None:
    bed = world(6, min_clients=6)
    bed.lie(Roster, lambda r: rows_of(r, [0, 1, 2, 3, 4]), 0)
    refused(bed, Refused, "a cohort of 5, under 6")


def answered(bed: World, request: Message, reply: type[Message]) -> Any:
    return bed.exchange(request, reply).message


def roster_of(bed: World, keys: Keys) -> Roster:
    return Roster(
        clients=torch.arange(len(keys.mask_key)),
        mask_keys=keys.mask_key,
        box_keys=keys.box_key,
        signatures=keys.signature,
        with_pads=False,
        model_hash=torch.frombuffer(bytearray(request_hash(bed.request)), dtype=torch.uint8),
    )


def test_an_older_key_of_the_clients_own_is_refused() -> None:
    """Signed by itself in this round, but its secret belongs to another session."""
    bed = world(4)
    older = answered(bed, Advertise(purpose=Upload.kind, version=FORMAT), Keys)
    newer = answered(bed, Advertise(purpose=Upload.kind, version=FORMAT), Keys)
    mixed = {
        name: torch.cat([getattr(older, name)[:1], getattr(newer, name)[1:]])
        for name in Keys.declarations
    }
    with pytest.raises(Refused, match="another key for client 0 than its own"):
        bed.answer(0, roster_of(bed, Keys(**mixed)), [0])


@pytest.mark.parametrize(
    ("round", "purpose"), [(2, Upload.kind), (1, "another.Message")], ids=["round", "purpose"]
)
def test_keys_of_another_round_or_message_do_not_verify(round: int, purpose: str) -> None:
    bed = world(4)
    older = answered(bed, Advertise(purpose=Upload.kind, version=FORMAT), Keys)
    bed.round = round
    answered(bed, Advertise(purpose=purpose, version=FORMAT), Keys)
    with pytest.raises(BadSignature):
        bed.answer(0, roster_of(bed, older), [0])


def test_keys_signed_under_another_config_do_not_verify() -> None:
    bed = world(4)
    keys = answered(bed, Advertise(purpose=Upload.kind, version=FORMAT), Keys)
    bed.hosts[0]._config = b"another config"
    with pytest.raises(BadSignature):
        bed.answer(0, roster_of(bed, keys), [0])


def test_a_key_of_low_order_is_refused_though_its_owner_signed_it() -> None:
    """A corrupt client's: with it, everybody would know the secret that a pair agrees on."""
    bed = world(4)
    keys = answered(bed, Advertise(purpose=Upload.kind, version=FORMAT), Keys)
    session = bed.hosts[3]._session
    keys.box_key[3, :32] = 0
    both = [key[3].numpy().tobytes() for key in (keys.mask_key, keys.box_key)]
    said = bed.hosts[3]._advertised_items(session, 3, *both)
    forged = bed.hosts[3]._identities[3].sign("advertise", *said)
    keys.signature[3] = torch.frombuffer(bytearray(forged), dtype=torch.uint8)
    with pytest.raises(BadKey):
        bed.answer(0, roster_of(bed, keys), [0])


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [0, 1, 2]], ids=["the same", "another"])
def test_a_second_roster_in_one_session_is_refused(rows: list[int]) -> None:
    bed = world(4)
    roster = roster_of(bed, answered(bed, Advertise(purpose=Upload.kind, version=FORMAT), Keys))
    bed.answer(0, roster, [0])
    with pytest.raises(Refused, match="a second roster"):
        bed.answer(0, rows_of(roster, rows), [0])


# ------------------------------------------------------------------------------------ deliveries


DELIVERIES: dict[str, tuple[Change, type[SecurefgError], str]] = {
    "the receiver left out": (
        lambda d: edited(d, sharers=[1, 2, 3, 4, 5]),
        Refused,
        "leave out the receiver",
    ),
    "a stranger among them": (
        lambda d: edited(d, sharers=[0, 1, 2, 3, 4, 6]),
        Refused,
        "are not of this session",
    ),
    "under the threshold": (lambda d: edited(d, sharers=[0, 1, 2]), Refused, "only 3 clients"),
}


@pytest.mark.parametrize(("change", "error", "words"), DELIVERIES.values(), ids=DELIVERIES.keys())
def test_a_false_delivery_is_refused(
    change: Change, error: type[SecurefgError], words: str
) -> None:
    bed = world(6)
    bed.lie(Deliver, change, 0)
    refused(bed, error, words)
    assert not any(isinstance(message, Ready) for message in bed.said)


def test_boxes_of_another_session_do_not_open_and_the_sum_is_that_of_all() -> None:
    """The same clients and model; only the keys are of an earlier session. Who finds all boxes bad
    proves nobody wrong but lacks their shares."""
    bed = world(6)
    kept: list[Any] = []
    bed.lie(Deliver, lambda d: kept.append(d.boxes) or d, 0)
    bed.collect()
    bed.said.clear()
    bed.lie(Deliver, lambda d: edited(d, boxes=kept[0]), 0)
    assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert bed.aggregator.blamed == {}
    told = [message for message in bed.said if isinstance(message, Ready)]
    assert told[0].bad.tolist() == [[1] * 6]


def test_shares_are_taken_once() -> None:
    bed = world(4)
    kept: list[Deliver] = []
    bed.lie(Deliver, lambda d: kept.append(d) or d, 0)
    bed.collect()
    with pytest.raises(Refused, match="after the masked reply"):
        bed.answer(0, kept[0], [0])


def test_shares_before_the_roster_are_refused() -> None:
    bed = world(4)
    answered(bed, Advertise(purpose=Upload.kind, version=FORMAT), Keys)
    empty: dict[str, Any] = {"boxes": torch.zeros(1, 4, 94), "share_digests": torch.zeros(1, 4, 64)}
    empty |= {"box_ciphertexts": None, "mask_ciphertexts": None}
    with pytest.raises(Refused, match="before the roster"):
        bed.answer(0, Deliver(sharers=torch.arange(4), **empty), [0])


# ------------------------------------------------------------------------------------ the request


def test_a_request_other_than_the_one_hashed_into_the_session_is_refused() -> None:
    bed = world(4)
    bed.lie(Ask, lambda ask: edited(ask, model=ask.model + 1e-7), 0)
    refused(bed, Refused, "not the one that this session was made for")
    assert not bed.masked


def test_a_request_before_the_shares_is_refused() -> None:
    bed = world(4)
    roster = roster_of(bed, answered(bed, Advertise(purpose=Upload.kind, version=FORMAT), Keys))
    bed.answer(0, roster, [0])
    with pytest.raises(Refused, match="not the one that this session was made for"):
        bed.answer(0, bed.request, [0])


def shown_another_model(bed: World) -> None:
    other = Ask(model=torch.full((4,), 9.0))
    digest = torch.frombuffer(bytearray(request_hash(other)), dtype=torch.uint8)
    bed.lie(Roster, lambda roster: edited(roster, model_hash=digest), 0)
    bed.lie(Ask, lambda ask: other, 0)


def test_a_client_shown_another_model_is_in_a_session_of_its_own() -> None:
    """Its boxes do not open elsewhere, nor others' boxes at it: it is left out of the sum."""
    bed = world(5)
    shown_another_model(bed)
    assert same_sums(bed.sums(), bed.plain_sums([1, 2, 3, 4]))
    assert list(bed.aggregator.blamed) == [0]
    assert 0 not in bed.masked


def test_masks_do_not_cancel_where_one_client_was_shown_another_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if boxes opened and all seeds were known, the sum would be uniform garbage."""
    monkeypatch.setattr(boxes, "open_box", lambda *arguments: bytes(66))
    monkeypatch.setattr(Session, "open_boxes", lambda self, *arguments: [0] * 5)
    monkeypatch.setattr(Dealt, "at_odds", lambda self: [])
    garbage, honest = (bare_sum(told) for told in (shown_another_model, lambda bed: None))
    assert not honest.any()
    counts = np.bincount(garbage.view(np.uint8), minlength=256)
    expected = garbage.nbytes / 256
    assert ((counts - expected) ** 2 / expected).sum() < 460  # once in 10^13 at 255 degrees


def bare_sum(told: Callable[[World], None]) -> np.ndarray:
    """The uploads added up, without all self masks and without the plain sum."""
    bed = world(5, dim=4096)
    told(bed)
    with pytest.raises(SecurefgError):  # the boxes held zeros: nothing can be rebuilt
        bed.collect()
    context = bed.context(Upload, "numbers")
    total = sum((bed.masked[n]["numbers"] for n in range(5)), -bed.plain_sums(range(5))["numbers"])
    for place, host in enumerate(bed.hosts):
        session = host._session
        key = derive.self_mask_key(session.parties[place].seed, session.id, place, context)
        apply_masks(total, [Mask(key, Sign.SUBTRACT)])
    return total


# ---------------------------------------------------------------------------------- the unmasking


def lists(survivors: list[int], dropped: list[int]) -> Change:
    return lambda request: edited(
        request, survivors=survivors, dropped=torch.tensor(dropped, dtype=torch.int64)
    )


UNMASKS: dict[str, tuple[Change, str]] = {
    "alive and dropped": (lists([0, 1, 2, 3, 4, 5], [1]), "both as alive and as dropped"),
    "all alive and dropped": (lists([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]), "both as alive and"),
    "the receiver dropped": (lists([1, 2, 3, 4, 5], [0]), "is not among the survivors"),
    "an unknown survivor": (lists([0, 1, 2, 3, 4, 5, 6], []), "not the clients that shared"),
    "an unknown dropped": (lists([0, 1, 2, 3, 4, 5], [6]), "not the clients that shared"),
    "a survivor below zero": (lists([0, 1, 2, 3, 4, 5, -1], []), "not the clients that shared"),
    "somebody left out": (lists([0, 1, 2, 3, 4], []), "not the clients that shared"),
    "a survivor twice": (lists([0, 1, 2, 3, 4, 5, 5], []), "name a client twice"),
    "a survivor twice, to pass the threshold": (
        lists([0, 1, 2, 2, 2, 2], [3, 4, 5]),
        "name a client twice",
    ),
    "under the threshold": (lists([0, 1, 2], [3, 4, 5]), "3 survivors, under the 4"),
    "one survivor": (lists([0], [1, 2, 3, 4, 5]), "1 survivors, under the 4"),
    "no survivor": (lists([], [0, 1, 2, 3, 4, 5]), "is not among the survivors"),
}


@pytest.mark.parametrize(("change", "words"), UNMASKS.values(), ids=UNMASKS.keys())
def test_a_false_list_of_survivors_opens_nothing(change: Change, words: str) -> None:
    bed = world(6)
    bed.lie(Unmask, change, 0)
    refused(bed, Refused, words)


@pytest.mark.parametrize(
    "change",
    [change for name, (change, _) in UNMASKS.items() if "all alive" not in name],
    ids=[name for name in UNMASKS if "all alive" not in name],
)
def test_against_a_malicious_server_a_false_list_opens_nothing_either(change: Change) -> None:
    bed = world(6, malicious=True)
    bed.lie(Unmask, change, 0)
    refused(bed, Refused)


def test_fewer_survivors_than_the_noise_was_planned_for_are_refused() -> None:
    """Six of eight pass the threshold, but their sum would lack noise."""
    world(8, drops={Upload: {6, 7}}).collect()
    bed = world(8, least_survivors={Upload.kind: 7}, drops={Upload: {6, 7}})
    bed.aggregator._least_survivors = {}  # a server that does not care
    refused(bed, Refused, "6 survivors, under the 7")


def test_under_distributed_noise_the_server_aborts_before_it_asks() -> None:
    bed = world(8, least_survivors={Upload.kind: 7}, drops={Upload: {0, 1}})
    with pytest.raises(RoundAborted, match=r"6 clients answered .*, 7 are needed"):
        bed.collect()
    assert not bed.revealed()


@pytest.mark.parametrize("malicious", [False, True])
@pytest.mark.parametrize("dropped", [[], [6, 7]], ids=["the same", "another"])
def test_a_second_unmask_is_refused(malicious: bool, dropped: list[int]) -> None:
    """Answered, it would add the mask keys of clients whose seeds are known by then."""
    bed = world(8, malicious=malicious)
    kept: list[Unmask] = []
    bed.lie(Unmask, lambda request: kept.append(request) or request, 0)
    bed.collect()
    count = len(bed.revealed())
    alive = [n for n in range(8) if n not in dropped]
    with pytest.raises(Refused, match="a second unmask"):
        bed.answer(0, lists(alive, dropped)(kept[0]), [0])
    assert len(bed.revealed()) == count


def test_a_second_unmask_is_refused_to_every_client_of_the_host() -> None:
    bed = world(8, layout=[[0, 1, 2, 3], [4, 5, 6, 7]])
    kept: list[Unmask] = []
    bed.lie(Unmask, lambda request: kept.append(request) or request)
    bed.collect()
    with pytest.raises(Refused, match="a second unmask"):
        bed.answer(0, kept[0], [1])


# ------------------------------------------------------------------- against a malicious server


def test_survivors_other_than_those_signed_are_refused() -> None:
    bed = world(8, malicious=True)
    bed.lie(Unmask, lists([0, 1, 2, 3, 4, 5, 6], [7]), 0)
    refused(bed, Refused, "not those that were agreed on")


def test_survivors_in_another_order_are_not_those_signed() -> None:
    bed = world(6, malicious=True)
    bed.lie(Unmask, lists([1, 0, 2, 3, 4, 5], []), 0)
    refused(bed, Refused, "not those that were agreed on")


def test_a_client_that_never_agreed_reveals_nothing() -> None:
    bed = world(6, malicious=True)
    agreed_before = bed.aggregator._run_step

    def without_asking(
        request: Message, reply: Any, clients: Clients, *rest: Any, **how: Any
    ) -> Any:
        if reply is Agreed:
            clients = Clients.of([n for n in clients.numbers() if n != 0])
        if reply is Revealed:
            clients = Clients.of([0])
        return agreed_before(request, reply, clients, *rest, **how)

    bed.aggregator._run_step = without_asking
    refused(bed, Refused, "not those that were agreed on")


def signed_by(rows: list[int]) -> Change:
    return lambda u: edited(u, signers=u.signers[rows], signatures=u.signatures[rows])


AGREEMENTS: dict[str, tuple[Change, type[SecurefgError], str]] = {
    "one under the threshold": (signed_by([0, 1, 2, 3, 4]), Refused, "5 signatures on the surv"),
    "no signature": (signed_by([]), Refused, "0 signatures on the survivors, under 6"),
    "one signature six times": (signed_by([1] * 6), Refused, "not those that were agreed on"),
    "a signature changed": (
        lambda u: edited(u, signatures=flipped(u.signatures, 4, 3)),
        BadSignature,
        "survivors",
    ),
    "signatures under others' names": (
        lambda u: edited(u, signatures=u.signatures.roll(1, 0)),
        BadSignature,
        "survivors",
    ),
}


@pytest.mark.parametrize(("change", "error", "words"), AGREEMENTS.values(), ids=AGREEMENTS.keys())
def test_shares_go_out_only_after_enough_valid_signatures(
    change: Change, error: type[SecurefgError], words: str
) -> None:
    bed = world(8, malicious=True)
    bed.lie(Unmask, change, 0)
    refused(bed, error, words)


def test_a_signature_by_a_client_that_is_no_survivor_does_not_count() -> None:
    """It signed the list as told; but it is not on it, so it may be the server's own."""
    bed = world(8, malicious=True, drops={Upload: {7}})

    def with_the_dropped(request: Unmask) -> Message:
        session = bed.hosts[0]._session
        said = (session.id, tuple(request.survivors.tolist()))
        extra = bed.hosts[7]._identities[7].sign("survivors", *said)
        row = torch.frombuffer(bytearray(extra), dtype=torch.uint8)[None]
        return edited(
            request,
            signers=torch.tensor([*request.signers.tolist()[1:], 7]),
            signatures=torch.cat([request.signatures[1:], row]),
        )

    bed.lie(Unmask, with_the_dropped, 0)
    refused(bed, Refused, "a signature by a client that is no survivor")


def test_two_survivor_sets_told_to_two_halves_open_nothing() -> None:
    """Each half signs what it was told; neither list gets the threshold of signatures."""
    bed = world(8, malicious=True)
    halves = {n: [0, 1, 2, 3, 4, 5, 6] if n < 4 else [1, 2, 3, 4, 5, 6, 7] for n in range(8)}
    for half in (range(4), range(4, 8)):
        told = halves[half[0]]
        bed.lie(Survivors, lambda s, told=told: edited(s, clients=told), *half)

    def with_own_half(survivors: list[int], half: list[int]) -> Change:
        missing = [n for n in range(8) if n not in survivors]
        return lambda u: edited(
            lists(survivors, missing)(u), signers=half, signatures=u.signatures[half]
        )

    bed.lie(Unmask, with_own_half(halves[0], [0, 1, 2, 3]), 0, 1, 2, 3)
    bed.aggregator._is_signed = lambda *arguments: True  # it knows what it told whom
    refused(bed, Refused, "4 signatures on the survivors, under 6")


def test_signatures_of_the_other_half_do_not_make_up_for_it() -> None:
    bed = world(8, malicious=True)
    first = [0, 1, 2, 3, 4, 5, 6]
    bed.lie(Survivors, lambda s: edited(s, clients=first), 0, 1, 2, 3)
    bed.lie(Unmask, lambda u: lists(first, [7])(signed_by(first)(u)), 0)
    bed.aggregator._is_signed = lambda *arguments: True
    refused(bed, BadSignature, "survivors")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([1, 2, 3, 4, 5, 6, 7], "is not among the survivors"),
        ([0, 1, 2, 3, 4], "5 survivors, under the 6"),
        ([0, 1, 2, 3, 4, 4], "name a client twice"),
        ([0, 1, 2, 3, 4, 5, 6, 8], "or one that shared no keys"),
    ],
)
def test_a_false_list_is_not_signed(told: list[int], words: str) -> None:
    bed = world(8, malicious=True)
    bed.lie(Survivors, lambda s: edited(s, clients=told), 0)
    refused(bed, Refused, words)
    assert not any(isinstance(message, Agreed) for message in bed.said)


def test_nobody_signs_two_lists() -> None:
    bed = world(8, malicious=True)
    bed.collect()
    with pytest.raises(Refused, match="asked twice to agree"):
        bed.answer(0, Survivors(clients=torch.arange(7)), [0])


# ----------------------------------------------------------------------------- what errors show


def test_no_refusal_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    lies = [
        *((Roster, change) for change, _, _ in ROSTERS.values()),
        *((Deliver, change) for change, _, _ in DELIVERIES.values()),
        *((Unmask, change) for change, _ in UNMASKS.values()),
        (Ask, lambda ask: edited(ask, model=ask.model + 1)),
    ]
    with everything_made(monkeypatch) as made:
        for about, change in lies:
            bed = world(6)
            bed.lie(about, change, 0)
            with pytest.raises(SecurefgError) as error:
                bed.collect()
            texts.append(f"{error.value!r} {error.value} {error.value.__dict__}")
        bed = world(6)
        bed.collect()
        with pytest.raises(Refused) as error:
            bed.answer(0, bed.request, [0])
        texts.append(str(error.value))
    assert len(texts) == len(lies) + 1
    assert made.found_in("\n".join(texts).encode()) == []
