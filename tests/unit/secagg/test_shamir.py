"""Any threshold of shares gives the secret; fewer, wrong or doubled ones are refused."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.secagg import shamir
from securefg.secagg.errors import BadShares, ReconstructionFailed
from securefg.secagg.secret import Secret
from securefg.secagg.shamir import (
    PRIME,
    Share,
    combine_shares,
    commit_to_secret,
    commits_to,
    split_secret,
)

SESSION = bytes(range(32))


def unchecked(secret: Secret) -> None:
    """Takes any secret; for tests of what comes before the check."""


def test_the_modulus_is_prime() -> None:
    """Miller and Rabin's test to 40 bases."""
    assert PRIME == 2**256 + 297
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 42):
        x = pow(base, odd, PRIME)
        orbit = [pow(x, 2**i, PRIME) for i in range(twos)]
        assert x == 1 or PRIME - 1 in orbit


@settings(max_examples=30, deadline=None)
@given(
    st.binary(min_size=32, max_size=32),
    st.sets(st.integers(1, 2**20), min_size=1, max_size=9),
    st.data(),
)
def test_any_threshold_of_shares_gives_the_secret(
    value: bytes, points: set[int], data: st.DataObject
) -> None:
    threshold = data.draw(st.integers(1, len(points)))
    shares = split_secret(Secret(value), sorted(points), threshold)
    chosen = data.draw(st.permutations(shares))[:threshold]
    assert combine_shares(chosen, threshold, unchecked) == Secret(value)


@pytest.mark.parametrize("value", [bytes(32), b"\xff" * 32])
def test_the_least_and_the_largest_secret_survive(value: bytes) -> None:
    shares = split_secret(Secret(value), range(1, 6), 3)
    assert combine_shares(shares[2:], 3, unchecked) == Secret(value)


def test_fewer_shares_than_the_threshold_fit_every_secret() -> None:
    """Two of three shares at threshold 3: for each secret there is a polynomial through them."""
    two = split_secret(Secret.fresh(), (1, 2, 3), 3)[:2]
    for candidate in (0, 1, 2**256 - 1):
        third = shamir._lagrange_at_zero((1, 2, 3))
        known = sum(w * share.value for w, share in zip(third, two, strict=False))
        value = (candidate - known) * pow(third[2], -1, PRIME) % PRIME
        guessed = combine_shares([*two, Share(3, value)], 3, unchecked)
        assert int.from_bytes(guessed.reveal(), "big") == candidate


def test_too_few_shares_are_refused() -> None:
    shares = split_secret(Secret.fresh(), range(1, 6), 3)
    with pytest.raises(BadShares, match="2 shares do not reach the threshold 3"):
        combine_shares(shares[:2], 3, unchecked)


def test_a_point_named_twice_is_refused() -> None:
    shares = split_secret(Secret.fresh(), range(1, 6), 3)
    with pytest.raises(BadShares, match=r"points \[1\] appear more than once"):
        combine_shares([shares[0], shares[0], shares[1]], 3, unchecked)
    with pytest.raises(BadShares, match="more than once"):
        split_secret(Secret.fresh(), (1, 1, 2), 2)


@pytest.mark.parametrize(
    ("point", "value"), [(0, 1), (-1, 1), (PRIME, 1), (1, PRIME), (1, -1), (2**300, 0)]
)
def test_a_share_outside_the_field_is_refused(point: int, value: int) -> None:
    with pytest.raises(BadShares):
        Share(point, value)


def test_a_threshold_of_none_is_refused() -> None:
    with pytest.raises(BadShares, match="threshold"):
        split_secret(Secret.fresh(), (1, 2), 0)


@pytest.mark.parametrize("which", range(3))
def test_one_corrupt_share_is_noticed(which: int) -> None:
    secret = Secret.fresh()
    shares = list(split_secret(secret, range(1, 4), 3))
    shares[which] = Share(shares[which].point, shares[which].value ^ 1)
    with pytest.raises(ReconstructionFailed):
        combine_shares(shares, 3, commits_to(commit_to_secret(secret, SESSION, 4), SESSION, 4))


def test_a_value_above_256_bits_is_noticed() -> None:
    with pytest.raises(ReconstructionFailed, match=r"2\^256"):
        combine_shares([Share(1, 2**256 + 5)], 1, unchecked)


def test_a_commitment_is_to_secret_session_and_party() -> None:
    secret = Secret.fresh()
    expected = commit_to_secret(secret, SESSION, 4)
    commits_to(expected, SESSION, 4)(secret)
    for other in (commits_to(expected, bytes(32), 4), commits_to(expected, SESSION, 5)):
        with pytest.raises(ReconstructionFailed):
            other(secret)


def test_every_threshold_of_holders_rebuilds_the_secret() -> None:
    secret = Secret.fresh()
    check = commits_to(commit_to_secret(secret, SESSION, 4), SESSION, 4)
    shares = split_secret(secret, range(1, 8), 4)
    for chosen in combinations(shares, 4):
        assert combine_shares(chosen, 4, check) == secret


def test_one_set_of_holders_costs_its_coefficients_once() -> None:
    shamir._lagrange_at_zero.cache_clear()
    for _ in range(5):
        combine_shares(split_secret(Secret.fresh(), range(1, 6), 3), 3, unchecked)
    assert shamir._lagrange_at_zero.cache_info().misses == 1


def test_shares_survive_the_wire() -> None:
    for share in split_secret(Secret.fresh(), range(1, 6), 3):
        assert Share.decode(share.point, share.encode()) == share
    with pytest.raises(BadShares, match="has 32 bytes, wanted 33"):
        Share.decode(1, bytes(32))


def test_coefficients_are_drawn_afresh_for_every_secret() -> None:
    secret = Secret.fresh()
    assert split_secret(secret, (1, 2), 2) != split_secret(secret, (1, 2), 2)


@pytest.mark.parametrize("value", [2**256, 2**256 + 1, PRIME - 1])
def test_combine_to_a_number_above_every_secret_is_refused(value: int) -> None:
    """The field has 297 elements that no 32 bytes hold."""
    with pytest.raises(ReconstructionFailed, match="above 2\\^256"):
        combine_shares([Share(1, value)], 1, lambda secret: None)
    largest = combine_shares([Share(1, 2**256 - 1)], 1, lambda secret: None)
    assert largest.reveal() == b"\xff" * 32
