"""A second implementation of the committee form, by docs/reference/secagg_specification.md, 9.

It shares no code with securefg, but its author knew that code. ML-KEM's encapsulations are taken
from the messages and opened with the members' keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tests.independent.primitives import (
    FORMAT,
    LABELS,
    NAME,
    Pair,
    Stream,
    labelled,
    mac,
    pack,
    sha,
)

Rows = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Seated:
    """A committee: member numbers and key pairs by place, in groups of `each`."""

    members: tuple[int, ...]
    pairs: tuple[Pair, ...]
    each: int

    @property
    def num_groups(self) -> int:
        return len(self.members) // self.each


def draw_members(identities: Sequence[bytes], size: int) -> tuple[int, ...]:
    words = Stream(sha(pack((NAME, "committee", tuple(identities))))).read(8 * len(identities))
    order = np.argsort(np.frombuffer(words, "<u8"), kind="stable")
    return tuple(order[:size].tolist())


def session_id(
    seated: Seated,
    identities: Sequence[bytes],
    config: bytes,
    about: tuple[int, str, bytes],
) -> bytes:
    """Return the id of one sum; `about` are round, message and request hash."""
    keys = tuple(pair.public for pair in seated.pairs)
    items = (NAME, FORMAT, "committee session", tuple(identities), keys, config, *about)
    return sha(pack(items))


@dataclass
class Upload:
    """One client's upload, recomputed from what it drew and from the ciphertexts that it sent."""

    number: int
    session: bytes
    seeds: list[bytes]
    enclosed: dict[str, list[bytes]]
    digest: bytes

    @classmethod
    def of(
        cls,
        number: int,
        session: bytes,
        seated: Seated,
        stream: Stream,
        ciphertexts: Sequence[bytes],
    ) -> Upload:
        seeds = [stream.read(32) for _ in range(seated.num_groups)]
        secret = X25519PrivateKey.from_private_bytes(stream.read(32))
        ephemeral = secret.public_key().public_bytes_raw()
        boxes, digests = [], []
        for place, (member, pair) in enumerate(zip(seated.members, seated.pairs, strict=True)):
            ciphertext = ciphertexts[place] if ciphertexts else b""
            agreed = secret.exchange(X25519PublicKey.from_public_bytes(pair.public[:32]))
            both = agreed + (pair.kem.decapsulate(ciphertext) if ciphertext else b"")
            link = (number, member, ephemeral + ciphertext)
            root = labelled(mac(session, both), "box-link", *link)
            key = labelled(root, "share-box", number, member)
            about = pack((NAME, LABELS, "share-box", session, number, member))
            nonce, seed = stream.read(12), seeds[place // seated.each]
            boxes.append(nonce + ChaCha20Poly1305(key).encrypt(nonce, seed, about))
            digests.append(sha(ephemeral + ciphertext + boxes[-1]))
        commitments = [
            sha(pack((NAME, LABELS, "seed-commitment", number, j)) + session + seed)
            for j, seed in enumerate(seeds)
        ]
        enclosed = {"ephemeral": [ephemeral], "commitments": commitments, "boxes": boxes}
        return cls(number, session, seeds, enclosed, sha(b"".join([*digests, *commitments])))

    def keystream(self, group: int, context: tuple[Any, ...]) -> Any:
        """Return one group's mask; `context` is round, message, field, length and modulus."""
        key = labelled(
            mac(self.session, self.seeds[group]), "self-mask", self.number, self.number, *context
        )
        width = (context[-1].bit_length() - 1) // 8
        return np.frombuffer(Stream(key).read(width * context[-2]), f"<u{width}")


def upload_said(upload: Upload) -> tuple[Any, ...]:
    return (upload.session, upload.number, upload.digest)


def pledge_said(session: bytes, uploads: Sequence[Upload]) -> tuple[Any, ...]:
    numbers = np.array([upload.number for upload in uploads], "<i8").tobytes()
    return (session, sha(numbers), sha(b"".join(upload.digest for upload in uploads)))
