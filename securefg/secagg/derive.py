"""Purposes of derived keys: session ids, HKDF info strings, and keys that serve once."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, final

from securefg.secagg.encoding import Item, encode, encode_tuple, in_a_row, two_numbers
from securefg.secagg.errors import MaskKeyReused
from securefg.secagg.keys import FORMAT, PROTOCOL, VERSION
from securefg.secagg.secret import SECRET_BYTES, Secret

TAG_BYTES: Final = 16
RATCHET: Final = encode((PROTOCOL, VERSION, "ratchet"))


class Purpose(StrEnum):
    """A use of derived keys; keys of different purposes never meet."""

    PAIR_MASK = "pair-mask"
    SELF_MASK = "self-mask"
    SHARE_BOX = "share-box"
    PAIR_WRAP = "pair-wrap"
    PAIR_TAG = "pair-tag"
    MASK_LINK = "mask-link"
    BOX_LINK = "box-link"
    MASK_CONFIRMATION = "mask-confirmation"
    SEED_COMMITMENT = "seed-commitment"


@dataclass(frozen=True)
class MaskContext:
    """The one field of one message that a mask key serves, within a session.

    recipients  into how many parts the upload falls, one for each client; 0 where the sum is the
                server's
    constant    the field never changes in a run, and so leaves once
    """

    round: int
    message: str
    field: str
    length: int
    modulus_bits: int
    recipients: int = 0
    constant: bool = False


def setup_id(roster: Sequence[bytes], config: bytes, suite: str) -> bytes:
    """SHA-256 over the suite, the identities and fresh keys in roster order, and the configuration.

    A party's number is its place in the roster.
    """
    items = (PROTOCOL, FORMAT, "setup", suite, tuple(roster), config)
    return hashlib.sha256(encode(items)).digest()


def session_id(setup: bytes, ordinal: int, round: int, message: str, model_hash: bytes) -> bytes:
    """SHA-256 over the set-up, which of its sessions this is, and what it sums: the round, the
    message, and the request that it answers.

    Every key is salted with it: a server that shows two clients different rosters, settings, rounds
    or models gets masks that do not cancel.
    """
    return hashlib.sha256(
        encode((PROTOCOL, VERSION, "session", setup, ordinal, round, message, model_hash))
    ).digest()


def first_link(setup: bytes, agreed: Secret) -> Secret:
    """HKDF-Extract(salt = set-up id, X25519 secret): where a chain begins, X25519 alone."""
    return Secret(hmac.digest(setup, agreed.reveal(), hashlib.sha256))


def hybrid_link(
    setup: bytes,
    purpose: Purpose,
    agreed: Secret,
    encapsulated: Secret,
    ciphertext: bytes,
    sender: int,
    receiver: int,
) -> Secret:
    """Where a chain begins, from an X25519 and an ML-KEM secret: whoever misses one has nothing.

    HKDF(salt = set-up id, X25519 secret || ML-KEM secret, info), where the info names purpose,
    sender and receiver of the ciphertext, and the ciphertext. The set-up id binds both parties'
    identities and all public keys.
    """
    both = agreed.reveal() + encapsulated.reveal()
    extracted = Secret(hmac.digest(setup, both, hashlib.sha256))
    return expand(extracted, key_info(purpose, sender, receiver, ciphertext))


def mask_confirmation(link: Secret, sender: int, receiver: int) -> bytes:
    """16 bytes by which the receiver of a mask ciphertext sees that the sender has the same link.

    Without it a server could encapsulate to the receiver in the sender's name, and know this half
    of the link. Masks would then rest on X25519 alone.
    """
    return expand(link, key_info(Purpose.MASK_CONFIRMATION, sender, receiver)).reveal()[:TAG_BYTES]


def next_link(link: Secret) -> Secret:
    """The link after this one; there is no way back."""
    return expand(link, RATCHET)


def session_root(link: Secret, session: bytes) -> Secret:
    """HKDF-Extract(salt = session id, link): what two clients have in common in one session."""
    return Secret(hmac.digest(session, link.reveal(), hashlib.sha256))


def key_info(purpose: Purpose, first: int, second: int, *items: Item) -> bytes:
    """The HKDF info string: version, purpose, both parties, and what the key is for."""
    rest = in_a_row(*items) if items else b""
    return encode_tuple(_info_head(purpose), two_numbers(first, second), rest)


@lru_cache(maxsize=16)
def _info_head(purpose: Purpose) -> bytes:
    return in_a_row(PROTOCOL, VERSION, str(purpose))


def expand(root: Secret, info_string: bytes) -> Secret:
    """HKDF-Expand to 32 bytes: T(1) = HMAC-SHA256(root, info || 0x01) (RFC 5869, 2.3)."""
    return Secret(hmac.digest(root.reveal(), info_string + b"\x01", hashlib.sha256))


def pair_mask_key(root: Secret, one: int, other: int, context: MaskContext) -> Secret:
    """The key of the mask that the lower party adds and the higher one subtracts."""
    low, high = sorted((one, other))
    return expand(root, key_info(Purpose.PAIR_MASK, low, high, *_context_items(context)))


def self_mask_key(seed: Secret, session: bytes, party: int, context: MaskContext) -> Secret:
    """The key of the mask that hides an upload whose pair masks the server has rebuilt.

    The double masking of Bonawitz et al. 2017, section 4: it covers an upload that arrives after
    its sender was declared dropped.
    """
    root = Secret(hmac.digest(session, seed.reveal(), hashlib.sha256))
    return expand(root, key_info(Purpose.SELF_MASK, party, party, *_context_items(context)))


def wrapped_root(root: Secret, drop_root: Secret, owner: int, peer: int) -> bytes:
    """A pair's root under a key that the owner's holders share: of a client that drops out, they
    open this session's roots and no others. Wrapped again, it comes out. `drop_root` is the
    session's root of the owner's drop key."""
    key = expand(drop_root, key_info(Purpose.PAIR_WRAP, owner, peer))
    mixed = int.from_bytes(root.reveal(), "big") ^ int.from_bytes(key.reveal(), "big")
    return mixed.to_bytes(SECRET_BYTES, "big")


def pair_tag(root: Secret, one: int, other: int) -> bytes:
    """16 bytes by which the server sees that two clients have the same root."""
    low, high = sorted((one, other))
    return expand(root, key_info(Purpose.PAIR_TAG, low, high)).reveal()[:TAG_BYTES]


def box_key(root: Secret, sender: int, receiver: int) -> Secret:
    """The key of the share boxes from sender to receiver; the way back has another."""
    return expand(root, key_info(Purpose.SHARE_BOX, sender, receiver))


@lru_cache(maxsize=64)
def _context_items(context: MaskContext) -> tuple[Item, ...]:
    return (
        context.round,
        context.message,
        context.field,
        context.length,
        1 << context.modulus_bits,
    )


@final
class FreshContexts:
    """Remembers what a session has masked: a context is claimed once, or not at all.

    Length and modulus do not tell uploads apart: two of one (round, message, field) that differ
    in them alone are refused too.
    """

    def __init__(self) -> None:
        self._claimed: set[tuple[int, str, str]] = set()

    def claim(self, context: MaskContext) -> MaskContext:
        """Return the context. Raise `MaskKeyReused` if it was claimed before."""
        name = (context.round, context.message, context.field)
        if name in self._claimed:
            raise MaskKeyReused(
                f"round {name[0]}, message {name[1]!r}, field {name[2]!r} was masked before in "
                "this session; a second upload under its keys would give away the difference"
            )
        self._claimed.add(name)
        return context
