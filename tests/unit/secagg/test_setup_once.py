"""One set-up serves many sessions: fresh masks in each, and what one opens opens no other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from securefg.foundation.errors import RoundAborted
from securefg.protocol.messages import Message
from securefg.secagg import derive
from securefg.secagg import seats as setup
from securefg.secagg.errors import Refused, SetupLost
from securefg.secagg.graph import choose_parameters
from securefg.secagg.keys import FORMAT
from securefg.secagg.messages import Advertise, Again, Keys, Ready, Revealed, Shares
from securefg.secagg.seats import SESSIONS
from securefg.secagg.secret import Secret
from securefg.secagg.statements import request_hash
from tests.unit.secagg.session_world import Ask, Upload, World, edited, same_sums, world
from tests.unit.secagg.test_across_the_run import flip, kept, restarted, tampered


def set_ups(bed: World) -> int:
    """How often the first client made fresh keys."""
    counts = Counter(type(message) for message in bed.said)
    return counts[Keys] // len(bed.layout)


def again(bed: World, **fields: Any) -> Message:
    """What the server would say next to the clients that it set up."""
    setup = bed.aggregator._setup
    assert setup is not None
    honest = Again(
        purpose=Upload.kind,
        setup=torch.frombuffer(
            bytearray(bed.aggregator._setup_id(setup.roster)), dtype=torch.uint8
        ),
        ordinal=setup.ordinal + 1,
        model_hash=torch.frombuffer(bytearray(request_hash(bed.request)), dtype=torch.uint8),
    )
    return edited(honest, **fields)


@pytest.mark.parametrize("malicious", [True, False])
@pytest.mark.parametrize("num_clients", [6, 12, pytest.param(40, marks=pytest.mark.slow)])
def test_sums_of_later_sessions_are_exact_with_drop_outs_at_every_stage(
    num_clients: int, malicious: bool
) -> None:
    bed = world(num_clients, malicious=malicious)
    everybody = set(range(num_clients))
    assert same_sums(bed.sums(), bed.plain_sums(everybody))
    for stage, gone in ((Upload, {1}), (Revealed, {2}), (Upload, {0, 3})):
        bed.drops = {stage: gone}
        left = everybody - gone if stage is Upload else everybody
        assert same_sums(bed.sums(), bed.plain_sums(left))
    bed.drops = {}
    assert same_sums(bed.sums(), bed.plain_sums(everybody))
    assert set_ups(bed) == 1


def test_a_set_up_lasts_for_so_many_sessions_and_no_more() -> None:
    bed = world(4)
    for _ in range(SESSIONS + 1):
        bed.collect()
    assert set_ups(bed) == 2


def test_a_client_that_restarted_is_set_up_again_at_once(tmp_path: Path) -> None:
    bed = kept(tmp_path, 6)
    bed.sums()
    restarted(bed, tmp_path, 2)
    assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert set_ups(bed) == 2


def test_a_large_cohort_goes_on_without_those_who_are_away_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "PATIENCE", 3)
    bed = kept(tmp_path, 34)  # the smallest cohort whose masks run along a sparse graph
    assert not choose_parameters(34, bed.settings.threat_among(34)).complete
    bed.sums()
    restarted(bed, tmp_path, 2)
    others = [n for n in range(34) if n != 2]
    for _ in range(2):
        assert same_sums(bed.sums(), bed.plain_sums(others))
    assert same_sums(bed.sums(), bed.plain_sums(range(34)))
    assert Counter(type(m) for m in bed.said)[Keys] == 68


def test_an_aborted_session_ends_its_set_up() -> None:
    bed = world(6)
    bed.drops = {Upload: {0, 1, 2}}
    with pytest.raises(RoundAborted):
        bed.sums()
    bed.drops = {}
    assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert set_ups(bed) == 2


# ------------------------------------------------------------------------- what one session opens


def test_the_key_of_a_drop_out_opens_the_roots_of_its_session_and_no_others() -> None:
    bed = world(6, drops={Upload: {2}})
    bed.sums()
    first = bed.hosts[2]._current_session()
    drop_key = first.parties[2].drop_key
    bed.drops = {}
    bed.sums()
    second = bed.hosts[2]._current_session()
    shares = [m for m in bed.said if isinstance(m, Shares | Ready) and m.wrapped is not None]
    for peer in (0, 1, 3, 4, 5):
        pair = (min(2, peer), max(2, peer))
        for session, message in ((first, shares[2]), (second, shares[8])):
            wrapped = Secret(message.wrapped[0][peer][:32].numpy().tobytes())
            drop_root = derive.session_root(drop_key, session.id)
            found = derive.wrapped_root(wrapped, drop_root, 2, peer)
            opened = found == session._roots.masks[pair].reveal()
            assert opened == (session is first)
        # Nor does the root itself lead to the next: it is no link of the chain.
        old, new = first._roots.masks[pair], second._roots.masks[pair]
        tried = [derive.next_link(old), derive.session_root(old, second.id)]
        tried.append(derive.session_root(derive.next_link(old), second.id))
        assert all(one != new for one in tried)


def test_what_a_host_keeps_gives_no_root_of_the_session_that_it_is_in() -> None:
    bed = world(4)
    for _ in range(3):
        bed.sums()
        session = bed.hosts[0]._current_session()
        for links, roots in (
            (session.seats._masks, session._roots.masks),
            (session.seats._boxes, session._roots.boxes),
        ):
            for pair, link in links.items():
                assert derive.session_root(link, session.id) != roots[pair]


def test_two_uploads_under_one_set_up_do_not_give_their_difference() -> None:
    """Nothing changes but the round: masks do, in every word."""
    bed = world(6, dim=4096)
    bed.sums()
    first = {n: rows["numbers"].copy() for n, rows in bed.masked.items()}
    bed.sums()
    for number, row in first.items():
        same = np.count_nonzero(bed.masked[number]["numbers"] == row)
        assert same <= 2


# -------------------------------------------------------------------------------- the server lies


def test_a_session_of_a_set_up_is_not_held_twice() -> None:
    bed = world(6, malicious=True)
    bed.sums()
    bed.sums()
    old = again(bed, ordinal=1)
    bed.round = 9
    with pytest.raises(Refused, match="session 1 of a set-up; wanted one from 2 on"):
        bed.answer(0, old, [0])
    with pytest.raises(SetupLost):  # nothing of the set-up is left
        bed.answer(0, again(bed), [0])


@pytest.mark.parametrize("ordinal", [SESSIONS, 10**9])
def test_a_set_up_is_not_stretched(ordinal: int) -> None:
    bed = world(6, malicious=True)
    bed.sums()
    bed.round = 2
    with pytest.raises(Refused, match="under 32"):
        bed.answer(0, again(bed, ordinal=ordinal), [0])


def test_a_round_is_not_summed_again_under_the_same_set_up() -> None:
    bed = world(6, malicious=True)
    bed.sums()
    bed.round = 0
    with pytest.raises(RoundAborted, match="before"):
        bed.sums()
    assert same_sums(bed.sums(), bed.plain_sums(range(6)))


def test_another_set_ups_clients_drop_out() -> None:
    bed = world(6, malicious=True)
    bed.sums()
    bed.round = 2
    with pytest.raises(SetupLost):
        bed.answer(0, again(bed, setup=torch.zeros(32, dtype=torch.uint8)), [0])


def test_clients_that_advertised_anew_do_not_go_back() -> None:
    bed = world(6, malicious=True)
    bed.sums()
    bed.round = 2
    bed.answer(0, Advertise(purpose=Upload.kind, version=FORMAT), [0])
    with pytest.raises(SetupLost):
        bed.answer(0, again(bed), [0])


@pytest.mark.parametrize(
    "change",
    [
        lambda request: edited(request, ordinal=request.ordinal + 1),
        lambda request: edited(request, model_hash=request.model_hash ^ 1),
        lambda request: edited(request, purpose="another"),
    ],
    ids=["another session", "another model", "another message"],
)
def test_a_client_told_of_another_session_is_left_out_of_the_sum(change: Any) -> None:
    bed = world(6, malicious=True)
    bed.sums()
    bed.masked = {}
    bed.lie(Again, change, 0)
    assert same_sums(bed.sums(), bed.plain_sums([1, 2, 3, 4, 5]))
    assert 0 not in bed.masked


def test_two_halves_in_two_sessions_of_one_set_up_open_nothing() -> None:
    bed = world(6, malicious=True)
    bed.sums()
    count = len(bed.revealed())
    bed.lie(Again, lambda request: edited(request, ordinal=request.ordinal + 1), 0, 1, 2)
    with pytest.raises((RoundAborted, Refused)):
        bed.sums()
    assert len(bed.revealed()) == count


def test_a_cohort_too_small_for_another_message_is_no_more_served() -> None:
    """What was set up for a message that few are asked for does not serve one for all."""
    bed = world(6, malicious=True)
    bed.sums()
    for host in bed.hosts:
        host._rules = replace(host._rules, cohorts={"big": 12})
    bed.round = 2
    with pytest.raises(Refused, match="a cohort of 6, under 9"):
        bed.answer(0, again(bed, purpose="big"), [0])


# ------------------------------------------------------------------------------------------- blame


@pytest.mark.parametrize("num_clients", [6, 34])
def test_a_client_that_lies_to_all_about_their_masks_is_named(num_clients: int) -> None:
    bed = world(num_clients, malicious=True)

    def change(message: Any, numbers: list[int]) -> None:
        if 3 in numbers:
            message.wrapped[numbers.index(3), :, 40] ^= 1

    tampered(bed, Ready, change)
    wanted = [n for n in range(num_clients) if n != 3]
    assert same_sums(bed.sums(), bed.plain_sums(wanted))
    assert list(bed.aggregator.blamed) == [3]


def test_a_drop_out_that_wrapped_something_else_is_named() -> None:
    bed = world(6, malicious=True, drops={Upload: {3}})
    tampered(bed, Ready, flip("wrapped", 3, 1, 0))
    with pytest.raises(RoundAborted, match="is no root of its masks"):
        bed.sums()
    assert list(bed.aggregator.blamed) == [3]
    bed.drops = {}
    bed.aggregator._exchange = bed.exchange
    assert same_sums(bed.sums(), bed.plain_sums([0, 1, 2, 4, 5]))


def test_a_session_for_another_request_is_refused_before_anything_leaves() -> None:
    bed = world(6, malicious=True)
    bed.sums()
    bed.masked = {}
    bed.lie(Ask, lambda ask: Ask(model=torch.zeros(4)), 0)
    with pytest.raises(Refused, match="not the one that this session was made for"):
        bed.sums()
    assert 0 not in bed.masked


def test_parts_for_recipients_leave_in_the_first_session_of_a_set_up_alone() -> None:
    """Their pads come from key pairs that are gone afterwards."""
    bed = world(6)
    bed.sums()
    bed.round = 2
    bed.aggregator._round = 2
    for host in range(6):
        bed.answer(host, again(bed), [host])
    session = bed.hosts[0]._current_session()
    session.sharers, session.answered = tuple(range(6)), True
    parts = replace(bed.context(Upload, "numbers"), length=6, recipients=6)
    with pytest.raises(Refused, match="take a set-up of their own"):
        bed.hosts[0].mask(np.zeros((1, 6), np.uint32), [0], parts)
    assert bed.hosts[0]._session is None
