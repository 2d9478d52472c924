"""The committee form: exact sums, drop-outs, lying servers, colluding members."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from securefg.foundation.errors import ConfigError, RoundAborted
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.secagg import derive
from securefg.secagg.committee.messages import (
    Inspect,
    Inspected,
    OpenedMasks,
    OpenMasks,
    Pledge,
    Pledged,
)
from securefg.secagg.committee.sealing import MemberKey, open_seed
from securefg.secagg.committee.seating import (
    Committee,
    committee_size,
    failure_bound,
    seat_committee,
)
from securefg.secagg.committee.server import Enclosed
from securefg.secagg.errors import AskedBefore, BadSignature, Refused
from securefg.secagg.hybrid import FreshPair
from securefg.secagg.masks import Mask, Sign, apply_masks
from securefg.secagg.ring import Ring, to_bytes
from securefg.secagg.statements import request_hash
from securefg.settings.secagg import SecureAggregationSettings
from tests.unit.secagg.committee_world import CommitteeWorld, committee_world, member_secret
from tests.unit.secagg.session_world import Ask, edited, identity

# --------------------------------------------------------------------------------------- the sum


@pytest.mark.parametrize("keys", ["hybrid", "classical"])
@pytest.mark.parametrize("bits", [32, 64])
def test_sum_of_all_clients_equals_plain_sum(keys: str, bits: int) -> None:
    world = committee_world(6, keys=keys, ring_bits=bits)
    assert np.array_equal(world.total(), world.plain(list(range(6))))


def test_clients_that_fall_silent_cost_no_further_exchange() -> None:
    world = committee_world(12, dropout=0.3)
    world.silent = {Ask.kind: {1, 5}}
    left = [n for n in range(12) if n not in {1, 5}]
    assert np.array_equal(world.total(), world.plain(left))


@pytest.mark.parametrize("stage", [Inspect, Pledge, OpenMasks])
def test_one_absent_member_leaves_the_sum_whole(stage: type[Message]) -> None:
    world = committee_world(8)
    world.silent = {stage.kind: {world.committee.members[0]}}
    assert np.array_equal(world.total(), world.plain(list(range(8))))


@pytest.mark.parametrize("stage", [Inspect, Pledge, OpenMasks])
def test_more_absent_members_than_planned_abort_the_round(stage: type[Message]) -> None:
    world = committee_world(8)
    world.silent = {stage.kind: set(world.committee.members[:2])}
    with pytest.raises(RoundAborted, match="are needed"):
        world.total()


def test_sums_of_two_rounds_are_both_right() -> None:
    world = committee_world(6)
    assert np.array_equal(world.total(), world.plain(list(range(6))))
    assert np.array_equal(world.total(), world.plain(list(range(6))))


# ----------------------------------------------------------------------------- who sits where


def test_draw_hangs_on_identities_and_not_on_settings() -> None:
    roster = [identity(n).public for n in range(40)]
    committee_settings = SecureAggregationSettings(form="committee", corrupt=0)
    other = SecureAggregationSettings(form="committee", corrupt=0, value_bound=3.0)
    drawn = seat_committee(committee_settings, roster)
    assert drawn == seat_committee(other, roster)
    assert len(drawn.members) == 4
    assert drawn.colluding == 1
    assert drawn.members != seat_committee(committee_settings, [*roster[1:], roster[0]]).members


@pytest.mark.parametrize(("population", "corrupt"), [(100, 0.05), (2708, 0.05), (10_000, 0.1)])
def test_size_of_drawn_committee_keeps_failure_below_two_to_minus_80(
    population: int, corrupt: float
) -> None:
    settings = SecureAggregationSettings(form="committee", corrupt=corrupt)
    size = committee_size(settings, population)
    marked = int(corrupt * population)
    assert failure_bound(population, marked, size // 2, 1) <= Fraction(1, 2**80)
    assert failure_bound(population, marked, size // 2 - 1, 1) > Fraction(1, 2**80)


def test_failure_bound_matches_random_draws() -> None:
    rng, hits, tries = np.random.default_rng(0), 0, 4000
    for _ in range(tries):
        drawn = rng.permutation(30)[:6] < 9
        hits += bool(drawn.reshape(3, 2).any(1).all() or drawn.sum() >= 4)
    bound = float(failure_bound(30, 9, 3, 1))
    assert hits / tries <= bound + 3 * np.sqrt(bound / tries)
    assert hits / tries >= bound / 2


@pytest.mark.parametrize(
    ("coalition", "reads"),
    [([], False), ([4], False), ([4, 7, 1], False), ([4, 1, 9], True), ([7, 2, 8], True)],
)
def test_committee_is_read_by_one_member_of_each_group(coalition: list[int], reads: bool) -> None:
    assert Committee((4, 7, 1, 2, 8, 9), absent=1).is_read_by(coalition) is reads


def test_committee_is_read_by_colluders_enough_to_sign_two_lists() -> None:
    """Of two groups, a whole one signs both lists, and each honest member opens another list."""
    assert Committee((4, 7, 1, 2), absent=1).is_read_by([4, 7])
    assert Committee((4, 7, 1, 2, 8, 9), absent=1).is_read_by([4, 7, 1, 2])


@pytest.mark.parametrize("absent", range(4))
@pytest.mark.parametrize("groups", range(2, 6))
def test_committee_is_not_read_by_as_many_as_may_collude(groups: int, absent: int) -> None:
    committee = Committee(tuple(range(groups * (absent + 1))), absent)
    for coalition in combinations(committee.members, committee.colluding):
        assert not committee.is_read_by(coalition)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ((0, 1, 2), "found 3; expected at least 4"),
        ((0, 1, 2, 3, 4), "whole groups of 2"),
        ((0, 1, 2, 2), "expected different clients"),
        ((0, 1, 2, 9), "expected different clients"),
    ],
)
def test_named_members_that_do_not_fit_are_refused(members: tuple[int, ...], words: str) -> None:
    settings = SecureAggregationSettings.model_validate(
        {"form": "committee", "committee": {"members": members}}
    )
    with pytest.raises(ConfigError, match=words):
        seat_committee(settings, [identity(n).public for n in range(5)])


def test_too_few_clients_for_a_committee_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected more clients"):
        committee_size(SecureAggregationSettings(form="committee", corrupt=0), 3)


def test_committee_settings_beside_a_session_are_refused() -> None:
    with pytest.raises(ValidationError, match="expected form: committee"):
        SecureAggregationSettings.model_validate({"committee": {"absent": 0}})


def test_key_of_a_member_signed_by_another_is_refused() -> None:
    world = committee_world(6)
    first, second = world.keys[:2]
    world.keys = (MemberKey(first.member, second.public, first.signature), *world.keys[1:])
    with pytest.raises(BadSignature):
        world.made(0)


def test_keys_of_other_members_than_drawn_are_refused() -> None:
    world = committee_world(6)
    world.keys = world.keys[::-1]
    with pytest.raises(ValueError, match="committee keys: found"):
        world.made(0)


# -------------------------------------------------------------------------------- lying server


def test_member_refuses_a_list_below_the_planned_survivors() -> None:
    world = committee_world(8, least_survivors={"session_world.Upload": 8})
    world.lies[Pledge] = lambda r, to: edited(r, clients=[0, 1, 2, 3, 4, 5, 6])
    with pytest.raises(Refused, match="under 8"):
        world.total()


@pytest.mark.parametrize("clients", [[0, 0, 1, 2, 3], [3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6, 9]])
def test_member_refuses_a_list_with_wrong_names(clients: list[int]) -> None:
    world = committee_world(8)
    world.lies[Pledge] = lambda r, to: edited(r, clients=clients)
    with pytest.raises(Refused):
        world.total()


def test_member_signs_no_second_list_even_after_a_restart(tmp_path: Path) -> None:
    world = committee_world(8, folder=tmp_path)
    world.total()
    member = world.committee.members[0]
    world.hosts[member] = world.made(member)
    with pytest.raises(AskedBefore):
        again(world, member)


def again(world: CommitteeWorld, member: int) -> None:
    """Show the uploads of the last round to a member once more, without one client."""
    shown = inspection(world, member, without=3)
    turn = Turn(world.round, 1, Clients.of([member]))
    world.hosts[member].handle(shown, turn)
    numbers = [n for n in range(world.num_clients) if n != 3]
    world.hosts[member].handle(Pledge(clients=torch.tensor(numbers)), turn)


def inspection(world: CommitteeWorld, member: int, without: int | None = None) -> Inspect:
    """What an aggregator would show to one member of the recorded uploads."""
    numbers = [n for n in world.uploads if n != without]
    enclosed = {
        k: torch.cat([world.uploads[n][1][k] for n in numbers])
        for k in world.uploads[numbers[0]][1]
    }
    made = Enclosed.of(enclosed, world.committee)
    whole = made.inspection_request("session_world.Upload", request_hash(world.request), numbers)
    row = sorted(world.committee.members).index(member)
    assert whole.ciphertexts is not None
    return Inspect(
        **{
            **whole.values(),
            "boxes": whole.boxes[[row]],
            "ciphertexts": whole.ciphertexts[[row]],
        }
    )


def test_two_lists_cannot_both_find_a_quorum() -> None:
    """A server tells one member another list than the others: that member opens neither."""
    world = committee_world(8)
    odd, signed = world.committee.members[0], []
    world.lies[Pledge] = lambda r, to: edited(r, clients=[*range(7)]) if odd in to else r
    world.lies[OpenMasks] = lambda r, to: signed.append(r) or r
    assert np.array_equal(world.total(), world.plain(list(range(8))))
    with pytest.raises(BadSignature):
        world.answer(odd, signed[0])


def test_masks_without_a_quorum_of_signatures_are_refused() -> None:
    world = committee_world(8)
    world.lies[OpenMasks] = lambda r, to: edited(
        r, signers=r.signers[:2], signatures=r.signatures[:2]
    )
    with pytest.raises(Refused, match="2 members signed the list, under 3"):
        world.total()


def test_one_signature_counted_twice_is_refused() -> None:
    world = committee_world(8)
    world.lies[OpenMasks] = lambda r, to: edited(
        r, signers=r.signers[[0, 0, 1]], signatures=r.signatures[[0, 0, 1]]
    )
    with pytest.raises(Refused, match="a signature twice"):
        world.total()


def test_field_opened_twice_is_refused() -> None:
    world = committee_world(8)
    opened = world.collect()
    opened.total("numbers", world.context("numbers"))
    with pytest.raises(Exception, match="was masked before"):
        opened.total("numbers", world.context("numbers"))


def test_second_upload_of_one_round_is_refused() -> None:
    world = committee_world(6)
    world.total()
    with pytest.raises(AskedBefore):
        world.answer(2, world.request)


def test_upload_after_restart_answers_the_same_request_alone(tmp_path: Path) -> None:
    world = committee_world(6, folder=tmp_path)
    world.total()
    world.hosts[2] = world.made(2)
    with pytest.raises(AskedBefore, match="another request"):
        world.answer(2, Ask(model=torch.zeros(4)))


def test_stage_for_a_client_that_is_no_member_is_refused() -> None:
    world = committee_world(8)
    outside = next(n for n in range(8) if n not in world.committee.members)
    with pytest.raises(Refused, match="members of the committee alone"):
        world.answer(outside, Pledge(clients=torch.arange(8)))


def test_invented_client_in_the_list_is_left_out() -> None:
    """The server makes up an upload of client 7, which fell silent, to hide that few are left."""
    world = committee_world(8, least_survivors={"session_world.Upload": 8})
    world.silent = {Ask.kind: {7}}
    with pytest.raises(RoundAborted, match="7 clients answered, 8 are needed"):
        world.total()
    member = world.committee.members[0]
    world.uploads[7] = world.uploads[0]
    shown = inspection(world, member)
    reply = world.hosts[member].handle(shown, Turn(world.round, 1, Clients.of([member])))
    assert isinstance(reply, Inspected)
    assert reply.bad[0].tolist() == [0] * 7 + [1]


@pytest.mark.parametrize(
    "change",
    [
        {"boxes": torch.zeros(1, 8, 59, dtype=torch.uint8)},
        {"ciphertexts": None},
        {"digests": torch.zeros(8, 3, 32, dtype=torch.uint8)},
        {"clients": torch.zeros(8)},
        {"request": torch.zeros(31, dtype=torch.uint8)},
    ],
)
def test_inspection_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    world = committee_world(8)
    world.lies[Inspect] = lambda r, to: type(r)(**{**r.values(), **change})
    with pytest.raises(Refused, match=r"committee\.Inspect"):
        world.total()


# ----------------------------------------------------------------- clients and members that lie


def test_client_that_seals_nonsense_is_left_out_and_named() -> None:
    world = committee_world(8)

    def spoil(request: Inspect, to: list[int]) -> Inspect:
        boxes = request.boxes.clone()
        boxes[:, 2] ^= 1
        return Inspect(**{**request.values(), "boxes": boxes})

    world.lies[Inspect] = spoil
    assert np.array_equal(world.total(), world.plain([0, 1, 3, 4, 5, 6, 7]))
    assert list(world.aggregator.blamed) == [2]


def test_member_that_complains_of_all_counts_as_absent() -> None:
    world = committee_world(8)
    liar = world.committee.members[1]
    world.replies_changed[Inspected] = lambda r, who: (
        Inspected(bad=torch.ones_like(r.bad)) if liar in who else r
    )
    assert np.array_equal(world.total(), world.plain(list(range(8))))
    assert list(world.aggregator.blamed) == [liar]


def test_member_that_sends_wrong_masks_ends_the_round() -> None:
    world = committee_world(8)
    liar = world.committee.members[1]
    world.replies_changed[OpenedMasks] = lambda r, who: (
        OpenedMasks(total=r.total + 1) if liar in who else r
    )
    with pytest.raises(RoundAborted, match="disagree on the sum of masks"):
        world.total()


def test_member_that_signs_nonsense_counts_as_absent() -> None:
    world = committee_world(8)
    liar = world.committee.members[1]
    world.replies_changed[Pledged] = lambda r, who: (
        Pledged(signature=torch.zeros_like(r.signature)) if liar in who else r
    )
    assert np.array_equal(world.total(), world.plain(list(range(8))))
    assert list(world.aggregator.blamed) == [liar]


# ------------------------------------------------------------------------------ what members read


def read_by(world: CommitteeWorld, members: list[int], victim: int) -> np.ndarray[Any, Any]:
    """What the server and these members make of a victim's upload: all masks that they know off."""
    message, enclosed = world.uploads[victim]
    row = message.values()["numbers"].numpy().view(Ring(32).dtype)[0].copy()  # type: ignore[union-attr]
    host = world.hosts[victim]
    session = host._session_id(world.round, "session_world.Upload", request_hash(world.request))
    groups = {}
    for member in members:
        place = world.committee.members.index(member)
        pair = FreshPair(member_secret(member), "hybrid")
        sealed = (
            to_bytes(enclosed["ephemeral"])[0],
            to_bytes(enclosed["ciphertexts"][0])[place],
            to_bytes(enclosed["boxes"][0])[place],
        )
        seed = open_seed(pair, session, victim, member, *sealed)
        groups[world.committee.group_of(member)] = seed
    for seed in groups.values():
        key = derive.self_mask_key(seed, session, victim, world.context("numbers"))
        apply_masks(row, [Mask(key, Sign.SUBTRACT)])
    return row


def test_server_with_one_member_of_each_group_reads_an_upload() -> None:
    world = committee_world(8)
    world.total()
    first, second = world.committee.members[0], world.committee.members[2]
    assert world.committee.is_read_by([first, second])
    assert np.array_equal(read_by(world, [first, second], 5), world.rows[5])


def test_server_with_a_whole_group_reads_nothing() -> None:
    world = committee_world(8, committee={"colluding": 2})
    world.total()
    group = list(world.committee.members[:2])
    assert not world.committee.is_read_by(group)
    found = read_by(world, group, 5)
    assert not (found == world.rows[5]).any()


def test_masks_of_two_uploads_share_no_words() -> None:
    world = committee_world(8)
    world.rows[:] = 0
    world.total()
    first = np.stack([world.uploads[n][0].values()["numbers"].numpy()[0] for n in range(8)])  # type: ignore[union-attr]
    world.total()
    second = np.stack([world.uploads[n][0].values()["numbers"].numpy()[0] for n in range(8)])  # type: ignore[union-attr]
    words = np.concatenate([first.ravel(), second.ravel()])
    assert len(np.unique(words)) == len(words)
    assert not (words == 0).any()
