"""Sealed boxes in which shares travel through the server."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from securefg.secagg.derive import box_key
from securefg.secagg.encoding import encode_tuple, in_a_row, two_numbers
from securefg.secagg.errors import BadBox
from securefg.secagg.keys import PROTOCOL, VERSION
from securefg.secagg.secret import SYSTEM_RANDOM, RandomBytes, Secret

NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16


def seal_box(
    root: Secret,
    session: bytes,
    sender: int,
    receiver: int,
    shares: bytes,
    random_bytes: RandomBytes = SYSTEM_RANDOM,
) -> bytes:
    """nonce || ChaCha20-Poly1305(key, nonce, shares, (session, sender, receiver)) (RFC 8439).

    The key is of this ordered pair and this session, which seals one box. The nonce is drawn at
    random nonetheless: a fixed one would be sound for that one box, but a client that repeats
    the stage with new shares would then give away their difference. At a handful of boxes per
    key, 96 random bits do not meet again.
    """
    nonce = random_bytes(NONCE_BYTES)
    cipher = ChaCha20Poly1305(box_key(root, sender, receiver).reveal())
    return nonce + cipher.encrypt(nonce, shares, _associated_data(session, sender, receiver))


def open_box(root: Secret, session: bytes, sender: int, receiver: int, box: bytes) -> bytes:
    """The shares in a box; `BadBox` if a bit of it, or of whom it is for, was changed."""
    cipher = ChaCha20Poly1305(box_key(root, sender, receiver).reveal())
    nonce, sealed = box[:NONCE_BYTES], box[NONCE_BYTES:]
    try:
        return cipher.decrypt(nonce, sealed, _associated_data(session, sender, receiver))
    except (InvalidTag, ValueError):
        raise BadBox(
            f"the box from {sender} to {receiver} does not open in session {session.hex()[:16]}…"
        ) from None


def _associated_data(session: bytes, sender: int, receiver: int) -> bytes:
    return encode_tuple(_about_boxes(session), two_numbers(sender, receiver))


@lru_cache(maxsize=16)
def _about_boxes(session: bytes) -> bytes:
    return in_a_row(PROTOCOL, VERSION, "share-box", session)
