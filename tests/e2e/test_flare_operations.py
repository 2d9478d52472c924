"""An operator's day with real processes: a site ends by Ctrl-C, the run stops, goes on, is done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from securefg.flare.kits import FederationPlan, Kits
from securefg.flare.processes import end_processes, find_processes
from securefg.runs.folder import PARTIAL, RunFolder
from tests.e2e.flare_rehearsal import SITES, deployment

pytest.importorskip("nvflare")
HERE = Path.cwd()
ROUNDS = 30
STARTED: list[subprocess.Popen[bytes]] = []


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "securefg.cli.main", "deploy", *map(str, words)]


def call(*words: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        command(*words),
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def start(kits: Kits, name: str) -> subprocess.Popen[bytes]:
    with (kits.path.parent / f"{name}.terminal").open("ab") as terminal:
        process = subprocess.Popen(
            command("start", kits.path / name),
            env={**os.environ, "PYTHONPATH": str(HERE)},
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
    STARTED.append(process)
    return process


@pytest.fixture
def kits(tmp_path: Path) -> Iterator[Kits]:
    made = deployment(tmp_path, f"training.rounds={ROUNDS}", "engine.patience=4")
    yield made
    for name in (made.server.name, *SITES):
        end_processes(made.path / name)
    for process in STARTED:
        process.wait(20)
    STARTED.clear()


def await_round(kits: Kits, number: int) -> None:
    run, end = FederationPlan.read(kits.path).run, time.monotonic() + 180
    path = kits.server / "securefg_runs" / run / "private" / "status.json"
    while not path.exists() or json.loads(path.read_text())["round"] < number:
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def frozen_run(kits: Kits, server: int) -> Iterator[None]:
    """Hold the run's process at the server still, however slow this machine is."""
    end = time.monotonic() + 180
    while not (jobs := set(find_processes(kits.server)) - {server}):
        assert time.monotonic() < end
    (job,) = jobs
    await_round(kits, 2)
    os.kill(job, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(job, signal.SIGCONT)


@pytest.mark.slow
def test_operator_stops_resumes_and_cleans_a_deployment(kits: Kits, tmp_path: Path) -> None:
    parties = {name: start(kits, name) for name in (kits.server.name, *SITES)}
    assert "submission 1" in call("submit", kits.path)
    with frozen_run(kits, parties[kits.server.name].pid):
        assert call("status", kits.path).count(": connected, last sign of life") == 2
        parties["bank-b"].send_signal(signal.SIGINT)
        assert parties["bank-b"].wait(20) == 130
        assert find_processes(kits.path / "bank-b") == []
        assert "stops after its round" in call("stop", kits.path)
    gone = time.monotonic()
    while (told := json.loads(call("status", kits.path, "--json")))["dead"] != ["bank-b"]:
        assert time.monotonic() - gone < 60, told  # a look takes seconds on a busy machine
    assert "bank-b: DEAD, no sign of life for" in call("status", kits.path)

    run = FederationPlan.read(kits.path).run
    part = call("fetch", kits.path, "--out", tmp_path / "part", "--wait", "180")
    assert "PARTIAL" in part
    assert "left     bank-b: " in part
    partial = json.loads((tmp_path / "part" / run / PARTIAL).read_text())
    assert 2 <= partial["round"] < partial["rounds"] == ROUNDS
    assert partial["state"] == "interrupted"

    parties["bank-b"] = start(kits, "bank-b")
    assert "submission 2" in call("submit", kits.path)
    whole = call("fetch", kits.path, "--out", tmp_path / "whole", "--wait", "300")
    assert "PARTIAL" not in whole
    assert "bank-b" not in whole
    assert RunFolder(tmp_path / "whole" / run).summary().rounds == ROUNDS
    refusal = call("submit", kits.path, code=2)
    assert refusal.count("\n") == 1
    assert f"found finished after round {ROUNDS}" in refusal
    assert "expected --yes" in refusal

    for name in (*SITES, kits.server.name):
        assert call("stop", kits.path / name).endswith("processes ended\n")
        parties[name].wait(10)
        terminal = (tmp_path / f"{name}.terminal").read_text()
        assert len(terminal.splitlines()) <= 12, terminal
        assert "Traceback" not in terminal
    keys = sorted(kits.path.rglob("*.key*"))
    call("clean", kits.path, "--yes")
    assert sorted(kits.path.rglob("*.key*")) == keys
    assert "nothing to remove" in call("clean", kits.path, "--yes")


@pytest.mark.slow
def test_rehearsal_of_two_sites_runs_and_ends(tmp_path: Path) -> None:
    out = tmp_path / "rehearsal"
    words = ("rehearse", HERE / "configs/quickstart.yaml", "--sites", "2", "--out", out)
    few = ("--set", "training.rounds=2")
    refusal = call(*words, *few, code=2)
    assert "the floor of a new kit refuses this plan" in refusal
    assert not out.exists()
    told = call(*words, *few, "--any-floor")
    assert "round 2 of 2" in told
    kits = Kits(out / "kits")
    plan = FederationPlan.read(kits.path)
    assert list(plan.sites) == ["site-1", "site-2"]
    assert RunFolder(out / "runs" / plan.run).summary().rounds == 2
    assert not any(find_processes(kits.path / name) for name in (plan.server, *plan.sites))
    assert "found" in call(*words, *few, code=2)  # the folder is there


@pytest.mark.slow
def test_run_whose_server_process_was_killed_is_fetched_in_part(kits: Kits, tmp_path: Path) -> None:
    server = start(kits, kits.server.name)
    for name in SITES:
        start(kits, name)
    call("submit", kits.path)
    with suppress(ProcessLookupError), frozen_run(kits, server.pid):
        for job in set(find_processes(kits.server)) - {server.pid}:
            os.kill(job, signal.SIGKILL)
    part = call("fetch", kits.path, "--out", tmp_path / "part", "--wait", "180")
    assert "PARTIAL" in part
    assert "ended without a word" in part
    assert "ended without a word" in call("status", kits.path)
    run = FederationPlan.read(kits.path).run
    assert len(RunFolder(tmp_path / "part" / run).metrics()) >= 2
    assert "submission 2" in call("submit", kits.path)  # goes on, and asks nothing
    assert "PARTIAL" not in call("fetch", kits.path, "--out", tmp_path / "all", "--wait", "300")


@pytest.mark.slow
def test_rehearsal_first_ctrl_c_stops_after_the_round(tmp_path: Path) -> None:
    out = tmp_path / "rehearsal"
    words = ("rehearse", HERE / "configs/quickstart.yaml", "--out", out, "--any-floor")
    process = subprocess.Popen(
        command(*words, "--set", "training.rounds=2000", "--set", "training.patience=null"),
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        while "round" not in (line := process.stdout.readline()):
            assert line
        os.killpg(process.pid, signal.SIGINT)
        told = process.stdout.read()
    assert process.returncode == 130, told
    assert "PARTIAL" in told
    kits = Kits(out / "kits")
    assert not any(find_processes(kits.path / name) for name in ("localhost", "site-1", "site-2"))


@pytest.mark.slow
def test_run_lost_with_its_server_goes_on_after_a_restart(kits: Kits, tmp_path: Path) -> None:
    server = start(kits, kits.server.name)
    for name in SITES:
        start(kits, name)
    call("submit", kits.path)
    await_round(kits, 3)
    for pid in find_processes(kits.server):
        os.kill(pid, signal.SIGKILL)
    server.wait(20)
    start(kits, kits.server.name)
    told = call("status", kits.path)
    assert "ended without a word" in told
    assert "(job LOST)" in told
    assert "submission 2" in call("submit", kits.path)
    assert "PARTIAL" not in call("fetch", kits.path, "--out", tmp_path / "all", "--wait", "300")
