"""Write the known-answer vectors of secure aggregation: `python generate.py [FOLDER]`.

Everything random comes from SHA-256 in counter mode under a label, so a second run writes the
same bytes. `verify.py` recomputes every answer without securefg. A `bad_*` file holds an input
that must be refused, and names the step and the error.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import mlkem
import numpy as np

from securefg.privacy.discrete_gaussian import sample
from securefg.secagg import boxes, derive, shamir
from securefg.secagg.derive import MaskContext
from securefg.secagg.hybrid import KEY_BYTES, X25519_BYTES, FreshPair
from securefg.secagg.keys import Identity, KeyPair
from securefg.secagg.masks import Mask, Sign, apply_masks
from securefg.secagg.prg import Keystream
from securefg.secagg.ring import Ring
from securefg.secagg.secret import Secret

Vector = dict[str, Any]
MASK_LINK, BOX_LINK = derive.Purpose.MASK_LINK, derive.Purpose.BOX_LINK
SALTS = {
    "session": "7b007dc8214ce0e152eda4c1235d9793d0d1c602e231921f6daec7c5757142cf",
    "another session": "538643b17de7060f34dc2ead86611f3518d5160635008155281a1e4d56e14ad1",
}
LONG = 40_000
PROBES = (0, 32_767, 32_768, 39_999)


def randomness(label: str) -> Callable[[int], bytes]:
    """A repeatable `random_bytes`: successive SHA-256(label || counter) blocks."""
    state = {"counter": 0}

    def read(num_bytes: int) -> bytes:
        out = b""
        while len(out) < num_bytes:
            out += hashlib.sha256(f"{label}/{state['counter']}".encode()).digest()
            state["counter"] += 1
        return out[:num_bytes]

    return read


def session(label: str = "session", num_parties: int = 3) -> Vector:
    roster = [Identity.fresh(randomness(f"{label}/{i}")).public for i in range(num_parties)]
    config, model = b"ring: 32\n", hashlib.sha256(b"model of round 7").digest()
    return {
        "roster": [public.hex() for public in roster],
        "config": config.hex(),
        "model_hash": model.hex(),
        "about": [3, 7, "Update"],
        "keys": "hybrid",
        "setup_id": derive.setup_id(roster, config, "hybrid").hex(),
        "session_id": derive.session_id(
            derive.setup_id(roster, config, "hybrid"), 3, 7, "Update", model
        ).hex(),
    }


def session_bytes(label: str = "session") -> bytes:
    """Two session ids of format 1, kept: primitives did not change since, nor do their vectors."""
    return bytes.fromhex(SALTS[label])


def hybrid_pair(sender: int, receiver: int) -> Vector:
    """Both key pairs, what the sender encapsulates, and the links that both ends make of it."""
    secrets = [Secret.fresh(randomness(f"hybrid/{p}")) for p in (sender, receiver)]
    first, second = (FreshPair(secret, "hybrid") for secret in secrets)
    drawn = randomness(f"hybrid/{sender}/{receiver}")(32)
    shared, ciphertext = mlkem.encapsulate(second.public[X25519_BYTES:], drawn)
    setup, agreed = session_bytes(), first.exchange(second.public)
    assert second.open_ciphertext(ciphertext) == Secret(shared)
    about = (agreed, Secret(shared), ciphertext, sender, receiver)
    links = {p: derive.hybrid_link(setup, p, *about) for p in (MASK_LINK, BOX_LINK)}
    return {
        "parties": [sender, receiver],
        "secrets": [secret.reveal().hex() for secret in secrets],
        "publics": [first.public.hex(), second.public.hex()],
        "setup_id": setup.hex(),
        "encapsulation": drawn.hex(),
        "ciphertext": ciphertext.hex(),
        "mask_link": links[MASK_LINK].reveal().hex(),
        "box_link": links[BOX_LINK].reveal().hex(),
    }


def kdf(first_client: int, other: int, context: MaskContext) -> Vector:
    first, second = (KeyPair.fresh(randomness(f"x25519/{p}")) for p in (first_client, other))
    root = first.agree_root(second.public, session_bytes())
    seed = Secret.fresh(randomness(f"seed/{first_client}"))
    low, high = sorted((first_client, other))
    items = (*astuple(context)[:4], 1 << context.modulus_bits)
    return {
        "parties": [first_client, other],
        "secrets": [first.secret.reveal().hex(), second.secret.reveal().hex()],
        "publics": [first.public.hex(), second.public.hex()],
        "session_id": session_bytes().hex(),
        "context": list(astuple(context)[:5]),
        "root": root.reveal().hex(),
        "pair_mask_info": derive.key_info(derive.Purpose.PAIR_MASK, low, high, *items).hex(),
        "pair_mask_key": derive.pair_mask_key(root, first_client, other, context).reveal().hex(),
        "box_info": derive.key_info(derive.Purpose.SHARE_BOX, first_client, other).hex(),
        "box_key": derive.box_key(root, first_client, other).reveal().hex(),
        "self_seed": seed.reveal().hex(),
        "self_mask_info": derive.key_info(
            derive.Purpose.SELF_MASK, first_client, first_client, *items
        ).hex(),
        "self_mask_key": derive.self_mask_key(seed, session_bytes(), first_client, context)
        .reveal()
        .hex(),
    }


def mask(bits: int, sign: Sign, length: int, probes: tuple[int, ...]) -> Vector:
    """All of a short vector, or probes around the border of two chunks of a long one."""
    key = Secret.fresh(randomness(f"mask/{bits}/{sign.value}"))
    ring = Ring(bits)
    vector = ring.from_signed(np.arange(length, dtype=np.int64) * 10_007 - 5)
    before = [int(vector[i]) for i in probes]
    apply_masks(vector, [Mask(key, sign)])
    return {
        "key": key.reveal().hex(),
        "modulus_bits": bits,
        "sign": sign.value,
        "length": length,
        "places": list(probes),
        "before": before,
        "after": [int(vector[i]) for i in probes],
    }


def sharing(points: tuple[int, ...], threshold: int) -> Vector:
    label = f"shamir/{points}/{threshold}"
    secret = Secret.fresh(randomness(label + "/secret"))
    shares = shamir.split_secret(secret, points, threshold, randomness(label))
    return {
        "secret": secret.reveal().hex(),
        "threshold": threshold,
        "randomness": randomness(label)(49 * (threshold - 1)).hex(),
        "points": list(points),
        "shares": [share.encode().hex() for share in shares],
        "session_id": session_bytes().hex(),
        "party": 2,
        "commitment": shamir.commit_to_secret(secret, session_bytes(), 2).hex(),
    }


def box(sender: int, receiver: int) -> Vector:
    root = Secret.fresh(randomness("box/root"))
    shares = randomness("box/shares")(2 * shamir.SHARE_BYTES)
    sealed = boxes.seal_box(
        root, session_bytes(), sender, receiver, shares, randomness(f"box/{sender}/{receiver}")
    )
    return {
        "root": root.reveal().hex(),
        "session_id": session_bytes().hex(),
        "sender": sender,
        "receiver": receiver,
        "shares": shares.hex(),
        "box": sealed.hex(),
    }


def noise(sigma: float, count: int) -> Vector:
    seed = Secret.fresh(randomness(f"noise/{sigma}"))
    drawn = sample(sigma, count, Keystream(seed).read)
    return {"sigma": sigma, "seed": seed.reveal().hex(), "samples": drawn.tolist()}


def signature() -> Vector:
    identity = Identity.fresh(randomness("identity"))
    items = (session_bytes(), 7)
    return {
        "public": identity.public.hex(),
        "purpose": "advertise",
        "session_id": items[0].hex(),
        "round": items[1],
        "signature": identity.sign("advertise", *items).hex(),
    }


def flipped(hex_bytes: str) -> str:
    """The same bytes with the last bit turned."""
    data = bytearray.fromhex(hex_bytes)
    data[-1] ^= 1
    return data.hex()


def good_vectors() -> dict[str, list[Vector]]:
    short = MaskContext(round=7, message="Update", field="weights", length=5, modulus_bits=32)
    wide = MaskContext(round=0, message="Counts", field="holders", length=9, modulus_bits=64)
    return {
        "session": [session()],
        "kdf": [kdf(0, 1, short), kdf(2, 1, short), kdf(0, 1, wide)],
        "masks": [
            *(mask(bits, sign, 9, tuple(range(9))) for bits in (32, 64) for sign in Sign),
            mask(32, Sign.ADD, LONG, PROBES),
        ],
        "shamir": [sharing((1, 2, 3), 2), sharing((2, 5, 7, 11, 300), 4), sharing((9,), 1)],
        "boxes": [box(0, 1), box(1, 0)],
        "noise": [noise(0.5, 20), noise(3.0, 20), noise(1000.0, 20)],
        "signature": [signature()],
        "hybrid": [hybrid_pair(0, 1), hybrid_pair(5, 2)],
    }


def bad_vectors() -> dict[str, list[Vector]]:
    shares, sealed, signed = sharing((1, 2, 3), 2), box(0, 1), signature()
    public = hybrid_pair(0, 1)["publics"][0]
    tampered = [flipped(shares["shares"][0]), *shares["shares"][1:]]
    other = session_bytes("another session").hex()
    outside = (2**256 + 297).to_bytes(33, "big").hex()

    def refused(base: Vector, step: str, error: str, **change: Any) -> list[Vector]:
        return [{"step": step, "error": error, **base, **change}]

    return {
        "bad_tampered_share": refused(shares, "combine", "ReconstructionFailed", shares=tampered),
        "bad_duplicate_point": refused(shares, "combine", "BadShares", points=[1, 1, 3]),
        "bad_too_few_shares": refused(
            shares, "combine", "BadShares", points=[1], shares=shares["shares"][:1]
        ),
        "bad_commitment_of_another_session": refused(
            shares, "combine", "ReconstructionFailed", session_id=other
        ),
        "bad_share_outside_field": refused(
            shares, "decode", "BadShares", shares=[outside, *shares["shares"][1:]]
        ),
        "bad_share_length": refused(
            shares, "decode", "BadShares", shares=[s[2:] for s in shares["shares"]]
        ),
        "bad_tampered_box": refused(sealed, "open_box", "BadBox", box=flipped(sealed["box"])),
        "bad_box_of_another_session": refused(sealed, "open_box", "BadBox", session_id=other),
        "bad_box_turned_round": refused(sealed, "open_box", "BadBox", sender=1, receiver=0),
        "bad_truncated_box": refused(sealed, "open_box", "BadBox", box=sealed["box"][:20]),
        "bad_low_order_key": refused({"public": "00" * 32}, "agree", "BadKey"),
        "bad_short_key": refused({"public": "09" * 31}, "agree", "BadKey"),
        "bad_hybrid_key_of_low_order": refused(
            {"public": "00" * 32 + public[64:]}, "check_key", "BadKey"
        ),
        "bad_hybrid_key_outside_the_field": refused(
            {"public": public[:64] + "ff" * (KEY_BYTES["hybrid"] - 32)}, "check_key", "BadKey"
        ),
        "bad_hybrid_key_of_x25519_alone": refused({"public": public[:64]}, "check_key", "BadKey"),
        "bad_signature_of_another_round": refused(signed, "verify", "BadSignature", round=8),
        "bad_signature_for_another_purpose": refused(
            signed, "verify", "BadSignature", purpose="survivors"
        ),
    }


def main(folder: Path) -> None:
    for name, cases in (good_vectors() | bad_vectors()).items():
        (folder / f"{name}.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
