"""Private set intersection: finds what is shared, and refuses what is no honest point."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.foundation.errors import ProtocolError
from securefg.secagg.intersection import Party, hash_to_curve, is_on_curve, shared_ids

IDS = st.lists(st.sampled_from([f"customer {n}" for n in range(12)]), max_size=8)


def met(one: list[str], two: list[str]) -> list[str]:
    a, b = Party(tuple(one)), Party(tuple(two))
    sent, order = a.first()
    theirs, _ = b.first()
    return shared_ids(order, b.blind_again(sent), a.blind_again(theirs))


@settings(max_examples=15)
@given(IDS, IDS)
def test_the_intersection_is_found(one: list[str], two: list[str]) -> None:
    assert met(one, two) == sorted(set(one) & set(two))


def test_points_are_on_the_curve_and_fresh_for_every_party() -> None:
    point = hash_to_curve("sam")
    assert is_on_curve(point)
    assert hash_to_curve(" sam ") == point
    first, again = Party(("sam",)).first()[0], Party(("sam",)).first()[0]
    assert first != again
    assert point not in first


@pytest.mark.parametrize("point", [bytes(32), b"\xff" * 32, (1).to_bytes(32, "little"), b"short"])
def test_what_is_no_point_is_refused(point: bytes) -> None:
    with pytest.raises(ProtocolError):
        Party(("sam",)).blind_again([point])


def test_points_of_the_twist_are_refused() -> None:
    twist = next(u for u in range(2, 99) if not is_on_curve(u.to_bytes(32, "little")))
    with pytest.raises(ProtocolError):
        Party(()).blind_again([twist.to_bytes(32, "little")])


def test_repeated_or_missing_points_are_refused() -> None:
    sent, order = Party(("a", "b")).first()
    with pytest.raises(ProtocolError, match="twice"):
        Party(("c",)).blind_again([sent[0], sent[0]])
    with pytest.raises(ProtocolError, match="1 points came back of 2"):
        shared_ids(order, sent[:1], [])


def test_a_secret_does_not_show() -> None:
    assert "secret" not in repr(Party(("a",)))
