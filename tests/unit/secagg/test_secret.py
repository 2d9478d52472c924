"""Secrets stay out of everything that is printed, logged, pickled or raised."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable

import pytest

from securefg.secagg import boxes, shamir
from securefg.secagg.errors import BadBox, ReconstructionFailed
from securefg.secagg.keys import Identity, KeyPair
from securefg.secagg.masks import Mask, RowMask, Sign
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import Secret

HIDDEN = bytes(range(65, 97))

CARRIERS: dict[str, Callable[[Secret], object]] = {
    "secret": lambda secret: secret,
    "identity": Identity,
    "key pair": KeyPair,
    "keystream": Keystream,
    "share": lambda secret: shamir.Share(3, int.from_bytes(secret.reveal(), "big")),
    "mask": lambda secret: Mask(secret, Sign.ADD),
    "row mask": lambda secret: RowMask(secret, 0, None),
}


def shows(text: str) -> bool:
    """Whether the hidden bytes can be read in a text, in any of the usual spellings."""
    number = int.from_bytes(HIDDEN, "big")
    spellings = (HIDDEN.decode(), HIDDEN.hex(), str(number), hex(number), str(list(HIDDEN))[1:-1])
    return any(spelling.lower() in text.lower() for spelling in spellings)


@pytest.mark.parametrize("name", CARRIERS)
def test_no_carrier_of_a_secret_shows_it(name: str) -> None:
    carrier = CARRIERS[name](Secret(HIDDEN))
    for text in (repr(carrier), str(carrier), f"{carrier}", f"{[carrier]}"):
        assert not shows(text)


@pytest.mark.parametrize("name", CARRIERS)
@pytest.mark.parametrize("leave", [pickle.dumps, copy.deepcopy])
def test_no_carrier_of_a_secret_is_pickled_or_deeply_copied(
    name: str, leave: Callable[[object], object]
) -> None:
    carrier = CARRIERS[name](Secret(HIDDEN))
    with pytest.raises(TypeError, match="is secret"):
        leave(carrier)


def test_errors_about_shares_do_not_show_them() -> None:
    shares = shamir.split_secret(Secret(HIDDEN), (1, 2, 3), 1)
    with pytest.raises(ReconstructionFailed) as caught:
        shamir.combine_shares(shares, 1, shamir.commits_to(bytes(32), bytes(32), 0))
    assert not shows("".join(traceback.format_exception(caught.value)))


def test_errors_about_boxes_do_not_show_the_key() -> None:
    with pytest.raises(BadBox) as caught:
        boxes.open_box(Secret(HIDDEN), bytes(32), 0, 1, bytes(40))
    assert caught.value.__cause__ is None
    assert not shows("".join(traceback.format_exception(caught.value)))


def test_secrets_compare_by_value_and_have_no_hash() -> None:
    assert Secret(HIDDEN) == Secret(HIDDEN)
    assert Secret(HIDDEN) != Secret(bytes(32))
    assert Secret(HIDDEN) != HIDDEN
    with pytest.raises(TypeError, match="unhashable"):
        hash(Secret(HIDDEN))


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_secret_carries_all_256_bits(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Secret(bytes(length))
