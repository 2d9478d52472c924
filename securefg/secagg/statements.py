"""Values that both sides derive alike: signed statements, the graph's seed, a request's hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from securefg.protocol import codec
from securefg.protocol.messages import Message
from securefg.secagg.encoding import Item, encode
from securefg.secagg.keys import FORMAT
from securefg.secagg.messages import Roster
from securefg.secagg.ring import to_bytes


def key_statement(
    config: bytes, round: int, purpose: str, client: int, mask_key: bytes, box_key: bytes
) -> tuple[Item, ...]:
    """Return what a client signs of its fresh keys."""
    return (FORMAT, config, round, purpose, client, mask_key, box_key)


def pairs_statement(
    session: bytes,
    client: int,
    wrapped: Sequence[bytes],
    sent: Sequence[bytes],
    received: Sequence[bytes],
) -> tuple[Item, ...]:
    """Return what a client signs of its pairs in the first session of a set-up.

    wrapped   its wrapped roots and tags, a row for every holder
    sent      the mask ciphertexts that it sent, a row for every neighbour ahead
    received  those that it was delivered, a row for every neighbour behind
    """
    digests = (hashlib.sha256(b"".join(rows)).digest() for rows in (wrapped, sent, received))
    return (session, client, *digests)


def survivors_statement(
    session: bytes, sharers: tuple[int, ...], survivors: tuple[int, ...]
) -> tuple[Item, ...]:
    """Hashes of both lists: those who shared keys, and those of them whose masked reply arrived."""
    return (session, _hash_clients(sharers), _hash_clients(survivors))


def _hash_clients(clients: tuple[int, ...]) -> bytes:
    """SHA-256 of the numbers as 64-bit words: many verify a signature on a list of many."""
    return hashlib.sha256(np.array(clients, "<i8").tobytes()).digest()


def roster_items(identities: Sequence[bytes], roster: Roster) -> list[bytes]:
    """What a session id says of every client: who it is, and its two fresh keys. Without the keys
    the id of a repeated round would repeat, and old signatures would count again."""
    keys = zip(to_bytes(roster.mask_keys), to_bytes(roster.box_keys), strict=True)
    return [identity + m + b for identity, (m, b) in zip(identities, keys, strict=True)]


def graph_seed(session: bytes, roster: Roster) -> bytes:
    """Public randomness of the mask graph: SHA-256 over everybody's fresh keys, so that no one
    party, the server included, picks who sits beside whom."""
    return hashlib.sha256(
        encode(("mask-graph", session, tuple(to_bytes(roster.mask_keys))))
    ).digest()


def request_hash(request: Message) -> bytes:
    """SHA-256 of what everybody is sent: a session is bound to it. Personal rows are left out."""
    shared = {
        name: value
        for name, value in request.values().items()
        if request.declarations[name].scope != "personal"
    }
    return hashlib.sha256(request.kind.encode() + codec.encode_fields(shared)).digest()
