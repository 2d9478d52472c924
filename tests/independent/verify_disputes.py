"""Parameters, disputes and the judge, a second time, as the specification has them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests.independent.primitives import LABELS, NAME, Pair, labelled, mac, pack, sha

# ----------------------------------------------------------------------------- section 4: (k, t)


def find_most_marked(total: int, marked: int, drawn: int, rare: Fraction) -> int:
    """Return the least m such that more than m of the drawn are marked with chance <= rare."""
    most, beyond = min(marked, drawn), Fraction(0)
    while most > 0:
        ways = math.comb(marked, most) * math.comb(total - marked, drawn - most)
        beyond += Fraction(ways, math.comb(total, drawn))
        if beyond > rare:
            return most
        most -= 1
    return 0


def find_parameters(
    n: int, population: int, corrupt: float, dropout: float | None
) -> tuple[int, int]:
    """Return the degree and the threshold of a roster of n clients."""
    colluders = min(n, math.floor((corrupt + 1e-14) * population))
    if dropout is None:
        dropped = max(0, min(n // 3, 2 + n // 10, n - (n + colluders) // 2 - 1))
    else:
        dropped = math.floor((dropout + 1e-14) * n)
    silent = dropped + colluders
    for k in range(32, n - 1, 2):
        marked, rare = min(colluders, n - 1), Fraction(1, 2**81 * 2 * n)
        beside = find_most_marked(n - 1, marked, k // 2, rare)
        around = find_most_marked(n - 1, marked, k, rare)
        least = max(k // 2 + beside, (k + around) // 2) + 1
        away = min(n - 1, silent)
        most = k - find_most_marked(n - 1, away, k, Fraction(1, 2**20 * n))
        if least <= most:
            return k, min(max(2 * k // 3 + 1, least), most)
    least = (n + colluders) // 2 + 1
    most = max(least, n - silent)
    return n - 1, min(max(2 * n // 3 + 1, least), most)


# ----------------------------------------------------------------------------- section 7: disputes


@dataclass(frozen=True)
class End:
    """One end of a disputed pair: its place, what it advertised, signed and opened.

    ciphertext  the pair's, confirmed, as this end signed it; empty with classical keys
    """

    number: int
    place: int
    mask_key: bytes
    tag: bytes
    ciphertext: bytes
    secret: bytes | None


def has_signed(public: bytes, signature: bytes, purpose: str, *items: Any) -> bool:
    try:
        key = Ed25519PublicKey.from_public_bytes(public)
        key.verify(signature, pack((NAME, LABELS, purpose, *items)))
    except InvalidSignature:
        return False
    return True


def pairs_said(session: bytes, number: int, *rows: list[bytes]) -> tuple[Any, ...]:
    """Return what a client signs of its pairs: wrapped rows, ciphertexts sent and received."""
    return (session, number, *(sha(b"".join(one)) for one in rows))


def judge(setup: bytes, session: bytes, is_hybrid: bool, sender: End, receiver: End) -> set[int]:
    """Return who lies, by signed and opened values."""
    ends = (sender, receiver)
    false = {
        end.number
        for end in ends
        if end.secret is not None and Pair(end.secret, is_hybrid).public != end.mask_key
    }
    if false or sender.ciphertext != receiver.ciphertext:
        return false
    witness, other = receiver, sender
    if receiver.secret is None and not is_hybrid:
        witness, other = sender, receiver
    if witness.secret is None:
        return set()
    way = (sender.place, receiver.place)
    ciphertext, confirmation = receiver.ciphertext[:1088], receiver.ciphertext[1088:]
    pair = Pair(witness.secret, is_hybrid)
    link = pair.link(setup, other.mask_key, ("mask-link", *way), ciphertext)
    tag = labelled(mac(session, link), "pair-tag", *sorted(way))[:16]
    is_confirmed = not is_hybrid or confirmation == labelled(link, "mask-confirmation", *way)[:16]
    liars = {sender.number} if sender.tag != tag or not is_confirmed else set()
    if receiver.tag != (tag if is_confirmed else bytes(16)):
        liars.add(receiver.number)
    return liars
