"""Where no evidence tells which of two clients lies, no honest client pays for ever."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from securefg.foundation.errors import RoundAborted
from securefg.protocol.messages import Message
from securefg.secagg.client import SecureClients
from securefg.secagg.disputes import Court
from securefg.secagg.errors import Refused
from securefg.secagg.graph import is_always_complete
from securefg.secagg.messages import Advertise, Dispute, Opening, Revealed, Shares, Unmask
from securefg.secagg.odds import Odds
from tests.unit.secagg.session_world import (
    CONFIG_HASH,
    Upload,
    World,
    edited,
    identity,
    same_sums,
    world,
)
from tests.unit.secagg.test_blame import lie_about_tag, others, replying


def hold_round(bed: World) -> list[int] | None:
    """Return whose uploads are in the round's sum; None where the round aborted."""
    try:
        opened = bed.collect()
    except RoundAborted:
        return None
    sums = {n: opened.total(n, bed.context(Upload, n)) for n in Upload.declarations}
    assert same_sums(sums, bed.plain_sums(opened.survivors))
    return list(opened.survivors)


# --------------------------------------------------------------------------------- the pairs alone


def test_odds_part_one_pair_takes_turns() -> None:
    odds = Odds({})
    odds.note([(3, 7)])
    assert [odds.part_pairs([(3, 7)]) for _ in range(4)] == [{3}, {7}, {3}, {7}]


def test_odds_part_leaves_out_who_is_at_odds_with_most() -> None:
    odds = Odds({})
    odds.note([(1, 9), (9, 2), (4, 9)])
    assert odds.part_pairs([(1, 9), (2, 9), (4, 9)]) == {9}
    assert odds.part_pairs([(4, 9)]) == {9}, "it is at odds with three, and 4 with one"


def test_odds_name_who_is_at_odds_with_more_than_liars() -> None:
    blamed = {2: "sent a bad key"}
    odds = Odds(blamed)
    odds.note([(1, 9), (9, 1), (9, 2)])
    assert odds.clients_at_odds([1, 9], 1) == [], (
        "one pair counts once, and a blamed client not at all"
    )
    odds.note([(4, 9)])
    assert odds.clients_at_odds([1, 4, 9], 1) == [9]


# --------------------------------------------------------------------------------- sparse graphs


def test_sparse_graph_liar_with_one_victim_takes_turns_with_it() -> None:
    """Before, both stayed out of every sum, and the victim paid for ever."""
    bed = world(36, malicious=True, layout=[[3], others(36, 3)])
    lie_about_tag(bed, 3, 7)
    found = [hold_round(bed) for _ in range(4)]
    members = [set(one) for one in found if one is not None]
    assert len(members) == 4
    disputed = [one for one in members if len(one) == 35]
    assert len(disputed) >= 2
    assert sum(7 in one for one in members) >= 2
    assert bed.aggregator.blamed == {}


# --------------------------------------------------------------------------- complaints about boxes


def deal_bad_box(bed: World, liar: int, *victims: int) -> None:
    def change(message: Any) -> Message:
        boxes = message.boxes.clone()
        boxes[0, list(victims), -1] ^= 1
        return edited(message, boxes=boxes)

    replying(bed, liar, Shares, change)


def keep_back(bed: World, liar: int, owner: int) -> None:
    def change(message: Any) -> Message:
        which = message.which.clone()
        which[0, owner] = 0
        return edited(message, which=which)

    replying(bed, liar, Revealed, change)


@pytest.mark.parametrize("num_clients", [4, 5])
def test_bad_box_with_own_share_kept_back_names_liar(num_clients: int) -> None:
    """Before, every round aborted and nobody was named."""
    bed = world(num_clients, malicious=True)
    deal_bad_box(bed, 0, 2)
    keep_back(bed, 0, 0)
    assert hold_round(bed) is None
    assert bed.aggregator.blamed == {0: "kept back a share of which it had not complained"}
    assert hold_round(bed) == others(num_clients, 0)


@pytest.mark.parametrize("owner", [0, 3])
def test_holder_that_keeps_back_a_share_is_named(owner: int) -> None:
    bed = world(6, malicious=True)
    keep_back(bed, 1, owner)
    assert hold_round(bed) == list(range(6))
    assert list(bed.aggregator.blamed) == [1]


def test_holder_that_complained_and_holds_no_share_is_not_named() -> None:
    bed = world(6, malicious=True)
    deal_bad_box(bed, 0, 2)
    assert hold_round(bed) == list(range(6))
    assert bed.aggregator.blamed == {}


def test_bad_box_and_silence_cost_every_second_round_at_most() -> None:
    """Four clients need three shares: one bad box and one drop-out are too many."""
    bed = world(4, malicious=True, drops={Upload: {0}})
    deal_bad_box(bed, 0, 2)
    found = [hold_round(bed) for _ in range(7)]
    assert found[0] is None
    assert all(one == [1, 2, 3] for one in found[1::2])
    assert bed.aggregator.blamed == {}


def test_bad_boxes_to_two_clients_over_time_name_the_sender() -> None:
    bed = world(4, malicious=True, drops={Upload: {0}})
    deal = {"to": 2}

    def change(message: Any) -> Message:
        boxes = message.boxes.clone()
        boxes[0, deal["to"], -1] ^= 1
        return edited(message, boxes=boxes)

    replying(bed, 0, Shares, change)
    assert hold_round(bed) is None
    deal["to"] = 3
    assert hold_round(bed) is None
    hold_round(bed)
    assert "boxes" in bed.aggregator.blamed[0]
    assert hold_round(bed) == [1, 2, 3]


# ------------------------------------------------------------------- two victims at the same host


@pytest.mark.parametrize(("liar", "host"), [(0, [2, 3]), (5, [0, 1]), (3, [4, 5])])
def test_liar_about_two_clients_of_one_host_leaves_both_in(liar: int, host: list[int]) -> None:
    """Before, the host ended its session with the first opening. The second client counted as
    silent, was left out, and would have been named at the next dispute."""
    bed = world(6, malicious=True, layout=[host, *([n] for n in others(6, *host))])
    for victim in host:
        lie_about_tag(bed, liar, victim)
    assert hold_round(bed) == others(6, liar)
    assert list(bed.aggregator.blamed) == [liar]
    assert not bed.aggregator.silences


def test_silent_client_beside_a_named_liar_is_not_suspected() -> None:
    bed = world(6, malicious=True, drops={Opening: {2}})
    for victim in (1, 2):
        lie_about_tag(bed, 0, victim)
    assert hold_round(bed) == [1, 3, 4, 5], "client 2 went away, and 0 lied"
    assert list(bed.aggregator.blamed) == [0]
    assert not bed.aggregator.silences


# --------------------------------------------------- an opened key in another roster of the round


def clients_of(population: int, planned: int) -> SecureClients:
    settings = world(3, malicious=True).settings
    roster = [identity(n).public for n in range(population)]
    cohorts = {Upload.kind: planned}
    return SecureClients(settings, CONFIG_HASH, {0: identity(0)}, roster, cohorts=cohorts)


def test_client_opens_no_key_where_a_sparse_roster_could_follow() -> None:
    """Thirty-three of 36 have a complete graph. In a sparse one fewer signatures are counted, and
    the server could show the opened key there as a survivor's."""
    bed = world(36, malicious=True)
    bed.aggregator._cohorts = {Upload.kind: 33}
    lie_about_tag(bed, 3, 1)
    exchange = bed.aggregator._exchange
    asked: Counter[str] = Counter()

    def first_33(request: Message, reply: type[Message], clients: Any = None) -> Any:
        if isinstance(request, Advertise):
            bed.silent = {33, 34, 35}
        asked[request.kind] += 1
        return exchange(request, reply, clients)

    bed.aggregator._exchange = first_33
    with pytest.raises(Refused, match="where all sign the survivors for all"):
        bed.sums()
    assert asked[Dispute.kind] == 1
    assert is_always_complete(33)
    assert not is_always_complete(34)


def test_server_asks_for_no_key_where_a_sparse_roster_could_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Court, "settle", lambda *about: pytest.fail("the court was asked"))
    bed = world(36, malicious=True)
    lie_about_tag(bed, 3, 1)
    assert hold_round(bed) is not None


def test_roster_larger_than_the_plan_is_refused() -> None:
    host = clients_of(40, 10)
    with pytest.raises(Refused, match="a cohort of 11, over the 10 that were planned"):
        host._rules.check_cohort(Upload.kind, 11)
    host._rules.check_cohort(Upload.kind, 10)
    with pytest.raises(Refused, match="under"):
        host._rules.check_cohort(Upload.kind, 3)


def test_unmask_of_a_trusted_server_has_no_signatures() -> None:
    bed = world(4, malicious=False)
    shapes: list[tuple[int, ...]] = []

    def noted(request: Any) -> Any:
        shapes.extend([tuple(request.signers.shape), tuple(request.signatures.shape)])
        return request

    bed.lie(Unmask, noted, 0)
    assert hold_round(bed) == [0, 1, 2, 3]
    assert shapes == [(0,), (0, 64)]
