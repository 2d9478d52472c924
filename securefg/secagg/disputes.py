"""Disputes about a pair: two clients signed different tags, so that at least one of them lies.

Both open the secret behind their mask key. Nothing was uploaded under the set-up, and it ends: the
opened keys protect nothing. Everybody can then recompute the pair's tag from signed messages. The
liar's key does not match its signed public half, or does not give its tag or its confirmation. The
client that the ML-KEM ciphertext was for can prove the whole secret alone. The evidence is:

    Keys      the public mask keys, signed by their owners
    Ready     tags and the confirmed mask ciphertexts of both directions, signed by each of the two
    Opening   the secrets, signed

A server that delivered another ciphertext than was sent finds two signed words that do not agree on
the ciphertext. That is no evidence against either client (`Word.offer`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch

from securefg.protocol.codec import Clients
from securefg.secagg.dealt import Dealt
from securefg.secagg.derive import TAG_BYTES, mask_confirmation, pair_tag, session_root
from securefg.secagg.errors import BadSignature
from securefg.secagg.graph import MaskGraph
from securefg.secagg.hybrid import CIPHERTEXT_BYTES, FreshPair, Suite
from securefg.secagg.keys import verify
from securefg.secagg.links import mask_link
from securefg.secagg.messages import Dispute, Opening
from securefg.secagg.ring import from_bytes, stack_rows, to_bytes
from securefg.secagg.secret import Secret
from securefg.secagg.session import NO_TAG, SignedPairs, has_full_rows, pair_offer
from securefg.secagg.statements import pairs_statement

SILENCES: Final = 2
"""A client that does not open its key in so many disputes is named."""


@dataclass(frozen=True)
class Word:
    """What one client of a pair signed, and opened.

    offer   confirmed ciphertext of the pair's mask secret, as this client signed to have sent or
            received it
    secret  behind its mask key, if it opened
    """

    number: int
    place: int
    mask_key: bytes
    tag: bytes
    offer: bytes
    secret: Secret | None = None


def signed_word(
    number: int, mask_key: bytes, graph: MaskGraph, places: tuple[int, int], pairs: SignedPairs
) -> Word:
    """What a client's signed rows say of one pair; `places` are its own and the peer's."""
    own, peer = places
    tag = pairs.wrapped[graph.holders(own).index(peer)][-TAG_BYTES:]
    return Word(number, own, mask_key, tag, pair_offer(graph, own, peer, pairs))


def find_liars(
    setup: bytes, session: bytes, suite: Suite, sender: Word, receiver: Word
) -> dict[int, str]:
    """Who of the two lies, and how; nobody where the evidence does not tell.

    sender  the client that encapsulated the pair's mask secret to the receiver
    """
    wrong = {
        w.number: "opened a key that does not match its signed half"
        for w in (sender, receiver)
        if w.secret is not None and FreshPair(w.secret, suite).public != w.mask_key
    }
    if wrong or sender.offer != receiver.offer:
        return wrong
    witness, other = receiver, sender
    if receiver.secret is None and suite == "classical":
        witness, other = sender, receiver
    if witness.secret is None:
        return {}
    link = _link_of(setup, suite, FreshPair(witness.secret, suite), other, (sender, receiver))
    tag = pair_tag(session_root(link, session), sender.place, receiver.place)
    liars = {}
    expected = tag
    if suite == "hybrid":
        confirmation = mask_confirmation(link, sender.place, receiver.place)
        if receiver.offer[CIPHERTEXT_BYTES:] != confirmation:
            liars[sender.number] = "sent a confirmation that its key does not give"
            expected = NO_TAG
    if sender.tag != tag:
        liars[sender.number] = "signed a tag that its key does not give"
    if receiver.tag != expected:
        liars[receiver.number] = "signed a tag that its key does not give"
    return liars


def _link_of(
    setup: bytes, suite: Suite, keys: FreshPair, other: Word, ends: tuple[Word, Word]
) -> Secret:
    """The first link of a pair's masks, by the opened keys of one end."""
    sender, receiver = ends
    ciphertext = receiver.offer[:CIPHERTEXT_BYTES]
    encapsulated = (keys.open_ciphertext(ciphertext), ciphertext) if suite == "hybrid" else None
    agreed = keys.exchange(other.mask_key)
    return mask_link(setup, agreed, encapsulated, sender.place, receiver.place)


@dataclass
class Court:
    """The server's part in disputes over a run.

    exchange  sends a request to clients and gathers their replies
    blame     takes a client's number and what it did
    suspect   takes the number of a client that did not open its key; the next one names it
    """

    suite: Suite
    identities: Sequence[bytes]
    exchange: Callable[..., Any]
    blame: Callable[[int, str], None]
    suspect: Callable[[int, str], None] = lambda client, reason: None
    silences: Counter[int] = field(default_factory=Counter)

    def settle(
        self,
        odd: list[tuple[int, int]],
        dealt: Dealt,
        keys: Mapping[int, bytes],
        graph: MaskGraph,
        about: tuple[bytes, bytes],
    ) -> set[int]:
        """Blame the liars of these pairs. Return all who are to stay out of the next set-up.

        keys   everybody's mask key, by client, in the order of places
        about  the set-up's and the session's id
        """
        places = {number: place for place, number in enumerate(keys)}
        out = {
            n
            for n in sorted({n for pair in odd for n in pair})
            if not self._has_signed(n, places[n], dealt.pairs[n], graph, about[1])
        }
        rest = [pair for pair in odd if not out & set(pair)]
        secrets = self._opened_secrets(rest, dealt, about[0]) if rest else {}
        liars: dict[int, str] = {}
        for pair in rest:
            words = []
            for own, peer in (pair, pair[::-1]):
                near = places[own], places[peer]
                word = signed_word(own, keys[own], graph, near, dealt.pairs[own])
                words.append(replace(word, secret=secrets.get(own)))
            first, second = words
            if second.place not in graph.neighbours_ahead(first.place):
                first, second = second, first
            liars |= find_liars(*about, self.suite, first, second)
        for client, reason in liars.items():
            self.blame(client, reason)
        unsettled = [pair for pair in rest if not liars.keys() & set(pair)]
        silent = {n for pair in unsettled for n in pair if n not in secrets}
        self._count_silences(silent)
        both = {n for pair in unsettled if not silent & set(pair) for n in pair}
        return out | liars.keys() | silent | both

    def _has_signed(
        self, number: int, place: int, pairs: SignedPairs, graph: MaskGraph, session: bytes
    ) -> bool:
        """Whether a client signed its tags and the ciphertexts as the server passed them on.

        Rows must have their full width.
        """
        if not has_full_rows(graph, place, self.suite, pairs):
            self.blame(number, "sent rows of another width than the format's")
            return False
        said = pairs_statement(session, number, pairs.wrapped, pairs.sent, pairs.received)
        try:
            verify(self.identities[number], pairs.signature, "pairs", *said)
        except BadSignature:
            self.blame(number, "sent a bad signature on its pairs")
            return False
        return True

    def _opened_secrets(
        self, pairs: list[tuple[int, int]], dealt: Dealt, setup: bytes
    ) -> dict[int, Secret]:
        """The secrets that the clients of these pairs opened, by client."""
        peer_of = {own: peer for pair in pairs for own, peer in (pair, pair[::-1])}
        found = {n: self._opening_of(n, peer_of[n], dealt, setup) for n in sorted(peer_of)}
        return {n: secret for n, secret in found.items() if secret is not None}

    def _opening_of(self, number: int, peer: int, dealt: Dealt, setup: bytes) -> Secret | None:
        """The secret that one client opened, asked alone: of two replies whose forms differ nobody
        could tell which one is odd."""
        shown, hybrid = dealt.pairs[peer], self.suite == "hybrid"
        request = Dispute(
            setup=from_bytes([setup])[0],
            peers=torch.tensor([peer]),
            wrapped=from_bytes(shown.wrapped)[None],
            sent=stack_rows([shown.sent] if hybrid else []),
            received=stack_rows([shown.received] if hybrid else []),
            signatures=from_bytes([shown.signature]),
        )
        replies = self.exchange(request, Opening, Clients.of([number]))
        if not replies.count:
            return None
        opened = replies.message.secret, replies.message.signature
        if [part.dtype for part in opened] != [torch.uint8] * 2 or opened[0].shape != (1, 32):
            self.blame(number, "opened a key in another form than the format's")
            return None
        raw, signature = (to_bytes(part)[0] for part in opened)
        return Secret(raw) if self._is_opened(number, setup, raw, signature) else None

    def _is_opened(self, number: int, setup: bytes, raw: bytes, signature: bytes) -> bool:
        try:
            verify(self.identities[number], signature, "opening", setup, number, raw)
        except BadSignature:
            self.blame(number, "sent a bad signature on the key that it opened")
            return False
        return True

    def _count_silences(self, silent: set[int]) -> None:
        """Blame those who did not open their key in several disputes; a dispute counts once."""
        for client in sorted(silent):
            self.silences[client] += 1
            self.suspect(client, "did not open its key in a dispute")
            if self.silences[client] >= SILENCES:
                self.blame(client, f"did not open its key in {SILENCES} disputes")
