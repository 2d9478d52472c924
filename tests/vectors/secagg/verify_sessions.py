"""Recompute whole sessions without securefg or `cryptography`: `python verify_sessions.py [FOLDER]`

From what the clients drew, all that they said must follow: keys, signatures, shares, boxes,
commitments, masked uploads, revealed shares; and from those the sum. Exits 0 when all agrees.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
from pathlib import Path

import ed25519
import mlkem
import pure
from verify import (
    PRIME,
    Vector,
    check,
    halves,
    hkdf,
    hybrid_link,
    hybrid_public,
    interpolate_at_zero,
    labelled,
    of_format_2,
)


class Session:
    """A session rebuilt from the randomness of its clients."""

    def __init__(self, v: Vector) -> None:
        self.v, self.size = v, len(v["identities"])
        drawn = [[bytes.fromhex(text) for text in draws] for draws in v["draws"]]
        self.seeds, self.drop_keys, self.mask_secrets, self.box_secrets = zip(
            *(draws[:4] for draws in drawn), strict=True
        )
        self.coefficients = [draws[4:6] for draws in drawn]
        self.nonces = [draws[6:] for draws in drawn]
        self.told = {one["step"]: one["fields"] for one in v["told"]}
        self.said = v["said"]
        self.publics = [ed25519.public(bytes.fromhex(secret)) for secret in v["identities"]]
        self.mask_keys, self.box_keys = (
            [self.public(secret) for secret in secrets]
            for secrets in (self.mask_secrets, self.box_secrets)
        )
        model = bytes.fromhex(self.told["Roster"]["model_hash"])
        parts = zip(self.publics, self.mask_keys, self.box_keys, strict=True)
        roster = tuple(b"".join(three) for three in parts)
        items = ("setup", v["keys"], roster, v["config"].encode())
        self.setup = hashlib.sha256(of_format_2(*items)).digest()
        self.sent = self.encapsulated()
        about = (0, v["round"], self.told["Advertise"]["purpose"], model)
        self.id = hashlib.sha256(labelled("session", self.setup, *about)).digest()
        self.threshold = 1 + len(self.coefficients[0][0]) // 49

    @property
    def hybrid(self) -> bool:
        return bool(self.v["keys"] == "hybrid")

    def public(self, secret: bytes) -> bytes:
        return hybrid_public(secret) if self.hybrid else pure.x25519(secret, pure.X25519_BASE)

    def agreed(self, secret: bytes, peer_key: bytes) -> bytes:
        return pure.x25519(halves(secret)[0] if self.hybrid else secret, peer_key[:32])

    def ahead(self, place: int) -> list[int]:
        """The next half of all others; of an even number, the upper half has one less."""
        half = self.size // 2
        last = half - 1 if self.size % 2 == 0 and place >= half else half
        return [(place + step) % self.size for step in range(1, last + 1)]

    def encapsulated(self) -> dict[tuple[str, int, int], tuple[bytes, bytes]]:
        """Every secret and ciphertext, in the order in which they were drawn."""
        drawn, encapsulated_keys = iter(self.v["encapsulations"]), {}
        for i in range(self.size if self.hybrid else 0):
            whom = [("box-link", j) for j in range(self.size)]
            whom += [("mask-link", j) for j in self.ahead(i)]
            for purpose, j in whom:
                key = (self.box_keys if purpose == "box-link" else self.mask_keys)[j]
                encapsulated_keys[purpose, i, j] = mlkem.encapsulate(
                    key[32:], bytes.fromhex(next(drawn))
                )
        check("number of encapsulations", next(drawn, None), None)
        return encapsulated_keys

    def verify(self) -> None:
        check("version", self.v["version"], 2)
        self.keys()
        self.shares()
        self.uploads()
        self.agreement()
        self.revealed()
        self.sum()

    def keys(self) -> None:
        for i, keys_message in enumerate(self.said["Keys"]):
            check("mask_key", [self.mask_keys[i].hex()], keys_message["mask_key"])
            check("box_key", [self.box_keys[i].hex()], keys_message["box_key"])
            purpose = self.told["Advertise"]["purpose"]
            items = (self.v["config"].encode(), self.v["round"], purpose, i)
            message = labelled("advertise", 2, *items, self.mask_keys[i], self.box_keys[i])
            signature = bytes.fromhex(keys_message["signature"][0])
            check("signature", ed25519.verifies(self.publics[i], signature, message), True)

    def share(self, owner: int, kind: int, holder: int) -> bytes:
        """kind 0: of the drop key, 1: of the seed; both at the holder's place plus one."""
        secret = (self.drop_keys, self.seeds)[kind][owner]
        drawn = self.coefficients[owner][kind]
        powers = [drawn[i : i + 49] for i in range(0, len(drawn), 49)][::-1]
        numbers = [int.from_bytes(secret, "big"), *(int.from_bytes(c, "big") for c in powers)]
        value = sum(c * (holder + 1) ** i for i, c in enumerate(numbers)) % PRIME
        return value.to_bytes(33, "big")

    def shares(self) -> None:
        for i, shares_message in enumerate(self.said["Shares"]):
            text = labelled("commitment", self.id, i, self.seeds[i])
            check("commitment", [hashlib.sha256(text).hexdigest()], shares_message["commitment"])
            for j, box in enumerate(shares_message["boxes"][0]):
                check(f"box from {i} to {j}", self.box(i, j).hex(), box)
                check(
                    f"digests from {i} to {j}",
                    self.digests(i, j).hex(),
                    shares_message["share_digests"][0][j],
                )
                if self.hybrid:
                    sent = self.sent["box-link", i, j][1].hex()
                    check(
                        f"ciphertext from {i} to {j}", sent, shares_message["box_ciphertexts"][0][j]
                    )
        self.pairs()
        delivered = [said["boxes"][0][self.v["listener"]] for said in self.said["Shares"]]
        check("delivered boxes", self.told["Deliver"]["boxes"], [delivered])

    def pairs(self) -> None:
        """Roots and tags, and the signature on them and on all mask ciphertexts of a client."""
        for i, ready_message in enumerate(self.said["Ready"]):
            wrapped = [self.wrapped(i, j) for j in range(self.size)]
            for j, row in enumerate(wrapped):
                check(f"wrapped by {i} for {j}", row.hex(), ready_message["wrapped"][0][j])
            behind = [j for j in range(self.size) if j != i and j not in self.ahead(i)]
            sent = [self.offer(i, j) for j in self.ahead(i) if self.hybrid]
            received = [self.offer(j, i) for j in behind if self.hybrid]
            both = [
                b"".join(rows).ljust(self.hybrid * 1104 * (self.size // 2), b"\0")
                for rows in (sent, received)
            ]
            hashes = [hashlib.sha256(text).digest() for text in (b"".join(wrapped), *both)]
            message = labelled("pairs", self.id, i, *hashes)
            signature = bytes.fromhex(ready_message["signature"][0])
            check("pairs", ed25519.verifies(self.publics[i], signature, message), True)

    def digests(self, owner: int, holder: int) -> bytes:
        texts = [
            labelled("share", self.id, owner, what, holder + 1, self.share(owner, kind, holder))
            for kind, what in enumerate(("key", "seed"))
        ]
        return b"".join(hashlib.sha256(text).digest() for text in texts)

    def box(self, sender: int, receiver: int) -> bytes:
        shared = self.agreed(self.box_secrets[sender], self.box_keys[receiver])
        link = self.link("box-link", shared, sender, receiver)
        key = hkdf(self.id, link, labelled("share-box", sender, receiver))
        associated = labelled("share-box", self.id, sender, receiver)
        both = self.share(sender, 0, receiver) + self.share(sender, 1, receiver)
        nonce = self.nonces[sender][receiver]
        return nonce + pure.chacha20_poly1305(key, nonce, both, associated)

    def link(self, purpose: str, shared: bytes, sender: int, receiver: int) -> bytes:
        """The first of a chain: HKDF(set-up, both secrets), or HKDF-Extract(set-up, X25519's)."""
        if not self.hybrid:
            return hmac.new(self.setup, shared, hashlib.sha256).digest()
        encapsulated = self.sent[purpose, sender, receiver]
        return hybrid_link(self.setup, purpose, shared, *encapsulated, sender, receiver)

    def mask_link(self, one: int, other: int) -> bytes:
        """Of a pair, by the end that encapsulates."""
        sender, receiver = (one, other) if other in self.ahead(one) else (other, one)
        shared = self.agreed(self.mask_secrets[one], self.mask_keys[other])
        return self.link("mask-link", shared, sender, receiver)

    def offer(self, sender: int, receiver: int) -> bytes:
        """A mask ciphertext and its confirmation."""
        about = labelled("mask-confirmation", sender, receiver) + b"\x01"
        confirmation = hmac.new(self.mask_link(sender, receiver), about, hashlib.sha256).digest()
        return self.sent["mask-link", sender, receiver][1] + confirmation[:16]

    def wrapped(self, owner: int, peer: int) -> bytes:
        """The pair's root under the owner's drop key, and its tag."""
        if owner == peer:
            return bytes(48)
        link = self.mask_link(owner, peer)
        root = hmac.new(self.id, link, hashlib.sha256).digest()
        pad = hkdf(self.id, self.drop_keys[owner], labelled("pair-wrap", owner, peer))
        tag = hkdf(self.id, link, labelled("pair-tag", min(owner, peer), max(owner, peer)))
        return bytes(a ^ b for a, b in zip(root, pad, strict=True)) + tag[:16]

    def mask(self, first_client: int, other: int) -> list[int]:
        """The words of the pair's mask, or of the self mask of a client with itself."""
        *what, bits = self.v["context"]
        if first_client == other:
            secret, purpose = self.seeds[first_client], "self-mask"
        else:
            secret, purpose = self.mask_link(first_client, other), "pair-mask"
        info = labelled(purpose, min(first_client, other), max(first_client, other), *what, 2**bits)
        stream = pure.aes256_ctr(hkdf(self.id, secret, info), 0, 4 * what[-1])
        return [int.from_bytes(stream[i : i + 4], "little") for i in range(0, len(stream), 4)]

    def uploads(self) -> None:
        for client, upload_message in zip(self.v["survivors"], self.said["Upload"], strict=True):
            row = [
                a + b
                for a, b in zip(self.v["plain"][client], self.mask(client, client), strict=True)
            ]
            for peer in range(self.size):
                turn = (peer > client) - (peer < client)
                row = [a + turn * b for a, b in zip(row, self.mask(client, peer), strict=True)]
            check(
                f"upload of {client}",
                [w % 2**32 for w in row],
                [w % 2**32 for w in upload_message["numbers"][0]],
            )

    def agreement(self) -> None:
        lists = [
            hashlib.sha256(b"".join(n.to_bytes(8, "little") for n in numbers)).digest()
            for numbers in (range(self.size), self.v["survivors"])
        ]
        message = labelled("survivors", self.id, *lists)
        for client, said in zip(self.v["survivors"], self.said["Agreed"], strict=True):
            signature = bytes.fromhex(said["signature"][0])
            check("agreement", ed25519.verifies(self.publics[client], signature, message), True)

    def revealed(self) -> None:
        """Of every client one kind of share: the seed's of a survivor, the secret's of another."""
        for client, revealed_message in zip(
            self.v["survivors"], self.said["Revealed"], strict=True
        ):
            kinds = [1 if owner in self.v["survivors"] else 0 for owner in range(self.size)]
            shares = [self.share(owner, kind, client).hex() for owner, kind in enumerate(kinds)]
            check(f"shares revealed by {client}", revealed_message["shares"], [shares])
            check(
                "kinds revealed",
                revealed_message["which"],
                [bytes(2 - kind for kind in kinds).hex()],
            )

    def sum(self) -> None:
        """From what the server has: uploads and revealed shares."""
        chosen = list(zip(self.v["survivors"], self.said["Revealed"], strict=True))[
            : self.threshold
        ]
        for owner in range(self.size):
            points = [(n + 1, int(said["shares"][0][owner], 16)) for n, said in chosen]
            secret = (self.seeds if owner in self.v["survivors"] else self.drop_keys)[owner]
            check("rebuilt secret", interpolate_at_zero(points), int.from_bytes(secret, "big"))
        alive = self.v["survivors"]
        plain = [
            sum(column) % 2**32 for column in zip(*(self.v["plain"][n] for n in alive), strict=True)
        ]
        check("sum", self.v["sum"], plain)
        totals = [
            sum(column)
            for column in zip(*(s["numbers"][0] for s in self.said["Upload"]), strict=True)
        ]
        for client in alive:
            totals = [a - b for a, b in zip(totals, self.mask(client, client), strict=True)]
            for gone in set(range(self.size)) - set(alive):
                turn = 1 if client > gone else -1
                totals = [
                    a + turn * b for a, b in zip(totals, self.mask(gone, client), strict=True)
                ]
        check("unmasked sum", [t % 2**32 for t in totals], self.v["sum"])


def main(folder: Path) -> None:
    for path in sorted(folder.glob("[!b]*.json")):
        for case in json.loads(path.read_text()):
            Session(case).verify()
        print(f"{path.stem}: agrees")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "sessions")
