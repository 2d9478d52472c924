"""Runs on real FLARE processes while a party of it is hostile: the honest ones end as they should.

`flare_intruder.py` sends what was drawn at random from everything that FLARE's network knows, with
paths, numbers and names that should not be there.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from securefg.flare.app_files import JOB_FILE
from securefg.flare.flare_job import write_flare_job
from securefg.flare.kits import Kits
from securefg.flare.plan_file import FederationPlan
from securefg.run import runner
from tests.e2e.flare_rehearsal import deployment, parties
from tests.e2e.test_flare_doors import OTHER_CHANNELS
from tests.small import config
from tests.unit.flare.test_flares_commands import OF_SITES

pytest.importorskip("nvflare")
BANKS = ["bank-a", "bank-b", "bank-c"]
SETTINGS = ("training.rounds=4", "training.keep=last", "engine.patience=6")
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


def weights(kits: Kits) -> bytes:
    run = FederationPlan.read(kits.path).run
    return (kits.server / "securefg_runs" / run / "model.safetensors").read_bytes()


def files(folder: Path) -> dict[str, bytes]:
    """What must not change, and what must not appear: all but what parties write themselves."""
    own = {path for path in folder.rglob("*") if path.is_file()}
    fixed = [path for path in own if path.suffix in (".key", ".keys", ".crt", ".pem", ".yaml")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in fixed}


def safe(kits: Kits, answers: list[dict[str, Any]]) -> None:
    said = json.dumps([answer["said"] for answer in answers])
    assert "PRIVATE" not in said
    assert "root:" not in said
    assert len(answers) >= 20
    for bank in BANKS:
        lines = (kits.home(bank) / "ledger.jsonl").read_text().splitlines()
        assert {json.loads(line)["release"]["round"] for line in lines} == {1, 2, 3, 4}


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_weights_while_a_site_is_hostile(tmp_path: Path) -> None:
    here = runner.start(config(tmp_path / "here", *SETTINGS)).folder
    kits = deployment(tmp_path, *SETTINGS, sites=BANKS)
    before = files(kits.path)
    targets = ["bank-a", "bank-a.JOB", "server", "server.JOB", "bank-b.JOB"]
    orders = drawn(1, 24, targets, ["server", "server.JOB", "bank-a", "bank-c.JOB"])
    with parties(kits, tmp_path) as found:
        for name in ("localhost", "bank-a", "bank-b"):
            found.start(name)
        found.intrude("bank-c", orders)
        assert found.submit().returncode == 0
        ended = found.ended()
        assert ended["finished"], ended
        answers = found.await_answers("bank-c")
    assert weights(kits) == (here.path / "model.safetensors").read_bytes()
    safe(kits, answers)
    assert {k: v for k, v in files(kits.path).items() if k in before} == before


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_weights_while_the_server_is_hostile(tmp_path: Path) -> None:
    """The server's own process sends twenty messages beside the run; its job's process is ours."""
    here = runner.start(config(tmp_path / "here", *SETTINGS)).folder
    kits = deployment(tmp_path, *SETTINGS, sites=BANKS)
    before = files(kits.path)
    targets = ["bank-a", "bank-a.JOB", "bank-b", "bank-b.JOB"]
    orders = [
        order
        for order in drawn(2, 40, targets, ["server.JOB", "bank-a", "bank-c.JOB"])
        # What FLARE needs a server can misuse: to end its own job at a site, which is its right.
        if (order["channel"], order["topic"]) != ("aux_communication", "__end_run__")
    ][:24]
    with parties(kits, tmp_path) as found:
        found.intrude("localhost", orders)
        for name in BANKS:
            found.start(name)
        assert found.submit().returncode == 0
        ended = found.ended()
        assert ended["finished"], ended
        answers = found.await_answers("localhost")
    assert weights(kits) == (here.path / "model.safetensors").read_bytes()
    safe(kits, answers)
    assert {k: v for k, v in files(kits.path).items() if k in before} == before


@pytest.mark.slow
def test_an_administrators_other_jobs_reach_no_site_and_the_planned_one_runs(
    tmp_path: Path,
) -> None:
    kits = deployment(tmp_path, *SETTINGS, sites=BANKS)
    plan = FederationPlan.read(kits.path)
    ran = tmp_path / "it ran"
    with parties(kits, tmp_path) as found:
        for name in ("localhost", *BANKS):
            found.start(name)
        for number, spoil in enumerate((with_code, with_rounds, with_a_path, with_fewer), 1):
            job = tmp_path / f"other-{number}"
            write_flare_job(job, plan.job(number))
            spoil(job, ran)
            found.submit(job)
        assert found.submit(number=9).returncode == 0
        assert found.ended(9)["finished"]
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
