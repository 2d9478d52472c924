"""Members that complain of honest clients, and clients that seal nonsense to some members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from securefg.foundation.errors import RoundAborted
from securefg.protocol.messages import Message
from securefg.secagg.committee.complaints import Complaints
from securefg.secagg.committee.messages import Inspect, Inspected, OpenedMasks
from securefg.secagg.errors import Refused
from tests.unit.secagg.committee_world import CommitteeWorld, committee_world
from tests.unit.secagg.session_world import Ask


def complain(world: CommitteeWorld, by_member: dict[int, list[int]]) -> None:
    """Let these members call the boxes of these clients bad."""
    shown: list[int] = []

    def note(request: Inspect, to: list[int]) -> Inspect:
        shown[:] = request.clients.tolist()
        return request

    def change(reply: Inspected, who: list[int]) -> Message:
        bad = reply.bad.clone()
        for client in by_member.get(who[0], []):
            if client in shown:
                bad[0, shown.index(client)] = 1
        return Inspected(bad=bad)

    world.lies[Inspect] = note
    world.replies_changed[Inspected] = change


def summed(world: CommitteeWorld) -> list[int]:
    """Open a sum, and return the clients in it."""
    opened = world.collect()
    clients = list(opened.survivors)
    opened.total("size", world.context("size"))
    assert np.array_equal(opened.total("numbers", world.context("numbers")), world.plain(clients))
    return clients


def test_member_that_accuses_one_client_takes_turns_with_it() -> None:
    world = committee_world(12)
    complain(world, {world.committee.members[1]: [5]})
    sums = [summed(world) for _ in range(4)]
    assert [5 in clients for clients in sums] == [False, True, False, True]
    assert world.aggregator.blamed == {}


def test_member_that_accuses_another_client_each_round_is_named() -> None:
    world = committee_world(12)
    liar = world.committee.members[1]
    for victim in (5, 6, 7, 8):
        complain(world, {liar: [victim]})
        summed(world)
    assert list(world.aggregator.blamed) == [liar]
    assert set(range(12)) - set(summed(world)) <= {liar}


def test_client_rejected_by_more_members_than_collude_is_named() -> None:
    world = committee_world(12)
    complain(world, {member: [5] for member in world.committee.members})
    assert 5 not in summed(world)
    assert list(world.aggregator.blamed) == [5]


def test_client_whose_signature_is_bad_is_named_by_the_server() -> None:
    world = committee_world(12)
    enclose = world.hosts[5].enclose_keys
    world.hosts[5].enclose_keys = lambda purpose: (  # type: ignore[method-assign]
        {**found, "signatures": found["signatures"] ^ 1} if (found := enclose(purpose)) else found
    )
    assert 5 not in summed(world)
    assert list(world.aggregator.blamed) == [5]


def test_members_that_disagree_on_masks_are_both_on_record() -> None:
    suspected: list[int] = []
    world = committee_world(8)
    world.aggregator._suspect = lambda client, reason: suspected.append(client)
    liar = world.committee.members[1]
    world.replies_changed[OpenedMasks] = lambda reply, who: (
        OpenedMasks(total=reply.total + 1) if liar in who else reply
    )
    with pytest.raises(RoundAborted, match="disagree on the sum of masks"):
        world.total()
    assert suspected == sorted(world.committee.members[:2])


def test_absent_member_is_not_chosen_where_the_sum_needs_it() -> None:
    complaints = Complaints(blamed=[])
    turns = [complaints.choose_absent([(1, 7)], lambda absent: not absent) for _ in range(3)]
    assert turns == [(set(), {7})] * 3
    turns = [complaints.choose_absent([(1, 7)], lambda absent: True) for _ in range(2)]
    assert turns == [({1}, set()), (set(), {7})]


# -------------------------------------------------------------------- rounds that ask a part


def asking_part(world: CommitteeWorld, planned: int) -> Any:
    """Plan `planned` clients for a sum; return the aggregator's cohort of as many."""
    for host in world.hosts:
        host._rules.cohorts["session_world.Upload"] = planned  # type: ignore[index]
    world.aggregator._rules.cohorts["session_world.Upload"] = planned  # type: ignore[index]
    world.silent = {Ask.kind: set(range(planned, world.num_clients))}


def test_sum_of_a_part_of_the_clients_opens() -> None:
    world = committee_world(8)
    asking_part(world, 5)
    assert summed(world) == [0, 1, 2, 3, 4]


def test_list_of_more_clients_than_planned_is_refused() -> None:
    world = committee_world(8)
    asking_part(world, 5)
    world.silent = {}
    with pytest.raises(Refused, match="a list of 8 clients, over the 5"):
        world.total()


def test_upload_where_too_few_have_an_identity_is_refused() -> None:
    world = committee_world(8, least_survivors={"session_world.Upload": 9})
    with pytest.raises(Refused, match="8 clients have an identity, under 9"):
        world.answer(0, Ask(model=torch.arange(4.0)))
