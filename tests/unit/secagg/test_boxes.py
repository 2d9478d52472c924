"""Share boxes open for their receiver, in their session, unchanged; or not at all."""

from __future__ import annotations

import pytest

from securefg.secagg.boxes import open_box, seal_box
from securefg.secagg.errors import BadBox
from securefg.secagg.keys import KeyPair
from securefg.secagg.secret import Secret

SESSION = bytes(range(32))
ROOT = Secret(bytes(32))


def test_the_receiver_opens_what_the_sender_sealed() -> None:
    sender, receiver = KeyPair.fresh(), KeyPair.fresh()
    box = seal_box(sender.agree_root(receiver.public, SESSION), SESSION, 0, 1, b"shares")
    assert open_box(receiver.agree_root(sender.public, SESSION), SESSION, 0, 1, box) == b"shares"


def test_every_changed_byte_is_noticed() -> None:
    box = seal_box(ROOT, SESSION, 0, 1, b"shares")
    for at in range(len(box)):
        changed = bytearray(box)
        changed[at] ^= 1
        with pytest.raises(BadBox):
            open_box(ROOT, SESSION, 0, 1, bytes(changed))


@pytest.mark.parametrize(
    ("session", "sender", "receiver"), [(bytes(32), 0, 1), (SESSION, 1, 0), (SESSION, 0, 2)]
)
def test_a_box_for_another_session_or_party_does_not_open(
    session: bytes, sender: int, receiver: int
) -> None:
    box = seal_box(ROOT, SESSION, 0, 1, b"shares")
    with pytest.raises(BadBox, match=f"from {sender} to {receiver}"):
        open_box(ROOT, session, sender, receiver, box)


def test_sealing_twice_does_not_repeat_the_keystream() -> None:
    one, other = (seal_box(ROOT, SESSION, 0, 1, bytes(66)) for _ in range(2))
    assert one[12:] != other[12:]
