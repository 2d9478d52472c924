"""A second implementation of masked sessions, which recomputes every byte that clients sent.

It shares no code with securefg, but its author knew that code. Every rule was looked up in
docs/reference/secagg_specification.md (keys and graph: 4, derived keys: 5, messages: 6).

It gets the messages as bytes, the rows that clients masked, and their seeds: a client
draws all of its randomness from AES-256-CTR under its seed, but for ML-KEM's encapsulations, whose
ciphertexts are in the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tests.independent.primitives import (
    FORMAT,
    LABELS,
    NAME,
    Pair,
    Stream,
    deal,
    expand,
    interpolate,
    labelled,
    mac,
    pack,
    sha,
)

Fields = dict[str, Any]


class Disagrees(AssertionError):
    """A client sent other bytes than the specification says."""


def require_same(found: object, expected: object, about: str) -> None:
    if found != expected:
        raise Disagrees(f"{about}: found {str(found)[:80]}; expected {str(expected)[:80]}")


@dataclass
class Client:
    """A client's secrets of the session at work."""

    number: int
    identity: Ed25519PrivateKey
    stream: Stream
    seed: bytes = b""
    drop_key: bytes = b""
    masks: Pair = field(init=False)
    boxes: Pair = field(init=False)
    key_shares: dict[int, int] = field(default_factory=dict)
    seed_shares: dict[int, int] = field(default_factory=dict)

    def sign(self, purpose: str, *items: Any) -> bytes:
        return self.identity.sign(pack((NAME, LABELS, purpose, *items)))

    @property
    def public(self) -> bytes:
        return self.identity.public_key().public_bytes_raw()


# ---------------------------------------------------------------------------------------- a set-up


@dataclass
class Seats:
    """The places of a set-up: who masks with whom, and the first links of all chains."""

    id: bytes
    clients: list[int]
    degree: int
    threshold: int
    order: list[int]
    mask_links: dict[tuple[int, int], bytes] = field(default_factory=dict)
    box_links: dict[tuple[int, int], bytes] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return self.degree == len(self.clients) - 1

    def ahead(self, place: int) -> list[int]:
        """Those that the client at a place sends mask ciphertexts to."""
        n = len(self.clients)
        if self.is_complete:
            most = n // 2 - (n % 2 == 0 and place >= n // 2)
            return [(place + step) % n for step in range(1, most + 1)]
        at = self.order.index(place)
        return [self.order[(at + step) % n] for step in range(1, self.degree // 2 + 1)]

    def neighbours(self, place: int) -> list[int]:
        everybody = range(len(self.clients))
        return sorted({*self.ahead(place), *(p for p in everybody if place in self.ahead(p))})

    def holders(self, place: int) -> list[int]:
        return list(range(len(self.clients))) if self.is_complete else self.neighbours(place)


class Verifier:
    """Follows clients through their sessions; raises `Disagrees` at the first wrong byte.

    identities, seeds  32 bytes each, by client number
    threshold          of a number of clients: (degree, threshold)
    """

    def __init__(
        self,
        config: bytes,
        suite: str,
        identities: Sequence[bytes],
        seeds: Sequence[bytes],
        parameters: dict[int, tuple[int, int]],
    ) -> None:
        self.config, self.suite, self.parameters = config, suite, parameters
        keys = [Ed25519PrivateKey.from_private_bytes(secret) for secret in identities]
        self.clients = [
            Client(n, key, Stream(seed))
            for n, (key, seed) in enumerate(zip(keys, seeds, strict=True))
        ]
        self.seats: Seats | None = None
        self.checked = 0

    def begin(self, round: int, purpose: str) -> None:
        """Forget the session before."""
        self.round, self.purpose, self.ordinal, self.session = round, purpose, 0, b""
        self.sharers: list[int] = []
        self.sent: dict[tuple[str, int], list[bytes]] = {}
        self.masked: dict[str, dict[int, np.ndarray[Any, Any]]] = {}
        self.revealed: dict[int, tuple[list[bytes], list[int]]] = {}
        self.survivors: list[int] = []

    def same(self, found: object, expected: object, about: str) -> None:
        require_same(found, expected, f"round {self.round}, {about}")
        self.checked += 1

    # ------------------------------------------------------------------------------ keys, shares

    def follow(self, number: int, kind: str, request: Fields, reply: Fields) -> None:
        """Check a client's reply to one request."""
        step = getattr(self, f"check_{kind.lower()}")
        step(self.clients[number], request, reply)

    def check_advertise(self, client: Client, request: Fields, reply: Fields) -> None:
        self.same(request["version"], FORMAT, "version")
        client.seed, client.drop_key = client.stream.read(32), client.stream.read(32)
        client.masks, client.boxes = (
            Pair(client.stream.read(32), self.suite == "hybrid") for _ in "mb"
        )
        keys = (client.masks.public, client.boxes.public)
        said = (FORMAT, self.config, self.round, self.purpose, client.number, *keys)
        expected = [*keys, client.sign("advertise", *said)]
        self.same([reply[k][0] for k in ("mask_key", "box_key", "signature")], expected, "keys")

    def check_roster(self, client: Client, request: Fields, reply: Fields) -> None:
        clients, masks, boxes = (request[k] for k in ("clients", "mask_keys", "box_keys"))
        rows = list(zip(clients, masks, boxes, strict=True))
        items = tuple(self.clients[c].public + m + b for c, m, b in rows)
        setup = sha(pack((NAME, FORMAT, "setup", self.suite, items, self.config)))
        if self.seats is None or self.seats.id != setup:
            for c, m, b in rows:
                pairs = self.clients[c]
                self.same((m, b), (pairs.masks.public, pairs.boxes.public), "the roster's keys")
            words = Stream(sha(pack(("mask-graph", setup, tuple(masks))))).read(8 * len(clients))
            order = np.argsort(np.frombuffer(words, "<u8"), kind="stable").tolist()
            self.seats = Seats(setup, clients, *self.parameters[len(clients)], order)
        self.start_session(0, request["model_hash"][0])
        self.take_ciphertexts(client, reply)
        self.check_shares(client, reply)

    def check_again(self, client: Client, request: Fields, reply: Fields) -> None:
        self.same(request["setup"][0], self.places.id, "the set-up")
        client.seed, client.drop_key = client.stream.read(32), client.stream.read(32)
        self.start_session(request["ordinal"], request["model_hash"][0])
        self.check_shares(client, reply)
        self.same(reply["wrapped"], self.wrapped_rows(client), "wrapped roots")

    def start_session(self, ordinal: int, model_hash: bytes) -> None:
        about = (NAME, LABELS, "session", self.places.id, ordinal, self.round, self.purpose)
        self.ordinal, self.session = ordinal, sha(pack((*about, model_hash)))

    @property
    def places(self) -> Seats:
        assert self.seats is not None
        return self.seats

    def place_of(self, one: Client) -> int:
        return self.places.clients.index(one.number)

    def take_ciphertexts(self, client: Client, reply: Fields) -> None:
        """Make the links that this client's ciphertexts begin, at the receivers' side."""
        place, seats = self.place_of(client), self.places
        for kind in ("box_ciphertexts", "mask_ciphertexts"):
            self.sent[kind, place] = reply[kind] or []
        for at, peer in enumerate(seats.holders(place)):
            row = reply["box_ciphertexts"][at] if reply["box_ciphertexts"] else b""
            other = self.clients[seats.clients[peer]].boxes
            label = ("box-link", place, peer)
            seats.box_links[place, peer] = other.link(seats.id, client.boxes.public, label, row)
        for at, peer in enumerate(seats.ahead(place)):
            row = reply["mask_ciphertexts"][at] if reply["mask_ciphertexts"] else b""
            other, label = self.clients[seats.clients[peer]].masks, ("mask-link", place, peer)
            pair = (min(place, peer), max(place, peer))
            link = other.link(seats.id, client.masks.public, label, row[:1088])
            if row:
                expected = labelled(link, "mask-confirmation", place, peer)[:16]
                self.same(row[1088:], expected, "confirmation of a mask ciphertext")
            seats.mask_links[pair] = link

    def root(self, link: bytes) -> bytes:
        """Return the session's root of a chain that began with this link."""
        for _ in range(self.ordinal):
            link = expand(link, NAME, LABELS, "ratchet")
        return mac(self.session, link)

    def check_shares(self, client: Client, reply: Fields) -> None:
        place, seats = self.place_of(client), self.places
        holders = seats.holders(place)
        points = [holder + 1 for holder in holders]
        client.key_shares = deal(client.drop_key, points, seats.threshold, client.stream)
        client.seed_shares = deal(client.seed, points, seats.threshold, client.stream)
        boxes, digests = [], []
        for holder in holders:
            if (place, holder) not in seats.box_links or not self.is_linked(holder):
                boxes.append(bytes(94))
                digests.append(bytes(64))
                continue
            shares = [
                s[holder + 1].to_bytes(33, "big") for s in (client.key_shares, client.seed_shares)
            ]
            key = labelled(self.root(seats.box_links[place, holder]), "share-box", place, holder)
            about = pack((NAME, LABELS, "share-box", self.session, place, holder))
            nonce = client.stream.read(12)
            boxes.append(nonce + ChaCha20Poly1305(key).encrypt(nonce, b"".join(shares), about))
            named = zip(("key", "seed"), shares, strict=True)
            about_share = (NAME, LABELS, "share", self.session, place)
            digests.append(
                b"".join(
                    sha(pack((*about_share, what, holder + 1, share))) for what, share in named
                )
            )
        self.sent["boxes", place], self.sent["share_digests", place] = boxes, digests
        self.same(reply["boxes"], boxes, "boxes")
        self.same(reply["share_digests"], digests, "digests of shares")
        commitment = sha(pack((NAME, LABELS, "commitment", self.session, place, client.seed)))
        self.same(reply["commitment"], [commitment], "commitment")

    def is_linked(self, place: int) -> bool:
        """Whether a client's ciphertexts were delivered, in the first session of the set-up."""
        return self.ordinal == 0 or place in self.linked

    # ---------------------------------------------------------------------------- deliver, upload

    def check_deliver(self, client: Client, request: Fields, reply: Fields) -> None:
        self.same(set(map(any, [reply["bad"][0]])), {False}, "bad boxes")
        is_first, self.sharers = not self.sharers, request["sharers"]
        kept = [self.places.clients.index(n) for n in self.sharers]
        if request["boxes"] is None:
            return
        place, seats = self.place_of(client), self.places
        for kind, size in (("boxes", 94), ("share_digests", 64)):
            rows = [
                self.sent[kind, sender][seats.holders(sender).index(place)]
                if sender in kept
                else bytes(size)
                for sender in seats.holders(place)
            ]
            self.same(request[kind], rows, f"delivered {kind}")
        if self.ordinal == 0:
            self.linked = set(kept) if is_first else self.linked
            wrapped = self.wrapped_rows(client)
            self.same(reply["wrapped"], wrapped, "wrapped roots")
            rows = (
                wrapped,
                self.sent["mask_ciphertexts", place],
                request["mask_ciphertexts"] or [],
            )
            said = (self.session, client.number, *(sha(b"".join(row)) for row in rows))
            self.same(reply["signature"], [client.sign("pairs", *said)], "signed pairs")

    def wrapped_rows(self, one: Client) -> list[bytes]:
        place, drop_root, rows = self.place_of(one), mac(self.session, one.drop_key), []
        for peer in self.places.holders(place):
            pair = (min(place, peer), max(place, peer))
            if pair not in self.places.mask_links or peer not in self.linked:
                rows.append(bytes(48))
                continue
            root, key = self.pair_root(pair), labelled(drop_root, "pair-wrap", place, peer)
            mixed = bytes(a ^ b for a, b in zip(root, key, strict=True))
            rows.append(mixed + labelled(root, "pair-tag", *pair)[:16])
        return rows

    def pair_root(self, pair: tuple[int, int]) -> bytes:
        return self.root(self.places.mask_links[pair])

    def mask(self, key: bytes, purpose: str, who: tuple[int, int], name: str, like: Any) -> Any:
        """Return the mask of one field, in the ring of the rows."""
        bits = 8 * like.itemsize
        about = (self.round, self.purpose, name, like.size, 1 << bits)
        words = Stream(labelled(key, purpose, *who, *about)).read(like.nbytes)
        return np.frombuffer(words, like.dtype)

    def check_upload(self, number: int, name: str, plain: Any, masked: Any) -> None:
        """Check the masked row of one field."""
        one = self.clients[number]
        place, expected = self.place_of(one), plain.copy()
        expected += self.mask(mac(self.session, one.seed), "self-mask", (place, place), name, plain)
        for peer in self.places.neighbours(place):
            if self.places.clients[peer] in self.sharers:
                pair = (min(place, peer), max(place, peer))
                mask = self.mask(self.pair_root(pair), "pair-mask", pair, name, plain)
                expected = expected + mask if place < peer else expected - mask
        self.same(masked.tobytes(), expected.tobytes(), f"masked {name} of {number}")
        self.masked.setdefault(name, {})[number] = masked

    # --------------------------------------------------------------------------------- the opening

    def check_survivors(self, one: Client, request: Fields, reply: Fields) -> None:
        signature = one.sign("survivors", *self.said_of(request["clients"]))
        self.same(reply["signature"], [signature], "agreement")

    def said_of(self, survivors: list[int]) -> tuple[bytes, ...]:
        lists = (self.sharers, survivors)
        return (self.session, *(sha(np.array(numbers, "<i8").tobytes()) for numbers in lists))

    def check_unmask(self, one: Client, request: Fields, reply: Fields) -> None:
        self.survivors, dropped = request["survivors"], request["dropped"]
        self.same(sorted(self.survivors + dropped), sorted(self.sharers), "survivors and dropped")
        said, point = self.said_of(self.survivors), self.place_of(one) + 1
        for signer, signature in zip(request["signers"], request["signatures"], strict=True):
            self.same(signature, self.clients[signer].sign("survivors", *said), "passed signature")
        shares, which = [], []
        for holder in self.places.holders(point - 1):
            other = self.clients[self.places.clients[holder]]
            alive, shared = other.number in self.survivors, other.number in self.sharers
            held = other.seed_shares if alive else other.key_shares
            shares.append(held[point].to_bytes(33, "big") if shared else bytes(33))
            which.append(0 if not shared else 1 if alive else 2)
        self.same((reply["shares"][0], reply["which"][0]), (shares, which), "revealed shares")
        self.revealed[point - 1] = (shares, which)

    def open_sum(self, name: str) -> Any:
        """Return the sum over the survivors, from masked rows, shares and wrapped roots."""
        seats, rows = self.places, self.masked[name]
        total = sum((rows[n] for n in self.survivors[1:]), rows[self.survivors[0]].copy())
        for number in self.sharers:
            place = seats.clients.index(number)
            secret = self.rebuilt(place)
            if number in self.survivors:
                key = mac(self.session, secret)
                total = total - self.mask(key, "self-mask", (place, place), name, total)
                continue
            for peer in seats.neighbours(place):
                if seats.clients[peer] in self.survivors:
                    pair = (min(place, peer), max(place, peer))
                    root = self.unwrapped(place, peer, secret)
                    mask = self.mask(root, "pair-mask", pair, name, total)
                    total = total - mask if peer < place else total + mask
        return total

    def rebuilt(self, place: int) -> bytes:
        """Return the secret of a client from the first shares that its holders revealed."""
        held = {}
        for holder in self.places.holders(place):
            if holder in self.revealed and len(held) < self.places.threshold:
                at = self.places.holders(holder).index(place)
                held[holder + 1] = int.from_bytes(self.revealed[holder][0][at], "big")
        return interpolate(held)

    def unwrapped(self, place: int, peer: int, drop_key: bytes) -> bytes:
        one = self.clients[self.places.clients[place]]
        row = self.wrapped_rows(one)[self.places.holders(place).index(peer)]
        key = labelled(mac(self.session, drop_key), "pair-wrap", place, peer)
        return bytes(a ^ b for a, b in zip(row[:32], key, strict=True))
