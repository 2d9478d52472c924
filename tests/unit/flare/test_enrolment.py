"""Keys are born where they live: the one who provisions never has them, nor keeps the root's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from securefg.flare.enrolment import Request, make_request
from securefg.foundation.errors import ConfigError, DataError
from securefg.protocol.codec import Clients
from securefg.site.certificates import Root, Signer
from securefg.site.roster import read_roster
from tests.unit.flare.test_deploy_commands import call, written

pytest.importorskip("nvflare")
SIZES = ("--without-data", "--nodes", "9", "--features", "2", "--classes", "3")
PARTIES = ("bank-a", "bank-b", "bank-c", "localhost")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four parties made their keys; the kits came back."""
    folder = tmp_path_factory.mktemp("enrolment")
    requests: list[str | Path] = []
    for name in PARTIES:
        assert call("request", name, "--out", folder / f"{name}.own")[0] == 0
        requests += ["--request", folder / f"{name}.own" / "request.json"]
    banks = [word for name in PARTIES[:3] for word in ("--site", name)]
    out = ("--out", folder / "kits")
    assert call("provision", written(folder), *out, *banks, *SIZES, *requests)[0] == 0
    return folder


def secrets_of(folder: Path, name: str) -> list[bytes]:
    own = folder / f"{name}.own" / "private"
    return [(own / "party.key").read_bytes(), (own / "masking.keys").read_bytes()]


def test_nothing_secret_of_a_party_or_of_the_root_is_where_kits_are_made(place: Path) -> None:
    files = [path for path in (place / "kits").rglob("*") if path.is_file()]
    keys = [path for path in files if b"PRIVATE KEY" in path.read_bytes()]
    assert [path.parent.parent.name for path in keys] == ["admin@securefg.local"]
    assert not list((place / "kits").rglob("*.keys"))
    assert not (place / "kits" / "state").exists()
    content = b"".join(path.read_bytes() for path in files)
    for name in PARTIES:
        assert all(secret not in content for secret in secrets_of(place, name))
    assert not [path for path in place.iterdir() if path.name.startswith(".")]


def give_data(kit: Path, host: str) -> None:
    (kit / "securefg" / "shards").mkdir()
    (kit / "securefg" / "shards" / f"{host}.safetensors").touch()


def test_a_kit_that_came_back_is_completed_with_ones_own_keys(place: Path) -> None:
    kit = place / "kits" / "bank-a"
    assert call("check", kit)[0] == 1  # the key is missing
    with pytest.raises(ConfigError, match="not for the key in"):
        call("install", kit, place / "bank-b.own")
    assert call("install", kit, place / "bank-a.own")[0] == 0
    assert call("install", place / "kits" / "localhost", place / "localhost.own")[0] == 0
    assert (kit / "startup" / "client.key").stat().st_mode & 0o077 == 0
    word, root = Signer.load(kit / "startup"), Root.load(kit / "startup")
    root.check("bank-a", word.certificate, word.sign("purpose", 1), "purpose", 1)
    sites = {name: {f"client-{i}": Clients(((i, i + 1),))} for i, name in enumerate(PARTIES[:3])}
    roster = read_roster(kit / "local" / "securefg" / "roster.json", root, sites)
    own = Request.read(place / "bank-a.own" / "request.json")
    assert roster[0] == own.masking_keys[0]
    code, printed_text = call("check", kit)
    assert (code, "missing" in printed_text) == (1, True)  # its data is still to come
    give_data(kit, "client-0")
    code, printed_text = call("check", kit)
    assert code == 0, printed_text
    assert "securefg/ask" in printed_text.replace("\n", "")


def test_a_request_is_its_partys_own_word(place: Path, tmp_path: Path) -> None:
    data = json.loads((place / "bank-a.own" / "request.json").read_text())
    other = json.loads((place / "bank-b.own" / "request.json").read_text())
    for changes in (
        {"party": "bank-b"},
        {"masking_keys": other["masking_keys"]},
        {"csr": other["csr"]},
        {"signature": "00"},
        {"csr": "x"},
    ):
        (tmp_path / "request.json").write_text(json.dumps({**data, **changes}))
        with pytest.raises(DataError, match="not a request of a party"):
            Request.read(tmp_path / "request.json")


def test_requests_that_do_not_fit_are_refused(place: Path, tmp_path: Path) -> None:
    many = make_request("bank-a", tmp_path / "many", 3)
    config = written(tmp_path)
    banks = ("--site", "bank-a", "--site", "bank-b")
    with pytest.raises(ConfigError, match="sent 3 masking keys; it has 1 clients"):
        call("provision", config, "--out", tmp_path / "x", *banks, *SIZES, "--request", many)
    with pytest.raises(ConfigError, match="bank-a: no party of this federation"):
        call("provision", config, "--out", tmp_path / "y", "--site", "b", *SIZES, "--request", many)
    with pytest.raises(ConfigError, match="wanted a new folder for the keys"):
        make_request("bank-a", tmp_path / "many", 1)
    for name in ("server", "bank.a", "_admin_1", "../x"):
        with pytest.raises(ConfigError):
            call("provision", config, "--out", tmp_path / "z", "--site", name, *SIZES)


def test_a_kit_says_what_is_wrong_with_it(place: Path) -> None:
    kit = place / "kits" / "bank-b"
    call("install", kit, place / "bank-b.own")
    give_data(kit, "client-1")
    assert call("check", kit)[0] == 0
    key, other = kit / "startup" / "client.key", place / "bank-a.own" / "private" / "party.key"
    own_key = key.read_bytes()
    key.write_bytes(other.read_bytes())
    assert "not the certificate's" in " ".join(call("check", kit)[1].split())
    key.write_bytes(own_key)
    assert call("check", kit)[0] == 0
    policy = kit / "securefg" / "site_policy.yaml"
    text = policy.read_text()
    assert yaml.safe_load(text)["scores"] is False
    policy.unlink()
    assert "no policy of this site" in " ".join(call("check", kit)[1].split())
    policy.write_text(text)
    (kit / "securefg" / "ledger.jsonl").unlink()
    assert call("check", kit)[0] == 1
    (kit / "startup" / "client.key").chmod(0o644)
    assert "0644" in call("check", kit)[1]
    found = serialization.load_pem_private_key(own_key, None)
    assert found.key_size == 3072  # type: ignore[union-attr]
