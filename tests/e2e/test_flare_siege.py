"""Runs on real FLARE processes while a party of it is hostile: the honest ones end as they should.

Twenty messages and more of each party are drawn at random from everything that FLARE's network and
its console know, with paths, numbers and names that should not be there: by a site, the server, an
administrator, and a user of the machine without a certificate. What came back to them is searched
for pieces of the others' keys and rows.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from securefg.flare.app_files import JOB_FILE, write_flare_job
from securefg.flare.kits import FederationPlan, Kits
from securefg.runs import runner
from tests.e2e.flare_rehearsal import Parties, deployment, listening, parties
from tests.e2e.flare_strangers import contexts, knock
from tests.e2e.flare_strangers import drawn as strangers_words
from tests.e2e.test_flare_doors import OTHER_CHANNELS
from tests.small import config
from tests.unit.flare.test_flares_commands import OF_SITES, commands

pytest.importorskip("nvflare")
BANKS = ["bank-a", "bank-b", "bank-c"]
SETTINGS = ("training.rounds=4", "training.final_model=last", "engine.patience=6")
CHANNELS = [
    *OTHER_CHANNELS,
    ("securefg", "ask"),
    ("securefg", "ping"),
    ("admin", "admin"),
    ("task", "report_job_failure"),
    ("task", "quit"),
    ("server_command", "submit_update"),
    ("server_command", "abort"),
    ("server_parent_listener", "update_run_status"),
    ("client_command", "abort"),
    ("aux_communication", "__end_run__"),
    ("hci_channel", "command"),
    ("sm__STREAM", "sm__DATA"),
    ("sm__STREAM", "sm__ERROR"),
    ("sm__STREAM", "sm__ACK"),
]
BODIES = ["", "cat startup/client.key", "../../etc/passwd", "x" * 100_000, "shutdown"]


def drawn(seed: int, count: int, targets: list[str], origins: list[str]) -> list[dict[str, Any]]:
    rng, orders = random.Random(seed), list[dict[str, Any]]()
    while len(orders) < count:
        channel, topic = rng.choice(CHANNELS)
        order = {
            "to": rng.choice(targets),
            "channel": channel,
            "topic": topic,
            "body": rng.choice(BODIES),
            "seconds": 0.3,
            "job_id": rng.choice(["../securefg", "JOB", "none"]),
        }
        if channel == "admin":
            order["command"] = rng.choice(sorted(OF_SITES - {"train.abort"}))
        if rng.random() < 0.4:
            order["as"] = rng.choice(origins)
        orders.append(order)
    return orders


def admins_orders(seed: int, count: int) -> list[dict[str, Any]]:
    """Half of them commands of FLARE's console, every one that it knows in turn."""
    rng = random.Random(seed)
    names = sorted(commands("as it is")[1] - {"abort_job"})  # to end the run is its right
    rng.shuffle(names)
    words = ["", "all", "server", "client bank-a", "JOB", "../../kits/bank-a", "bank-a shutdown"]
    lines = [
        {"line": f"{name} {rng.choice(words)} {rng.choice(BODIES[:3])}".strip()}
        for name in [*names, "cat server startup/server.key", "download_job ../bank-a"]
    ]
    targets, origins = ["bank-a", "bank-a.JOB", "server", "server.JOB"], ["server", "bank-b"]
    messages = drawn(seed, count // 2, targets, origins)
    messages += [
        {"to": "server", "channel": channel, "topic": topic, "body": {"ref_id": body}}
        for channel, topic in [("download_service__", "download_service__download")]
        for body in ("R1", "../startup/server.key", "")
    ]
    return lines + messages


def strangers(flare_parties: Parties, folder: Path, seed: int, count: int) -> list[bytes]:
    """At the ports of all guarded parties."""
    rng = random.Random(seed)
    ports = sorted(
        {port for name in ("localhost", "bank-a") for _, port in open_ports(flare_parties, name)}
    )
    ways = contexts(folder / "stranger")
    return [knock(rng.choice(ports), strangers_words(rng), rng.choice(ways)) for _ in range(count)]


def open_ports(found: Parties, name: str) -> set[tuple[str, int]]:
    return listening(found.pids(name))


def weights(kits: Kits) -> bytes:
    return (run_folder(kits) / "model.safetensors").read_bytes()


def run_folder(kits: Kits) -> Path:
    return kits.server / "securefg_runs" / FederationPlan.read(kits.path).run


def fixed(folder: Path) -> dict[str, bytes]:
    """What must not change, whoever asks."""
    suffixes = (".key", ".keys", ".crt", ".pem", ".yaml", ".safetensors")
    own = [path for path in folder.rglob("*") if path.is_file() and path.suffix in suffixes]
    return {str(path.relative_to(folder)): path.read_bytes() for path in own}


def pieces(kits: Kits, names: list[str]) -> list[bytes]:
    """Of every key and every table of rows of these parties, a few bytes that are nowhere else."""
    secret_pieces = []
    for name in names:
        for path in (kits.path / name).rglob("*"):
            if path.suffix in (".key", ".keys", ".safetensors") and path.is_file():
                raw = path.read_bytes()
                starts = [len(raw) * part // 4 for part in (1, 2, 3)] if len(raw) > 200 else [0]
                cut = [raw[start : start + 24] for start in starts]
                secret_pieces += [piece for piece in cut if len(set(piece)) > 12]
    return secret_pieces


def forms(piece: bytes) -> Iterator[bytes]:
    yield piece
    yield piece.hex().encode()
    yield repr(piece)[2:-1].encode()
    yield json.dumps(repr(piece)[2:-1])[1:-1].encode()


def seen(text: bytes, wanted: list[bytes]) -> list[bytes]:
    return [piece for piece in wanted if any(form in text for form in forms(piece))]


def nothing_leaves(kits: Kits, folder: Path, who: str, others: list[str]) -> None:
    """Neither in what a hostile party was told, nor in what arrived at its process."""
    wanted = pieces(kits, others)
    assert len(wanted) >= 3 * len(others)
    for path in (folder / f"{who}.answers", folder / f"{who}.heard"):
        assert seen(path.read_bytes(), wanted) == []
    stolen = b"".join(path.read_bytes() for path in kits.path.rglob("*.key"))
    assert seen(stolen, wanted)  # the search finds what is there


def nothing_outside(folder: Path, before: set[Path]) -> None:
    """Files appear in the kits, and beside them those of this test alone."""
    for name in ("home", "cwd"):
        assert list((folder / name).rglob("*")) == []
    now = set(folder.iterdir())
    ours = re.compile(r".*\.(log|orders|answers|heard)|job-\d+|home|cwd|tmp|stranger")
    assert [path for path in now - before if not ours.fullmatch(path.name)] == []
    assert [path for path in (folder / "tmp").rglob("*") if path.suffix == ".key"] == []


def ended_well(kits: Kits, before: dict[str, bytes], model: bytes) -> None:
    assert weights(kits) == model
    after = fixed(kits.path)
    assert {name: after.get(name) for name in before} == before
    for bank in BANKS:
        lines = (kits.home(bank) / "ledger.jsonl").read_text().splitlines()
        assert {json.loads(line)["request"]["round"] for line in lines} == {1, 2, 3, 4}


def drawn_well(answers: list[dict[str, Any]]) -> None:
    assert len(answers) >= 20
    said = json.dumps([answer["said"] for answer in answers])
    assert "PRIVATE" not in said
    assert "root:" not in said


@pytest.mark.slow
def test_a_run_ends_the_same_while_a_site_an_administrator_and_a_local_user_are_hostile(
    tmp_path: Path,
) -> None:
    here = runner.start(config(tmp_path / "here", *SETTINGS)).folder
    kits = deployment(tmp_path, *SETTINGS, sites=BANKS)
    kept, before = set(tmp_path.iterdir()), fixed(kits.path)
    targets = ["bank-a", "bank-a.JOB", "server", "server.JOB", "bank-b.JOB"]
    orders = drawn(1, 24, targets, ["server", "server.JOB", "bank-a", "bank-c.JOB", "_admin_1"])
    with parties(kits, tmp_path) as flare_parties:
        for name in ("localhost", "bank-a", "bank-b"):
            flare_parties.start(name)
        flare_parties.intrude("bank-c", orders)
        assert flare_parties.submit().returncode == 0
        admin = flare_parties.intrude_as_admin(admins_orders(3, 24))
        heard = strangers(flare_parties, tmp_path, 4, 24)
        ended = flare_parties.ended()
        assert ended["finished"], ended
        drawn_well(flare_parties.await_answers("bank-c"))
        by_admin = flare_parties.await_answers(admin)
        drawn_well(by_admin)
        forged = with_the_certificate_of(kits, "bank-c")
        (refused,) = flare_parties.await_answers(flare_parties.intrude_as_admin([], forged))
        assert "no session" in refused["said"]
        for name in ("localhost", "bank-a", "bank-b"):
            assert flare_parties.started[name].poll() is None, flare_parties.log(name)
    shutil.rmtree(forged)
    assert "has the certificate of bank-c" in (kits.server / "visits.jsonl").read_text()
    ended_well(kits, before, (here.path / "model.safetensors").read_bytes())
    nothing_leaves(kits, tmp_path, "bank-c", ["bank-a", "bank-b", "localhost"])
    nothing_leaves(kits, tmp_path, admin, [*BANKS, "localhost"])
    assert seen(b"".join(heard), pieces(kits, [*BANKS, "localhost"])) == []
    nothing_outside(tmp_path, kept)


def with_the_certificate_of(kits: Kits, site: str) -> Path:
    """A site that calls itself an administrator."""
    forged = kits.path.parent / "stranger" / "forged"
    shutil.copytree(kits.admin, forged)
    for name in ("client.crt", "client.key"):
        shutil.copy(kits.site(site) / "startup" / name, forged / "startup" / name)
    return forged


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_weights_while_the_server_is_hostile(tmp_path: Path) -> None:
    """The server's own process sends twenty messages beside the run; its job's process is ours."""
    here = runner.start(config(tmp_path / "here", *SETTINGS)).folder
    kits = deployment(tmp_path, *SETTINGS, sites=BANKS)
    kept, before = set(tmp_path.iterdir()), fixed(kits.path)
    targets = ["bank-a", "bank-a.JOB", "bank-b", "bank-b.JOB"]
    orders = [
        order
        for order in drawn(2, 40, targets, ["server.JOB", "bank-a", "bank-c.JOB"])
        # What FLARE needs a server can misuse: to end its own job at a site, which is its right.
        if (order["channel"], order["topic"]) != ("aux_communication", "__end_run__")
    ][:24]
    with parties(kits, tmp_path) as flare_parties:
        flare_parties.intrude("localhost", orders)
        for name in BANKS:
            flare_parties.start(name)
        assert flare_parties.submit().returncode == 0
        ended = flare_parties.ended()
        assert ended["finished"], ended
        drawn_well(flare_parties.await_answers("localhost"))
    ended_well(kits, before, (here.path / "model.safetensors").read_bytes())
    nothing_leaves(kits, tmp_path, "localhost", BANKS)
    nothing_outside(tmp_path, kept)


@pytest.mark.slow
def test_an_administrators_other_jobs_reach_no_site_and_the_planned_one_runs(
    tmp_path: Path,
) -> None:
    kits = deployment(tmp_path, *SETTINGS, sites=BANKS)
    plan = FederationPlan.read(kits.path)
    ran = tmp_path / "it ran"
    with parties(kits, tmp_path) as flare_parties:
        for name in ("localhost", *BANKS):
            flare_parties.start(name)
        for number, spoil in enumerate((with_code, with_rounds, with_a_path, with_fewer), 1):
            job = tmp_path / f"other-{number}"
            write_flare_job(job, plan.job(number).to_json())
            spoil(job, ran)
            flare_parties.submit(job)
        assert flare_parties.submit(number=9).returncode == 0
        assert flare_parties.ended(9)["finished"]
    assert not ran.exists()
    assert not (tmp_path / "outside").exists()
    for bank in BANKS:
        jobs = (kits.home(bank) / "jobs.jsonl").read_text().splitlines()
        assert [json.loads(line)["submission"] for line in jobs] == [9]
        assert not list(kits.site(bank).rglob("evil.py"))


def with_code(job: Path, ran: Path) -> None:
    code = job / "app" / "custom" / "evil.py"
    code.parent.mkdir()
    code.write_text(f"open({str(ran)!r}, 'w')")
    path = job / "app" / "config" / "config_fed_client.json"
    path.write_text(path.read_text().replace("securefg.flare.executor.SiteExecutor", "evil.Evil"))


def _edit(job: Path, **changes: Any) -> None:
    path = job / "app" / "config" / JOB_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def with_rounds(job: Path, ran: Path) -> None:
    config = json.loads((job / "app" / "config" / JOB_FILE).read_text())["config"]
    config["training"]["rounds"] = 40
    _edit(job, config=config)


def with_a_path(job: Path, ran: Path) -> None:
    _edit(job, run="../../outside", run_folder=str(ran.parent / "outside"))


def with_fewer(job: Path, ran: Path) -> None:
    sites = json.loads((job / "app" / "config" / JOB_FILE).read_text())["sites"]
    sites.pop("bank-c")
    _edit(job, sites=sites)
