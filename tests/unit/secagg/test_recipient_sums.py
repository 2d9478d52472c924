"""A recipient opens its sum, the server nothing, and nobody a single contribution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare
from torch import Tensor

from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private
from securefg.secagg import recipient_sums
from securefg.secagg.derive import MaskContext, box_key, expand, pair_mask_key, self_mask_key
from securefg.secagg.errors import AwayAtUnmasking, MaskKeyReused, Refused
from securefg.secagg.messages import Keys, Ready, Revealed, Shares
from securefg.secagg.recipient_sums import Pads, recipient_info
from securefg.secagg.ring import Ring, RingArray
from securefg.secagg.secret import Secret
from securefg.settings.secagg import SecureAggregationSettings
from tests.unit.secagg.session_world import World, one_each


class Delivery(Message, kind="test_recipient_sums.Delivery"):
    parts: Tensor = private("recipients", "a part for every client", means=Other())


def world(
    number: int,
    width: int = 3,
    bits: int = 32,
    layout: list[list[int]] | None = None,
    drops: dict[type[Message], set[int]] | None = None,
    zero: bool = False,
) -> World:
    rng = np.random.default_rng(number)
    parts = rng.integers(0, 2**bits, (number, number * width), np.uint64)
    rows = {"parts": (0 * parts if zero else parts).astype(Ring(bits).dtype)}
    settings = SecureAggregationSettings(ring_bits=bits)
    return World(layout or one_each(number), rows, settings, drops=drops or {})


def passed_on(bed: World) -> RingArray:
    """What the server has after the session: a row for every recipient."""
    opened = bed.collect(Delivery)
    total = opened.total("parts", bed.context(Delivery, "parts"))
    return total.reshape(bed.num_clients, -1)


def opened_by(bed: World, totals: RingArray, recipient: int) -> RingArray:
    host = next(i for i, numbers in enumerate(bed.layout) if recipient in numbers)
    own = totals[[recipient]]
    bed.hosts[host].open(own, [recipient], bed.context(Delivery, "parts"))
    return own[0]


def plain_sum(bed: World, recipient: int, survivors: set[int]) -> RingArray:
    others = sorted(survivors - {recipient})
    parts = bed.rows["parts"].reshape(bed.num_clients, bed.num_clients, -1)
    return parts[others, recipient].sum(0, dtype=parts.dtype)


# ------------------------------------------------------------------------------------- the sum


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("layout", [one_each(6), [[0, 1, 2, 3, 4, 5]], [[0, 3], [1, 2, 5], [4]]])
def test_each_recipient_opens_its_plain_sum_to_the_bit(bits: int, layout: list[list[int]]) -> None:
    bed = world(6, bits=bits, layout=layout)
    totals = passed_on(bed)
    for recipient in range(6):
        found = opened_by(bed, totals, recipient)
        assert np.array_equal(found, plain_sum(bed, recipient, set(range(6))))


def test_many_clients_mask_along_a_sparse_graph_and_recipients_open_all_the_same() -> None:
    bed = world(40, width=2, layout=[list(range(40))])
    totals = passed_on(bed)
    opened = totals.copy()
    bed.hosts[0].open(opened, list(range(40)), bed.context(Delivery, "parts"))
    for recipient in range(40):
        wanted = plain_sum(bed, recipient, set(range(40)))
        assert np.array_equal(opened[recipient], wanted)


@pytest.mark.parametrize("stage", [Keys, Shares, Ready, Delivery])
def test_contributors_that_drop_out_are_left_out_of_the_sums_of_the_others(
    stage: type[Message],
) -> None:
    bed = world(7, drops={stage: {2, 5}})
    totals, survivors = passed_on(bed), {0, 1, 3, 4, 6}
    for recipient in sorted(survivors):
        found = opened_by(bed, totals, recipient)
        assert np.array_equal(found, plain_sum(bed, recipient, survivors))


def test_a_recipient_that_was_away_at_the_unmasking_drops_out_and_the_others_open() -> None:
    bed = world(7, drops={Revealed: {4}})
    totals = passed_on(bed)
    with pytest.raises(AwayAtUnmasking, match="not named"):
        opened_by(bed, totals, 4)
    assert np.array_equal(opened_by(bed, totals, 1), plain_sum(bed, 1, set(range(7))))


# ------------------------------------------------------------------------------ who sees what


def assert_uniform(words: RingArray) -> None:
    """Bytes equally frequent, at one in a million."""
    counts = np.bincount(np.ascontiguousarray(words).view(np.uint8).ravel(), minlength=256)
    assert chisquare(counts).pvalue > 1e-6


def test_what_the_server_unmasks_is_uniform_though_all_parts_are_zero() -> None:
    bed = world(5, width=3000, zero=True)
    totals = passed_on(bed)
    for row in totals:
        assert_uniform(row)
    assert not opened_by(bed, totals, 3).any()


def test_parts_for_oneself_or_for_clients_outside_the_session_are_nothing_but_zero() -> None:
    bed = world(6, width=2000, drops={Keys: {5}})
    totals = passed_on(bed)
    assert not totals[5].any()
    for row in totals[:5]:
        assert_uniform(row)


def test_the_mask_key_that_the_server_rebuilds_of_a_dropped_client_opens_nothing() -> None:
    bed = world(6, width=2000, drops={Delivery: {2}}, zero=True)
    totals = passed_on(bed)
    session = bed.hosts[2]._current_session()
    both = {pair[::-1]: root for pair, root in session._roots.masks.items()}
    rebuilt = Pads(session._roots.masks | both, session.places)
    own = session.pads
    which = bed.context(Delivery, "parts")
    for pads in (rebuilt, own):
        row = totals[[2]]
        pads.take(row, [2], [0, 1, 3, 4, 5], which)
        assert bool(row.any()) == (pads is rebuilt)  # its box key, which nobody rebuilds, does
        if pads is rebuilt:
            assert_uniform(row)


def test_all_contributors_but_one_and_the_server_do_not_see_the_last_ones_part() -> None:
    """They know their own parts and pads; what is left is the last one's, under its pad."""
    bed = world(5, width=3000, zero=True)
    totals, victim, recipient = passed_on(bed), 1, 3
    left = totals[[recipient]]
    which = bed.context(Delivery, "parts")
    for colluder in (0, 2, 4):
        session = bed.hosts[colluder]._current_session()
        assert session.pads is not None
        key = session.pads._pad_key(colluder, recipient, which)
        pad = np.zeros_like(left)
        recipient_sums.apply_row_masks(pad, [recipient_sums.RowMask(key, 0, None)])
        left -= pad
    assert_uniform(left)
    assert bed.hosts[recipient]._current_session().pads is not None
    own = bed.hosts[recipient]._current_session().pads
    assert own is not None
    own.take(left, [recipient], [victim], which)
    assert not left.any()


# -------------------------------------------------------------------------------- the keys


def test_no_pad_serves_twice_over_recipients_directions_and_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[tuple[bytes, bytes]] = []

    def recorded(root: Secret, info: bytes) -> Secret:
        used.append((root.reveal(), info))
        return expand(root, info)

    monkeypatch.setattr(recipient_sums, "expand", recorded)
    bed = world(5)
    for bed.round in (1, 2):
        passed_on(bed)
    assert len(set(used)) == len(used) == 2 * 5 * 4


def test_every_part_of_a_context_and_both_directions_give_other_keys() -> None:
    first = MaskContext(1, "Delivery", "h", 12, 32, 4)
    changes: list[dict[str, Any]] = [
        {},
        {"round": 2},
        {"message": "Other"},
        {"field": "dh"},
        {"length": 16},
        {"modulus_bits": 64},
        {"recipients": 3},
    ]
    contexts = [replace(first, **change) for change in changes]
    root = Secret(bytes(32))
    keys = [expand(root, recipient_info(*ends, c)) for ends in [(1, 2), (2, 1)] for c in contexts]
    keys += [box_key(root, 1, 2), box_key(root, 2, 1), pair_mask_key(root, 1, 2, first)]
    keys += [self_mask_key(root, bytes(32), 1, first)]
    assert len({key.reveal() for key in keys}) == len(keys)


def test_a_context_is_padded_once() -> None:
    bed = world(4)
    passed_on(bed)
    with pytest.raises(MaskKeyReused):
        bed.hosts[0].mask(bed.rows["parts"][:1], [0], bed.context(Delivery, "parts"))


def test_pads_do_not_print_their_keys() -> None:
    assert repr(Pads({(0, 1): Secret.fresh()}, {})) == "<Pads, hidden>"


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"recipients": 3}, "3 recipients, wanted all 4"),
        ({"message": "Other"}, "this session masks"),
        ({"round": 9}, "this session masks"),
    ],
)
def test_parts_that_do_not_fit_the_session_are_refused(change: dict[str, Any], why: str) -> None:
    bed = world(4)
    passed_on(bed)
    other = replace(bed.context(Delivery, "parts"), field="new", **change)
    with pytest.raises(Refused, match=why):
        bed.hosts[0].mask(bed.rows["parts"][:1], [0], other)


def test_numbers_that_do_not_fall_into_equal_parts_are_refused() -> None:
    bed = world(4)
    passed_on(bed)
    odd = replace(bed.context(Delivery, "parts"), field="new", length=13)
    with pytest.raises(Refused, match="13 numbers do not fall into 4 parts"):
        bed.hosts[0].mask(np.zeros((1, 13), np.uint32), [0], odd)


@pytest.mark.parametrize("change", [{"round": 2}, {"message": "Other"}])
def test_a_sum_of_another_session_is_refused(change: dict[str, Any]) -> None:
    bed = world(4)
    totals = passed_on(bed)
    other = replace(bed.context(Delivery, "parts"), **change)
    with pytest.raises(Refused, match="this session masks"):
        bed.hosts[0].open(totals[[0]], [0], other)


def test_a_row_that_is_no_recipients_sum_is_refused() -> None:
    bed = world(4)
    totals = passed_on(bed)
    with pytest.raises(Refused, match="was passed on"):
        bed.hosts[0].open(totals[[0, 1]], [0], bed.context(Delivery, "parts"))
