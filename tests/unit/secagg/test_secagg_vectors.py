"""Known answers: securefg gives them, an independent verifier agrees, and bad ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from securefg.privacy.discrete_gaussian import sample
from securefg.secagg import boxes, derive, errors, shamir
from securefg.secagg.derive import MaskContext
from securefg.secagg.hybrid import FreshPair, check_key
from securefg.secagg.keys import KeyPair, verify
from securefg.secagg.masks import Mask, Sign, apply_masks
from securefg.secagg.prg import Keystream
from securefg.secagg.ring import Ring
from securefg.secagg.secret import Secret
from tests.forks import script

FOLDER = Path(__file__).parents[2] / "vectors" / "secagg"
Vector = dict[str, Any]


def cases(name: str) -> list[Vector]:
    return list(json.loads((FOLDER / f"{name}.json").read_text()))


def secret(text: str) -> Secret:
    return Secret(bytes.fromhex(text))


def run(name: str, *arguments: str) -> CompletedProcess[str]:
    return script(FOLDER / name, *arguments)


def test_the_generator_writes_the_stored_vectors(tmp_path: Path) -> None:
    assert run("generate.py", str(tmp_path)).returncode == 0
    stored = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    assert {path.name: path.read_text() for path in tmp_path.glob("*.json")} == stored


def test_the_independent_verifier_agrees() -> None:
    result = run("verify.py")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("session", "session_id"),
        ("kdf", "pair_mask_key"),
        ("kdf", "self_mask_info"),
        ("shamir", "commitment"),
        ("boxes", "box"),
        ("hybrid", "mask_link"),
    ],
)
def test_the_independent_verifier_notices_a_wrong_answer(
    name: str, key: str, tmp_path: Path
) -> None:
    for path in FOLDER.glob("*.json"):
        (tmp_path / path.name).write_text(path.read_text())
    wrong = cases(name)
    wrong[0][key] = wrong[0][key][:-1] + ("0" if wrong[0][key][-1] != "0" else "1")
    (tmp_path / f"{name}.json").write_text(json.dumps(wrong))
    result = run("verify.py", str(tmp_path))
    assert result.returncode == 1
    assert f"{key} does not agree" in result.stderr


def test_the_verifier_shares_no_code_with_what_it_verifies() -> None:
    for name in ("verify.py", "pure.py", "mlkem.py"):
        lines = (FOLDER / name).read_text().splitlines()
        imports = [line for line in lines if line.startswith(("import ", "from "))]
        assert imports
        assert not any("securefg" in line or "cryptography" in line for line in imports)


def test_session_ids_match() -> None:
    for v in cases("session"):
        roster = [bytes.fromhex(public) for public in v["roster"]]
        setup = derive.setup_id(roster, bytes.fromhex(v["config"]), v["keys"])
        assert setup.hex() == v["setup_id"]
        found = derive.session_id(setup, *v["about"], bytes.fromhex(v["model_hash"]))
        assert found.hex() == v["session_id"]


@pytest.mark.parametrize("v", cases("kdf"))
def test_derived_keys_match(v: Vector) -> None:
    session, context = bytes.fromhex(v["session_id"]), MaskContext(*v["context"])
    first_party, other = v["parties"]
    first, second = (KeyPair(secret(text)) for text in v["secrets"])
    assert [first.public.hex(), second.public.hex()] == v["publics"]
    root = second.agree_root(first.public, session)
    assert root == secret(v["root"])
    assert derive.pair_mask_key(root, other, first_party, context) == secret(v["pair_mask_key"])
    assert derive.box_key(root, first_party, other) == secret(v["box_key"])
    found = derive.self_mask_key(secret(v["self_seed"]), session, first_party, context)
    assert found == secret(v["self_mask_key"])


@pytest.mark.parametrize("v", cases("hybrid"))
def test_hybrid_links_match(v: Vector) -> None:
    first, second = (FreshPair(secret(text), "hybrid") for text in v["secrets"])
    assert [first.public.hex(), second.public.hex()] == v["publics"]
    ciphertext, setup = bytes.fromhex(v["ciphertext"]), bytes.fromhex(v["setup_id"])
    agreed, shared = second.exchange(first.public), second.open_ciphertext(ciphertext)
    for name in ("mask_link", "box_link"):
        purpose = derive.Purpose(name.replace("_", "-"))
        link = derive.hybrid_link(setup, purpose, agreed, shared, ciphertext, *v["parties"])
        assert link == secret(v[name])


@pytest.mark.parametrize("v", cases("masks"))
def test_masks_match(v: Vector) -> None:
    vector = np.zeros(v["length"], Ring(v["modulus_bits"]).dtype)
    vector[v["places"]] = v["before"]
    apply_masks(vector, [Mask(secret(v["key"]), Sign(v["sign"]))])
    assert vector[v["places"]].tolist() == v["after"]


@pytest.mark.parametrize("v", cases("shamir"))
def test_shares_match(v: Vector) -> None:
    drawn = bytes.fromhex(v["randomness"])
    shares = shamir.split_secret(
        secret(v["secret"]), v["points"], v["threshold"], lambda n: drawn[:n]
    )
    assert [share.encode().hex() for share in shares] == v["shares"]
    assert combined(v) == secret(v["secret"])


@pytest.mark.parametrize("v", cases("boxes"))
def test_boxes_match(v: Vector) -> None:
    assert opened(v).hex() == v["shares"]


@pytest.mark.parametrize("v", cases("noise"))
def test_noise_matches(v: Vector) -> None:
    found = sample(v["sigma"], len(v["samples"]), Keystream(secret(v["seed"])).read)
    assert found.tolist() == v["samples"]


def test_signatures_verify() -> None:
    for v in cases("signature"):
        verified(v)


def decoded(v: Vector) -> list[shamir.Share]:
    pairs = zip(v["points"], v["shares"], strict=True)
    return [shamir.Share.decode(point, bytes.fromhex(text)) for point, text in pairs]


def combined(v: Vector) -> Secret:
    expected, session = bytes.fromhex(v["commitment"]), bytes.fromhex(v["session_id"])
    check = shamir.commits_to(expected, session, v["party"])
    return shamir.combine_shares(decoded(v), v["threshold"], check)


def opened(v: Vector) -> bytes:
    session, box = bytes.fromhex(v["session_id"]), bytes.fromhex(v["box"])
    return boxes.open_box(secret(v["root"]), session, v["sender"], v["receiver"], box)


def agreed(v: Vector) -> Secret:
    return KeyPair.fresh().agree_root(bytes.fromhex(v["public"]), bytes(32))


def verified(v: Vector) -> None:
    public, signature = bytes.fromhex(v["public"]), bytes.fromhex(v["signature"])
    verify(public, signature, v["purpose"], bytes.fromhex(v["session_id"]), v["round"])


STEPS: dict[str, Callable[[Vector], object]] = {
    "decode": decoded,
    "combine": combined,
    "open_box": opened,
    "agree": agreed,
    "verify": verified,
    "check_key": lambda v: check_key(bytes.fromhex(v["public"]), "hybrid"),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("bad_*.json")))
def test_bad_vectors_fail_at_the_step_they_name(name: str) -> None:
    for v in cases(name):
        with pytest.raises(getattr(errors, v["error"])):
            STEPS[v["step"]](v)
        if v["step"] == "combine":
            decoded(v)


def test_there_is_a_bad_vector_for_every_step() -> None:
    bad = [v["step"] for path in FOLDER.glob("bad_*.json") for v in cases(path.stem)]
    assert set(bad) == set(STEPS)
