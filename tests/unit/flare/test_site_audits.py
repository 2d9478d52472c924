"""Four sites audit their parts at home; what leaves is findings, and no piece of their data."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from audits.findings.record import Finding, Verdict
from audits.plan import Plan
from audits.recorded import recorded_noise
from audits.run import audit
from audits.site import audit_site, site_truth
from securefg.cli.main import app
from securefg.data.shard import load_shards
from securefg.foundation.errors import DataError, RunFolderError
from securefg.privacy.noise import SystemNoise
from securefg.site.certificates import BadCertificate, NotSigned, Root, Signer
from securefg.site.findings import read_shared
from securefg.site.plan import PLAN_FILE
from tests.small import config
from tests.unit.flare.federation_world import SITES, World

FOUR = ("partition.shares=[0.5, 0.6, 0.7, 0.8]", "training.rounds=2", "method.weighting=equal")
NOISE = "privacy={mechanism: local_gaussian, noise_multiplier: 2.0}"
QUICK = ["--trials", "1000", "--only", "similar_links", "--only", "training_labels"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("site_audits")
    made = World(root / "apart", config(root, *FOUR))
    job = made.job(has_truth=False)
    made.fetched = made.run(job)  # type: ignore[attr-defined]
    job.write(made.kits.path / PLAN_FILE)
    return made


@pytest.fixture(scope="module")
def files(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the four sites would pass on, by the documented command."""
    folder, audit_files = tmp_path_factory.mktemp("shared"), {}
    for site in SITES:
        audit_files[site] = folder / f"{site}.json"
        command = ["deploy", "audit", str(world.kits.site(site)), "--only", "promises", *QUICK]
        done = CliRunner().invoke(app, [*command, "--out", str(audit_files[site])])
        assert done.exit_code == 0, done.output
        assert f"signed by {site}" in " ".join(done.output.split())
        assert "[/]" not in done.output
    return audit_files


def pieces(world: World, site: str) -> list[bytes]:
    """Rows of features as bytes, in base64 and as text; labels and links as they are listed."""
    secret_pieces: list[bytes] = []
    for path in sorted((world.kits.home(site) / "shards").glob("*.safetensors")):
        for shard in load_shards(path):
            graph = shard.graph
            for row in graph.features[:40]:
                exact = row.double().numpy().tobytes(), row.numpy().tobytes()
                secret_pieces += [*exact, *(base64.b64encode(one)[4:-4] for one in exact)]
                secret_pieces += [repr(float(value)).encode() for value in row[:5] if value]
                secret_pieces += [f"{float(value):.8f}".encode() for value in row[:5] if value]
            secret_pieces.append(json.dumps(graph.labels.tolist()).encode())
            secret_pieces.append(json.dumps(graph.labels[:12].tolist()).encode().strip(b"[]"))
            secret_pieces.append(json.dumps(shard.node_ids[:12].tolist()).encode().strip(b"[]"))
            secret_pieces.append(graph.edge_index.numpy().tobytes()[:64])
    return secret_pieces


def test_no_piece_of_a_sites_data_is_in_what_leaves(
    world: World, files: dict[str, Path], tmp_path: Path
) -> None:
    page = tmp_path / "sites.html"
    command = ["deploy", "assemble", str(world.kits.path), *map(str, files.values())]
    done = CliRunner().invoke(app, [*command, "--out", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert all(f'<section id="{site}">' in text for site in SITES)
    assert "No findings from" not in text
    leaving = [path.read_bytes() for path in (page, *files.values())]
    home = (world.kits.home("site-1") / "shards" / "client-0.safetensors").read_bytes()
    assert any(piece in home for piece in pieces(world, "site-1"))  # the search can find
    for site in SITES:
        assert not [p for p in pieces(world, site) for file in leaving if p in file]


def test_a_site_finds_at_home_what_its_uploads_tell(world: World, files: dict[str, Path]) -> None:
    root, leaks = Root.load(world.kits.admin / "startup"), 0
    for site, path in files.items():
        found = read_shared(path, root)
        assert found.site == site
        by_name: dict[str, Finding] = {one.attack: one for one in found.findings}
        leaks += sum(one.verdict is Verdict.LEAK for one in found.findings)
        assert by_name["books"].verdict is by_name["integrity"].verdict is Verdict.NOT_DETECTED
        assert by_name["similar_links"].targets > 0
    assert leaks > 0


def test_site_killed_while_it_writes_is_not_accused(world: World, tmp_path: Path) -> None:
    kit = world.kits.site("site-1")
    path = next((world.kits.home("site-1") / "runs").glob("*/transcript/messages.bin"))
    data, audits = path.read_bytes(), path.parents[1] / "audit"
    aside = audits.rename(tmp_path / "audit") if audits.exists() else None
    command = ["deploy", "audit", str(kit), "--only", "promises", "--trials", "1000"]
    try:
        for name, text, code, verdict in (
            ("killed", data[:-30], 0, Verdict.INCONCLUSIVE),
            ("damaged", data[:-30] + bytes(30), 1, Verdict.VIOLATION),
        ):
            shutil.rmtree(audits, ignore_errors=True)
            path.write_bytes(text)
            out = tmp_path / f"{name}.json"
            with pytest.warns(UserWarning, match="cut off or damaged"):
                done = CliRunner().invoke(app, [*command, "--out", str(out)])
            assert done.exit_code == code, done.output
            found = read_shared(out, Root.load(world.kits.admin / "startup"))
            (integrity,) = (one for one in found.findings if one.attack == "integrity")
            assert integrity.verdict is verdict
    finally:
        path.write_bytes(data)
        shutil.rmtree(audits, ignore_errors=True)
        if aside is not None:
            aside.rename(audits)


def test_what_an_attack_says_when_it_breaks_off_stays_at_home(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, out = world.kits.site("site-1"), tmp_path / "shared.json"
    row = load_shards(world.kits.home("site-1") / "shards" / "client-0.safetensors")[0]
    secret = repr(row.graph.features[0].tolist())

    def breaks(*anything: object) -> None:
        raise ValueError(f"cannot be fitted: {secret}")

    monkeypatch.setattr("audits.site.recorded_noise", breaks)
    command = ["deploy", "audit", str(kit), "--only", "promises", "--trials", "1000"]
    done = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert done.exit_code == 3, done.output
    home = world.kits.home("site-1")
    assert any(secret in path.read_text() for path in home.rglob("findings.json"))
    found = read_shared(out, Root.load(world.kits.admin / "startup"))
    (failed,) = [one for one in found.findings if one.failed]
    assert failed.because == "it failed; the reason stays at the site"
    assert "cannot be fitted" not in out.read_text()


def test_a_site_that_shares_nothing_is_named(
    world: World, files: dict[str, Path], tmp_path: Path
) -> None:
    page = tmp_path / "sites.html"
    command = ["deploy", "assemble", str(world.kits.path), str(files["site-1"])]
    assert CliRunner().invoke(app, [*command, "--out", str(page)]).exit_code == 0
    assert "No findings from site-2, site-3, site-4" in page.read_text()


def test_a_changed_or_borrowed_statement_is_refused(
    world: World, files: dict[str, Path], tmp_path: Path
) -> None:
    root = Root.load(world.kits.admin / "startup")
    tree = json.loads(files["site-1"].read_text())
    tree["statement"]["findings"][0]["verdict"] = "NOT_DETECTED_"
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(tree))
    with pytest.raises(NotSigned):
        read_shared(changed, root)
    tree = json.loads(files["site-1"].read_text())
    tree["statement"]["site"] = "site-2"
    changed.write_text(json.dumps(tree))
    with pytest.raises(BadCertificate):
        read_shared(changed, root)
    for value in (float("nan"), float("inf")):
        tree["statement"]["findings"][0]["seconds"] = value
        changed.write_text(json.dumps(tree))
        with pytest.raises(DataError, match="not what `securefg deploy audit` writes"):
            read_shared(changed, root)
    again = ["deploy", "assemble", str(world.kits.path), str(files["site-1"]), str(files["site-1"])]
    assert "a second file of site-1" in str(CliRunner().invoke(app, again).exception)


def test_a_fetched_run_loads_nothing_as_if_it_were_the_sites(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loads(config: Any) -> Any:
        raise AssertionError("data was loaded")

    monkeypatch.setattr("audits.truth.prepare", loads)
    with pytest.raises(RunFolderError, match="securefg deploy audit"):
        audit(world.fetched.path, Plan())  # type: ignore[attr-defined]


def test_a_release_that_is_on_no_book_is_found_at_home(world: World) -> None:
    truth = site_truth(world.kits.site("site-3"))
    missing = replace(truth, releases=truth.releases[:-1])
    from audits.site import _check_books

    assert _check_books(truth).verdict is Verdict.NOT_DETECTED
    assert _check_books(missing).verdict is Verdict.VIOLATION
    assert "is on no book" in _check_books(missing).because


class Halved(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        return super().normal(shape, clients, name) / 2


def test_a_site_whose_noise_is_half_of_what_it_books_finds_it_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = World(tmp_path / "apart", config(tmp_path, *FOUR, NOISE))
    with monkeypatch.context() as patched:
        patched.setattr("securefg.engines.hosting.noise_source", lambda config: Halved())
        made.run(made.job(has_truth=False))
    found = recorded_noise(site_truth(made.kits.site("site-4")))
    assert {one.verdict for one in found} == {Verdict.VIOLATION}


def test_before_the_site_took_part_there_is_nothing_to_audit(tmp_path: Path) -> None:
    made = World(tmp_path / "apart", config(tmp_path, *FOUR))
    made.job(has_truth=False)
    with pytest.raises(RunFolderError, match="no record"):
        audit_site(made.kits.site("site-1"), Plan())
    assert Signer.load(made.kits.site("site-1") / "startup").name == "site-1"
