"""FLARE's own FedAvg job in its simulator, with and without SecurefgFilter, and audited."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.site.books import SiteBooks
from securefg.site.gate import open_home
from securefg.site.policy import POLICY_FILE

JOB = Path("examples/nvflare_filter/job.py").resolve()


def job(out: Path, *words: str) -> tuple[int, str]:
    """Its exit status, and the last lines that it printed."""
    env = {**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(JOB), str(out), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, cwd=out.parent, env=env
    )
    return done.returncode, "\n".join(done.stdout.splitlines()[-5:])


def verdicts(exchange: Path) -> dict[str, str]:
    done = CliRunner().invoke(app, ["audit", str(exchange)])
    assert done.exit_code in (0, 1), done.output
    found = json.loads((exchange / "audit" / "findings.json").read_text())["findings"]
    return {one["attack"]: one["verdict"] for one in found}


@pytest.mark.slow
def test_flares_own_job_with_and_without_the_filter(tmp_path: Path) -> None:
    code, printed_text = job(tmp_path / "plain")
    assert (code, printed_text.splitlines()[-1]) == (0, "55 uploads reached the server; no noise")
    verdict_by_attack = verdicts(tmp_path / "plain/exchange")
    assert verdict_by_attack["first_layer_samples"] == verdict_by_attack["input_support"] == "LEAK"

    code, printed_text = job(
        tmp_path / "gated", "--noise", "2.5", "--control", "../../plain/exchange"
    )
    assert code == 0, printed_text
    assert "55 uploads reached the server; epsilon 3.85" in printed_text
    verdict_by_attack = verdicts(tmp_path / "gated/exchange")
    assert verdict_by_attack["first_layer_samples"] == "NOT_DETECTED"
    assert (
        verdict_by_attack["claim_noise"] == verdict_by_attack["claim_accounting"] == "NOT_DETECTED"
    )
    assert verdict_by_attack["input_support"] != "LEAK"
    books = SiteBooks(tmp_path / "gated/sites/site-1")
    assert len(books.releases()) == 5
    assert books.spent("client", 1e-5).epsilon == pytest.approx(3.849, abs=1e-3)

    code, printed_text = job(tmp_path / "low", "--noise", "0.5", "--rounds", "1")
    assert code == 1
    assert "has noise multiplier 0.5; wanted 1" in printed_text
    assert "no upload reached the server" in printed_text

    sites = tmp_path / "gated/sites"
    for floor in sites.glob(f"*/{POLICY_FILE}"):
        floor.write_text(floor.read_text().replace("epsilon: 8.0", "epsilon: 4.0"))
    code, printed_text = job(
        tmp_path / "more", "--noise", "2.5", "--rounds", "1", "--sites", str(sites)
    )
    assert code == 1
    assert "past the site's budget of 4" in printed_text
    assert not list((tmp_path / "more/seen").glob("site-*"))
    assert {len(SiteBooks(home).releases()) for home in sites.iterdir()} == {5}


def with_the_documented_policy(site: Path, home: Path) -> None:
    """`local/privacy.json` and `local/resources.json` as docs/howto/flare_filter.md has them."""
    page = Path("docs/howto/flare_filter.md").read_text()
    policy = page.split("```json\n")[1].split("```")[0].replace("/srv/securefg", str(home))
    (site / "local/privacy.json").write_text(policy)
    settings = json.loads((site / "local/resources.json.default").read_text())
    settings["allow_log_streaming"] = False
    named = [one for one in settings["components"] if one["id"] != "site_log_streamer"]
    settings["components"] = named
    (site / "local/resources.json").write_text(json.dumps(settings))


@pytest.mark.slow
def test_a_sites_own_policy_gates_a_job_that_knows_nothing_of_it(tmp_path: Path) -> None:
    """A server and two sites of FLARE's own, over TLS on this machine."""
    code = [str(Path.cwd()), str(JOB.parent), str(JOB.parents[1] / "fedavg_numpy")]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(code),
        "OMP_NUM_THREADS": "1",
        "HOME": str(tmp_path),
        "NVFLARE_POC_WORKSPACE": str(tmp_path / "poc"),
    }
    nvflare = str(Path(sys.executable).with_name("nvflare"))

    def run(*words: str) -> str:
        done = subprocess.run(
            words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, (words, done.stdout[-800:], done.stderr[-800:])
        return done.stdout

    run(sys.executable, "-c", f"import job; job.plain_job(2, 2).export({str(tmp_path / 'jobs')!r})")
    run(nvflare, "poc", "prepare", "-n", "2", "--force")
    homes = [open_home(tmp_path / "homes" / name).parent for name in ("site-1", "site-2")]
    for home in homes:
        (kit,) = (tmp_path / "poc").glob(f"*/prod_00/{home.name}")
        with_the_documented_policy(kit, home)
    with (tmp_path / "poc.log").open("wb") as log:
        started = subprocess.Popen(
            [nvflare, "poc", "start", "-ex", "admin@nvidia.com"],
            env=env,
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until(lambda: run(nvflare, "system", "status", "--format", "json").count("last_conn") >= 2)
        run(nvflare, "job", "submit", "-j", str(tmp_path / "jobs" / "hello-numpy"))
        until(lambda: all(len(SiteBooks(home).releases()) == 2 for home in homes))
    finally:
        subprocess.run([nvflare, "poc", "stop"], env=env, capture_output=True, check=False)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    for home in homes:
        assert SiteBooks(home).spent("client", 1e-5).epsilon == pytest.approx(2.288, abs=1e-3)
        assert not (home / "refusals.jsonl").exists()


def until(is_reached: Callable[[], bool], seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(AssertionError):
            if is_reached():
                return
        time.sleep(2)
    pytest.fail(f"not within {seconds:g} s")
