"""Lies that an earlier session took: each of them is refused, and nothing of the session leaves."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

from securefg.foundation.errors import SecurefgError
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg import derive, shamir
from securefg.secagg.dealt import Dealt
from securefg.secagg.errors import Refused
from securefg.secagg.graph import choose_parameters
from securefg.secagg.masks import Mask, Sign, apply_masks
from securefg.secagg.messages import (
    Agreed,
    Deliver,
    Keys,
    Ready,
    Revealed,
    Shares,
    Survivors,
    Unmask,
)
from tests.unit.secagg.session_world import Upload, edited, same_sums, world
from tests.unit.secagg.test_lying_server import lists


def test_a_client_outside_the_session_is_not_masked_under_anothers_name() -> None:
    """Clients 0..5 on one host and 6, 7 elsewhere; 2 is left out of the session, then asked."""
    bed = world(8, layout=[[0, 1, 2, 3, 4, 5], [6], [7]], drops={Keys: {2}})
    bed.collect()
    bed.drops = {}
    # a fresh session without client 2 up to the delivery
    bed.silent = {2}
    bed.round = bed.aggregator._round = 2
    agg = bed.aggregator
    everyone = [0, 1, 3, 4, 5, 6, 7]
    keys = agg._ask_for_keys(Upload, Clients.of(everyone))
    roster, graph = agg._gather_keys(keys, bed.request, Upload)
    shares = agg._run_step(roster, Shares, Clients.of(everyone), graph)
    agg._deliver_boxes(Dealt(shares, everyone, graph), graph)
    try:
        bed.answer(0, bed.request, [0, 1, 2, 3, 4, 5])
    except SecurefgError:
        return
    assert not np.array_equal(bed.masked[2]["numbers"], bed.rows["numbers"][2]), "sent in the clear"


def test_a_client_listed_twice_is_not_sent_bare() -> None:
    bed = world(6, layout=[[0, 1, 2], [3, 4, 5]])
    bed.drops = {Upload: {0, 1, 2, 3, 4, 5}}
    with pytest.raises(SecurefgError):
        bed.collect()
    rows = bed.rows["numbers"][[0, 0]].copy()
    plain = rows.copy()
    try:
        bed.hosts[0].mask(rows, [0, 0], bed.context(Upload, "numbers"))
    except SecurefgError:
        return
    assert not np.array_equal(rows[0], plain[0]), "sent in the clear"


def test_a_client_all_of_whose_neighbours_are_said_to_be_gone_does_not_upload() -> None:
    bed = world(40, layout=[[0], list(range(1, 40))], malicious=True, dropout=0.05)
    edited_fields = {}

    def alone(request: Deliver) -> Message:
        session = bed.hosts[0]._session
        near = set(session.graph.neighbours(0))
        edited_fields["sharers"] = [n for n in range(40) if n not in near]
        return edited(request, sharers=edited_fields["sharers"])

    bed.lie(Deliver, alone, 0)
    with contextlib.suppress(Refused):
        bed.collect()  # client 0 is asked to agree/unmask only if it is told the truth
    if 0 not in bed.masked:
        return
    # The server: masked row of 0 minus its self mask, whose seed the neighbours' shares give.
    total = bed.masked[0]["numbers"].copy()
    session = bed.hosts[0]._session
    key = derive.self_mask_key(
        session.parties[0].seed, session.id, 0, bed.context(Upload, "numbers")
    )
    apply_masks(total, [Mask(key, Sign.SUBTRACT)])
    assert not np.array_equal(total, bed.rows["numbers"][0]), "no pair mask is on the upload"


def test_a_server_opens_one_upload_end_to_end() -> None:
    """The whole attack of F2: the seed comes out of real shares that honest clients reveal."""
    bed = world(40, layout=[[0], list(range(1, 40))], malicious=True, dropout=0.05)
    agg = bed.aggregator
    bed.round = agg._round = 1
    roster, graph = agg._gather_keys(agg._ask_for_keys(Upload, None), bed.request, Upload)
    session = agg._setup_id(roster)
    numbers = list(range(40))
    shares = agg._run_step(roster, Shares, Clients.of(numbers), graph)
    near = set(graph.neighbours(0))
    bed.lie(Deliver, lambda d: edited(d, sharers=[n for n in numbers if n not in near]), 0)
    try:
        agg._deliver_boxes(Dealt(shares, numbers, graph), graph)
        replies = agg._run_step(bed.request, Upload, Clients.of(numbers), graph)
    except Refused:
        return
    others = Clients.of(numbers[1:])  # client 0 is never asked again
    survivors = torch.arange(40)
    agreed = bed.exchange(Survivors(clients=survivors), Agreed, others)
    request = Unmask(
        survivors=survivors,
        dropped=torch.empty(0, dtype=torch.int64),
        signers=torch.tensor(numbers[1:]),
        signatures=agreed.message.signature,
    )
    revealed = bed.exchange(request, Revealed, others)
    seed_shares = []
    for number, row, which in zip(
        revealed.clients.numbers(),
        revealed.message.shares,
        revealed.message.which.tolist(),
        strict=True,
    ):
        for owner, share, kind in zip(graph.holders(number), row, which, strict=True):
            if owner == 0 and kind == 1:
                seed_shares.append(shamir.Share.decode(number + 1, share.numpy().tobytes()))
    seed = shamir.combine_shares(seed_shares, graph.parameters.threshold, lambda secret: None)
    upload = replies.message.numbers[0].numpy().view(np.uint32).copy()
    context = bed.context(Upload, "numbers")
    apply_masks(upload, [Mask(derive.self_mask_key(seed, session, 0, context), Sign.SUBTRACT)])
    assert not np.array_equal(upload, bed.rows["numbers"][0]), "one client's upload lies open"


def test_signatures_of_an_earlier_session_do_not_count() -> None:
    bed = world(8, malicious=True)
    kept = []
    bed.lie(Unmask, lambda u: kept.append(u) or u, 0)
    bed.collect()
    before = len(bed.revealed())
    bed.lies.clear()
    bed.round = bed.aggregator._round = 2  # the round was aborted, say, so the model is the same
    bed.drops = {}
    agg = bed.aggregator
    roster, graph = agg._gather_keys(agg._ask_for_keys(Upload, None), bed.request, Upload)
    everyone = list(range(8))
    shares = agg._run_step(roster, Shares, Clients.of(everyone), graph)
    agg._deliver_boxes(Dealt(shares, everyone, graph), graph)
    bed.exchange(bed.request, Upload)
    bed.answer(0, Survivors(clients=torch.arange(8)), [0])  # nobody else is asked to agree
    with pytest.raises(SecurefgError):
        bed.answer(0, kept[0], [0])
    assert len(bed.revealed()) == before


def test_nothing_of_a_session_leaves_after_a_refusal() -> None:
    bed = world(6)
    kept = []

    def liar(request: Unmask) -> Message:
        kept.append(request)
        return lists([1, 2, 3, 4, 5], [0])(request)

    bed.lie(Unmask, liar, 0)
    with pytest.raises(Refused):
        bed.collect()
    with pytest.raises(SecurefgError):
        bed.answer(0, kept[0], [0])
    assert not bed.revealed()


def test_a_sender_whose_box_did_not_open_is_left_out_of_the_sum() -> None:
    bed = world(6)

    def liar(d: Deliver) -> Message:
        if d.boxes is None:
            return d
        boxes = d.boxes.clone()
        boxes[0, 2, 40] ^= 1
        return edited(d, boxes=boxes)

    bed.lie(Deliver, liar, 0, 1)  # two holders: one alone would not be believed
    assert same_sums(bed.sums(), bed.plain_sums([0, 1, 3, 4, 5]))
    assert list(bed.aggregator.blamed) == [2]


def test_in_a_sparse_cohort_two_halves_with_two_lists_open_nothing() -> None:
    sides = [list(range(18)), list(range(18, 36))]
    bed = world(36, layout=sides, malicious=True, dropout=0.05)
    assert not choose_parameters(36, bed.settings.threat_among(36)).complete
    halves = [list(range(35)), list(range(1, 36))]
    for half_clients, side in zip(halves, sides, strict=True):
        bed.lie(Survivors, lambda s, t=half_clients: edited(s, clients=t), *side)
        gone = [n for n in range(36) if n not in half_clients]
        bed.lie(
            Unmask,
            lambda u, t=half_clients, g=gone, s=side: edited(
                lists(t, g)(u),
                signers=[n for n in s if n in t],
                signatures=u.signatures[[n for n in s if n in t]],
            ),
            *side,
        )
    # each host replies for those of its side that are on its list
    with contextlib.suppress(SecurefgError):
        bed.collect()
    assert not bed.revealed()


def test_a_big_cohort_is_not_unmasked_for_three_survivors() -> None:
    bed = world(40, layout=[[0], list(range(1, 40))])
    bed.lie(Unmask, lists([0, 1, 2], list(range(3, 40))), 0)
    with pytest.raises(SecurefgError):
        bed.collect()
    assert not bed.revealed()


def test_a_refusal_is_a_refusal_in_every_engine() -> None:
    from securefg.engines.processes import _raise_breach

    with pytest.raises(Refused):
        _raise_breach({"breach": "Refused", "reason": "no"})


def test_sharers_named_twice_do_not_count_twice() -> None:
    bed = world(8)
    bed.lie(Deliver, lambda d: edited(d, sharers=[0, 0, 0, 0, 1, 1]), 0)
    with pytest.raises(SecurefgError):
        bed.collect()
    assert not any(isinstance(m, Ready) for m in bed.said)


def test_an_unmask_before_the_upload_is_refused() -> None:
    bed = world(6)
    bed.drops = {Upload: set(range(6))}
    with pytest.raises(SecurefgError):
        bed.collect()
    with pytest.raises(SecurefgError):
        bed.answer(
            0,
            Unmask(
                survivors=torch.arange(6),
                dropped=torch.empty(0, dtype=torch.int64),
                signers=torch.empty(0, dtype=torch.int64),
                signatures=torch.empty(0, 64, dtype=torch.uint8),
            ),
            [0],
        )
    assert not bed.revealed()
