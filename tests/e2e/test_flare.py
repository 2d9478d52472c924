"""Real federations on loopback, with FLARE's processes and mutual TLS: short ones, on two sites."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from securefg.flare import launch as runner
from securefg.flare.kits import Kits, Plan, provision_kits
from securefg.flare.local import LocalProcesses, run_locally
from securefg.protocol.codec import Clients
from securefg.runs.assembly import prepare
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Silent
from tests.e2e.test_flare_doors import reviewed
from tests.small import config, tree

pytest.importorskip("nvflare")
TWO = ("engine.name=flare", "engine.sites=2")
MASKED = "privacy.secure_aggregation={min_holders: 1}"


def model(run: RunFolder) -> bytes:
    return (run.path / "model.safetensors").read_bytes()


def same(one: RunFolder, other: RunFolder) -> bool:
    return model(one) == model(other) and one.summary().bytes == other.summary().bytes


def federation_of(folder: Path) -> Kits:
    return Kits(folder / "private" / "flare" / "kits")


def greets(kits: Kits, context: ssl.SSLContext) -> bool:
    """Whether the server goes on with one who shows what the context has."""
    port = json.loads((kits.path / "federation.json").read_text())["port"]
    try:
        with (
            socket.create_connection(("localhost", port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.settimeout(1)
            try:
                return secure.recv(1) != b""
            except TimeoutError:
                return True  # it waits for our first message
    except (ssl.SSLError, ConnectionError):
        return False


def context(root: Path, certificate: Path | None) -> ssl.SSLContext:
    tls_context = ssl.create_default_context(cafile=str(root / "startup" / "rootCA.pem"))
    if certificate is not None:
        startup = certificate / "startup"
        tls_context.load_cert_chain(startup / "client.crt", startup / "client.key")
    return tls_context


def test_a_batched_method_over_real_sites_and_who_gets_in(tmp_path: Path) -> None:
    """The weights and bytes of one process; a stranger, or one without a certificate, is cut off;
    and when it is over, no process is left."""
    more = ("partition={name: one_node}", "training.local_epochs=1", "training.rounds=3")
    here = runner.start(config(tmp_path / "here", *more, method="nfedgnn")).folder
    sites = {"site-1": {"client-0": Clients(((0, 1),))}}
    foreign = provision_kits(tmp_path / "foreign", Plan("localhost", 1, sites))
    parsed = config(tmp_path / "apart", *more, *TWO, method="nfedgnn")
    folder = RunFolder.create(parsed, lambda path: None)
    seen: dict[str, object] = {}

    def look(processes: LocalProcesses) -> None:
        if not seen:
            kits = federation_of(folder.path)
            own = kits.site("site-1")
            seen["own"] = greets(kits, context(own, own))
            seen["none"] = greets(kits, context(own, None))
            seen["foreign"] = greets(kits, context(own, foreign.site("site-1")))
        seen["pids"] = {*seen.get("pids", ()), *processes.pids()}  # type: ignore[misc]
        seen["peers"] = {*seen.get("peers", ()), *addresses(processes.pids())}  # type: ignore[misc]

    outcome = run_locally(prepare(parsed), folder, Silent(), look)
    assert outcome.summary is not None
    assert same(here, folder)
    reviewed(federation_of(folder.path).site("site-1"), "site_job")
    reviewed(federation_of(folder.path).server, "server_job")
    assert {k: seen[k] for k in ("own", "none", "foreign")} == {
        "own": True,
        "none": False,
        "foreign": False,
    }
    assert seen["peers"] == {"127.0.0.1"}  # nobody listens to, or calls, the outside
    pids = seen["pids"]
    assert isinstance(pids, set)
    assert len(pids) >= 3
    mark = (folder.path / "private" / "flare" / "logs" / "mark").read_text()
    assert marked(mark) == []


def test_ctrl_c_ends_its_processes_alone_and_the_run_resumes_to_the_same_bits(
    tmp_path: Path,
) -> None:
    """A masked run from the command line, interrupted after a round, then resumed."""
    import yaml

    overrides = (MASKED, "training.rounds=4", "output.checkpoint_every=1")
    here = runner.start(config(tmp_path / "here", *overrides)).folder
    written = {**tree(tmp_path / "apart"), "name": "run"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    sets = [part for text in (*overrides, *TWO) for part in ("--set", text)]
    command = [
        sys.executable,
        "-m",
        "securefg.cli.main",
        "run",
        str(tmp_path / "config.yaml"),
        *sets,
    ]
    with (
        ended(["sleep", "900"]) as bystander,
        ended(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as driver,
    ):
        path = wait_for_round(tmp_path / "apart", 1, driver)
        mark = (path / "private" / "flare" / "logs" / "mark").read_text()
        driver.send_signal(signal.SIGINT)
        told, _ = driver.communicate(timeout=600)
        assert driver.returncode == 130, told
        assert "--resume" in told
        assert marked(mark) == []
        assert bystander.poll() is None

    folder = RunFolder(path)
    runner.resume(folder)
    assert model(here) == model(folder)
    # A new process agrees on keys anew, which an unbroken run does once; the rest is as it was.
    extra = folder.summary().bytes.up.payload - here.summary().bytes.up.payload
    assert 0 < extra < here.summary().bytes.up.payload / 3  # 2.3 kB of hybrid keys a neighbour
    assert folder.summary().attempts == 2


@contextmanager
def ended(command: list[str], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive the block."""
    with subprocess.Popen(command, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def addresses(pids: list[int]) -> set[str]:
    """Both ends of every connection and listener of these processes."""
    import psutil

    peer_addresses = set()
    for pid in pids:
        try:
            for connection in psutil.Process(pid).net_connections("inet"):
                peer_addresses |= {end.ip for end in (connection.laddr, connection.raddr) if end}
        except psutil.Error:
            continue
    return peer_addresses


def wait_for_round(root: Path, number: int, driver: subprocess.Popen[str]) -> Path:
    end = time.monotonic() + 900
    while time.monotonic() < end and driver.poll() is None:
        for metrics in root.glob("run-*/metrics.jsonl"):
            if len(metrics.read_text().splitlines()) >= number:
                return metrics.parent
        time.sleep(0.05)
    driver.kill()
    logs = [log.read_text()[-2000:] for log in root.glob("run-*/private/flare/logs/*.log")]
    raise AssertionError("\n".join([driver.communicate()[0], *logs]))


def marked(mark: str) -> list[str]:
    process_ids = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                process_ids.append(pid)
        except OSError:
            continue
    return process_ids
