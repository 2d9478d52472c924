"""Seeds of masks, sealed to the members' keys, and what both sides derive alike.

A client makes one fresh X25519 key for all members and encapsulates to the ML-KEM key of each. The
box key follows from both secrets, the session, both parties, the fresh key and the ciphertext.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from securefg.secagg import boxes, derive
from securefg.secagg.committee.seating import Committee
from securefg.secagg.derive import Purpose
from securefg.secagg.encoding import Item, encode
from securefg.secagg.hybrid import X25519_BYTES, FreshPair, Suite, check_key, encapsulate_secret
from securefg.secagg.keys import FORMAT, PROTOCOL, Identity, KeyPair, verify
from securefg.secagg.secret import SECRET_BYTES, SYSTEM_RANDOM, RandomBytes, Secret

BOX_BYTES: Final = boxes.NONCE_BYTES + SECRET_BYTES + boxes.TAG_BYTES
DIGEST_BYTES: Final = 32


@dataclass(frozen=True)
class MemberKey:
    """A member's public key of one run, signed by its identity."""

    member: int
    public: bytes
    signature: bytes


@dataclass(frozen=True)
class SealedSeeds:
    """What one client encloses: an ephemeral key, a ciphertext and a box for each member.

    commitments  a hash of every group's seed: members of one group find a client that sealed them
                 different seeds
    """

    ephemeral: bytes
    commitments: list[bytes]
    ciphertexts: list[bytes]
    boxes: list[bytes]

    def digest(self) -> bytes:
        """Return the hash of everything here."""
        padded = self.ciphertexts or [b""] * len(self.boxes)
        pairs = zip(padded, self.boxes, strict=True)
        digests = [box_digest(self.ephemeral, ciphertext, box) for ciphertext, box in pairs]
        return enclosed_digest(digests, self.commitments)


def box_digest(ephemeral: bytes, ciphertext: bytes, box: bytes) -> bytes:
    """Return the hash of what a client made for one member."""
    return hashlib.sha256(ephemeral + ciphertext + box).digest()


def make_member_keys(
    folder: Path,
    committee: Committee,
    identities: Mapping[int, Identity],
    config_hash: str,
    suite: Suite,
) -> tuple[MemberKey, ...]:
    """Return every member's signed key; a member without a file gets a new secret."""
    member_keys = []
    for member in committee.members:
        path = secret_file(folder, member)
        if not path.exists():
            _write_secret(path)
        pair = FreshPair(read_secret(path), suite)
        about = key_statement(config_hash.encode(), member, pair.public)
        signature = identities[member].sign("committee key", *about)
        member_keys.append(MemberKey(member, pair.public, signature))
    return tuple(member_keys)


def secret_file(folder: Path, member: int) -> Path:
    """Return where a member keeps the secret of its key."""
    return folder / f"member-{member}.key"


def read_secret(path: Path) -> Secret:
    """Return the secret in a member's file."""
    return Secret(path.read_bytes())


def _write_secret(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(SYSTEM_RANDOM(SECRET_BYTES))


def check_member_keys(
    keys: Sequence[MemberKey],
    committee: Committee,
    roster: Sequence[bytes],
    config: bytes,
    suite: Suite,
) -> None:
    """Raise unless these are the keys of the committee's members, signed by their identities."""
    if tuple(key.member for key in keys) != committee.members:
        raise ValueError(
            f"committee keys: found those of {[key.member for key in keys]}; expected those of "
            f"{list(committee.members)}"
        )
    for key in keys:
        check_key(key.public, suite)
        about = key_statement(config, key.member, key.public)
        verify(roster[key.member], key.signature, "committee key", *about)


def key_statement(config: bytes, member: int, public: bytes) -> tuple[Item, ...]:
    """Return what a member signs of its key."""
    return (FORMAT, config, member, public)


def committee_session(
    keys: Sequence[MemberKey],
    roster: Sequence[bytes],
    config: bytes,
    round: int,
    purpose: str,
    request: bytes,
) -> bytes:
    """Return the id of one sum: SHA-256 over parties, keys, settings, round, message and request.

    Every seed and every signature is bound to it.
    """
    parties = (tuple(roster), tuple(key.public for key in keys))
    items = (PROTOCOL, FORMAT, "committee session", *parties, config, round, purpose, request)
    return hashlib.sha256(encode(items)).digest()


def enclosed_digest(digests: Sequence[bytes], commitments: Sequence[bytes]) -> bytes:
    """Return the hash of all that a client encloses; every part has a fixed width."""
    return hashlib.sha256(b"".join([*digests, *commitments])).digest()


def upload_statement(session: bytes, client: int, enclosed: bytes) -> tuple[Item, ...]:
    """Return what a client signs of its boxes and its seeds: `enclosed_digest`."""
    return (session, client, enclosed)


def commit_to_seed(seed: Secret, session: bytes, client: int, group: int) -> bytes:
    """Return the hash that binds a client to the seed of a group, and hides it."""
    about = derive.key_info(Purpose.SEED_COMMITMENT, client, group)
    return hashlib.sha256(about + session + seed.reveal()).digest()


def seal_seeds(
    keys: Sequence[MemberKey],
    committee: Committee,
    seeds: Sequence[Secret],
    session: bytes,
    client: int,
    suite: Suite,
    random_bytes: RandomBytes,
) -> SealedSeeds:
    """Seal the seed of every group to each of its members."""
    pair = KeyPair.fresh(random_bytes)
    ciphertexts, sealed = [], []
    for key in keys:
        agreed, ciphertext, secret = pair.exchange(key.public[:X25519_BYTES]), b"", None
        if suite == "hybrid":
            secret, ciphertext = encapsulate_secret(key.public)
            ciphertexts.append(ciphertext)
        root = _box_root(session, agreed, secret, pair.public, ciphertext, client, key.member)
        seed = seeds[committee.group_of(key.member)].reveal()
        sealed.append(boxes.seal_box(root, session, client, key.member, seed, random_bytes))
    commitments = [commit_to_seed(seed, session, client, j) for j, seed in enumerate(seeds)]
    return SealedSeeds(pair.public, commitments, ciphertexts, sealed)


def open_seed(
    pair: FreshPair,
    session: bytes,
    client: int,
    member: int,
    ephemeral: bytes,
    ciphertext: bytes,
    box: bytes,
) -> Secret:
    """Return the seed in a box. Raise `BadBox` or `BadKey` where it was not sealed so."""
    secret = pair.open_ciphertext(ciphertext) if ciphertext else None
    agreed = pair.exchange(ephemeral)
    root = _box_root(session, agreed, secret, ephemeral, ciphertext, client, member)
    return Secret(boxes.open_box(root, session, client, member, box))


def _box_root(
    session: bytes,
    agreed: Secret,
    encapsulated: Secret | None,
    ephemeral: bytes,
    ciphertext: bytes,
    client: int,
    member: int,
) -> Secret:
    """Return the secret of a client and a member, of X25519 and, in hybrid keys, of ML-KEM too."""
    if encapsulated is not None:
        about = (ephemeral + ciphertext, client, member)
        return derive.hybrid_link(session, Purpose.BOX_LINK, agreed, encapsulated, *about)
    first = derive.first_link(session, agreed)
    return derive.expand(first, derive.key_info(Purpose.BOX_LINK, client, member, ephemeral))
