"""Recompute every known answer without securefg or `cryptography`: `python verify.py [FOLDER]`.

Exits 0 when all answers agree, 1 at the first that does not. Ed25519 signatures are left to
securefg's own tests.
"""

from __future__ import annotations

import bisect
import hashlib
import hmac
import json
import sys
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import mlkem
import pure

getcontext().prec = 60
PRIME = 2**256 + 297
Vector = dict[str, Any]


def tlv(item: Any) -> bytes:
    """Tag, 8-byte length, content."""
    if isinstance(item, int):
        tag, content = b"i", b"%d" % item
    elif isinstance(item, str):
        tag, content = b"s", item.encode()
    elif isinstance(item, bytes):
        tag, content = b"b", item
    else:
        tag, content = b"t", b"".join(tlv(part) for part in item)
    return tag + len(content).to_bytes(8, "big") + content


def labelled(*items: Any) -> bytes:
    return tlv(("securefg-secagg", 1, *items))


def of_format_2(*items: Any) -> bytes:
    return tlv(("securefg-secagg", 2, *items))


def expanded(root: bytes, info: bytes) -> bytes:
    """HKDF-Expand of RFC 5869, one block."""
    return hmac.new(root, info + b"\x01", hashlib.sha256).digest()


def halves(secret: bytes) -> tuple[bytes, bytes]:
    """The X25519 secret and the ML-KEM seed of a hybrid pair."""
    x, d, z = (
        expanded(secret, of_format_2("key-pair", name))
        for name in ("x25519", "ml-kem d", "ml-kem z")
    )
    return x, d + z


def hybrid_public(secret: bytes) -> bytes:
    x, seed = halves(secret)
    return pure.x25519(x, pure.X25519_BASE) + mlkem.key_pair(seed)[0]


def hybrid_link(
    setup: bytes, purpose: str, agreed: bytes, shared: bytes, ciphertext: bytes, *places: int
) -> bytes:
    return hkdf(setup, agreed + shared, labelled(purpose, *places, ciphertext))


def hkdf(salt: bytes, secret: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, one block."""
    root = hmac.new(salt, secret, hashlib.sha256).digest()
    return hmac.new(root, info + b"\x01", hashlib.sha256).digest()


def check(claim: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise SystemExit(f"{claim} does not agree")


def session(v: Vector) -> None:
    roster = tuple(bytes.fromhex(public) for public in v["roster"])
    items = ("setup", v["keys"], roster, bytes.fromhex(v["config"]))
    setup = hashlib.sha256(of_format_2(*items)).digest()
    check("setup_id", setup.hex(), v["setup_id"])
    text = labelled("session", setup, *v["about"], bytes.fromhex(v["model_hash"]))
    check("session_id", hashlib.sha256(text).hexdigest(), v["session_id"])


def kdf(v: Vector) -> None:
    salt = bytes.fromhex(v["session_id"])
    own, peer = (bytes.fromhex(secret) for secret in v["secrets"])
    publics = [pure.x25519(secret, pure.X25519_BASE) for secret in (own, peer)]
    check("publics", [public.hex() for public in publics], v["publics"])
    shared = pure.x25519(own, publics[1])
    check("root", hmac.new(salt, shared, hashlib.sha256).hexdigest(), v["root"])
    first_party, other = v["parties"]
    *what, bits = v["context"]
    infos = {
        "pair_mask": labelled(
            "pair-mask", min(first_party, other), max(first_party, other), *what, 2**bits
        ),
        "box": labelled("share-box", first_party, other),
        "self_mask": labelled("self-mask", first_party, first_party, *what, 2**bits),
    }
    for name, info in infos.items():
        secret = bytes.fromhex(v["self_seed"]) if name == "self_mask" else shared
        check(f"{name}_info", info.hex(), v[f"{name}_info"])
        check(f"{name}_key", hkdf(salt, secret, info).hex(), v[f"{name}_key"])


def hybrid(v: Vector) -> None:
    secrets = [bytes.fromhex(text) for text in v["secrets"]]
    check("publics", [hybrid_public(secret).hex() for secret in secrets], v["publics"])
    public, ciphertext = bytes.fromhex(v["publics"][1]), bytes.fromhex(v["ciphertext"])
    shared, sent = mlkem.encapsulate(public[32:], bytes.fromhex(v["encapsulation"]))
    check("ciphertext", sent.hex(), v["ciphertext"])
    private = mlkem.key_pair(halves(secrets[1])[1])[1]
    check("decapsulated secret", mlkem.decapsulate(private, ciphertext), shared)
    agreed = pure.x25519(halves(secrets[0])[0], public[:32])
    for name, purpose in (("mask_link", "mask-link"), ("box_link", "box-link")):
        about = (bytes.fromhex(v["setup_id"]), purpose, agreed, shared, ciphertext, *v["parties"])
        check(name, hybrid_link(*about).hex(), v[name])


def masks(v: Vector) -> None:
    size, turn = v["modulus_bits"] // 8, 1 if v["sign"] == "add" else -1
    for place, before, after in zip(v["places"], v["before"], v["after"], strict=True):
        word = pure.aes256_ctr(bytes.fromhex(v["key"]), place * size, size)
        masked = (before + turn * int.from_bytes(word, "little")) % 2 ** v["modulus_bits"]
        check(f"masked word {place}", masked, after)


def shamir(v: Vector) -> None:
    secret, drawn = int(v["secret"], 16), bytes.fromhex(v["randomness"])
    highest_first = [int.from_bytes(drawn[i : i + 49], "big") for i in range(0, len(drawn), 49)]
    powers = [secret, *reversed(highest_first)]
    for x, share in zip(v["points"], v["shares"], strict=True):
        value = sum(c * x**i for i, c in enumerate(powers)) % PRIME
        check(f"share at {x}", value, int(share, 16))
    used = list(zip(v["points"], (int(s, 16) for s in v["shares"]), strict=True))[-v["threshold"] :]
    check("combined secret", interpolate_at_zero(used), secret)
    text = labelled(
        "commitment", bytes.fromhex(v["session_id"]), v["party"], bytes.fromhex(v["secret"])
    )
    check("commitment", hashlib.sha256(text).hexdigest(), v["commitment"])


def interpolate_at_zero(points: list[tuple[int, int]]) -> int:
    """Lagrange's weights as exact fractions, turned into the field at the end."""
    total = 0
    for i, (x, y) in enumerate(points):
        weight = Fraction(1)
        for j, (other, _) in enumerate(points):
            weight *= Fraction(other, other - x) if i != j else 1
        total += y * weight.numerator * pow(weight.denominator, -1, PRIME)
    return total % PRIME


def boxes(v: Vector) -> None:
    root, salt = bytes.fromhex(v["root"]), bytes.fromhex(v["session_id"])
    sender, receiver, box = v["sender"], v["receiver"], bytes.fromhex(v["box"])
    info = labelled("share-box", sender, receiver)
    key = hmac.new(root, info + b"\x01", hashlib.sha256).digest()
    associated = labelled("share-box", salt, sender, receiver)
    sealed = pure.chacha20_poly1305(key, box[:12], bytes.fromhex(v["shares"]), associated)
    check("box", box[:12] + sealed, box)


def noise(v: Vector) -> None:
    """The CDF from one exponential per integer, searched with the first 64 bits of u."""
    sigma, reach = Decimal(v["sigma"]), int(14 * v["sigma"]) + 1
    weights = [(-Decimal(x * x) / (2 * sigma**2)).exp() for x in range(-reach, reach + 1)]
    total, running, cdf = sum(weights), Decimal(0), []
    for weight in weights:
        running += weight
        cdf.append(running / total)
    stream = pure.aes256_ctr(bytes.fromhex(v["seed"]), 0, 8 * len(v["samples"]))
    for i, found in enumerate(v["samples"]):
        u = Decimal(int.from_bytes(stream[8 * i : 8 * i + 8], "little")) / Decimal(2**64)
        check(f"sample {i} at sigma {sigma}", bisect.bisect_right(cdf, u) - reach, found)


CHECKS = {
    "session": session,
    "kdf": kdf,
    "masks": masks,
    "shamir": shamir,
    "boxes": boxes,
    "noise": noise,
    "hybrid": hybrid,
}


def main(folder: Path) -> None:
    for name, verify in CHECKS.items():
        cases = json.loads((folder / f"{name}.json").read_text())
        for case in cases:
            verify(case)
        print(f"{name}: {len(cases)} agree")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
