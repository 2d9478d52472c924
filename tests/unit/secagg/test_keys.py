"""Identities sign, pairs agree, and both fail closed."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from securefg.secagg.derive import expand
from securefg.secagg.errors import BadKey, BadSignature
from securefg.secagg.keys import Identity, KeyPair, verify
from securefg.secagg.secret import Secret

SESSION = bytes(range(32))


def test_a_signature_verifies_for_its_statement_only() -> None:
    identity = Identity.fresh()
    signature = identity.sign("advertise", SESSION, 3)
    verify(identity.public, signature, "advertise", SESSION, 3)
    for purpose, items in [
        ("advertise", (SESSION, 4)),
        ("survivors", (SESSION, 3)),
        ("advertise", ()),
    ]:
        with pytest.raises(BadSignature):
            verify(identity.public, signature, purpose, *items)


def test_a_signature_by_another_or_under_no_key_is_refused() -> None:
    signature = Identity.fresh().sign("advertise", 1)
    for public in (Identity.fresh().public, b"short"):
        with pytest.raises(BadSignature):
            verify(public, signature, "advertise", 1)


def test_both_ends_agree_on_one_root() -> None:
    one, other = KeyPair.fresh(), KeyPair.fresh()
    assert one.agree_root(other.public, SESSION) == other.agree_root(one.public, SESSION)


def test_another_session_gives_another_root() -> None:
    one, other = KeyPair.fresh(), KeyPair.fresh()
    assert one.agree_root(other.public, SESSION) != one.agree_root(other.public, bytes(32))


def test_agreement_and_expansion_are_hkdf_of_the_shared_point() -> None:
    one, other = KeyPair.fresh(), KeyPair.fresh()
    shared = one._private.exchange(other._private.public_key())
    wanted = HKDF(SHA256(), 32, SESSION, b"info").derive(shared)
    assert expand(one.agree_root(other.public, SESSION), b"info") == Secret(wanted)


@pytest.mark.parametrize("point", [0, 1, 2**255 - 20])
def test_a_point_of_low_order_is_refused(point: int) -> None:
    with pytest.raises(BadKey, match="low order"):
        KeyPair.fresh().agree_root(point.to_bytes(32, "little"), SESSION)


def test_a_pair_rebuilt_from_its_secret_agrees_as_before() -> None:
    one, other = KeyPair.fresh(), KeyPair.fresh()
    rebuilt = KeyPair(Secret(one.secret.reveal()))
    assert rebuilt.agree_root(other.public, SESSION) == one.agree_root(other.public, SESSION)


def test_fresh_keys_ask_the_seam_for_32_bytes() -> None:
    asked: list[int] = []

    def random_bytes(num_bytes: int) -> bytes:
        asked.append(num_bytes)
        return bytes(range(num_bytes))

    assert KeyPair.fresh(random_bytes).secret == Secret(bytes(range(32)))
    Identity.fresh(random_bytes)
    assert asked == [32, 32]
