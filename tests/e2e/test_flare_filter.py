"""FLARE's own FedAvg job in its simulator, with and without SecurefgFilter, and audited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.flare.site_ledger import SiteBooks
from securefg.flare.site_policy import POLICY_FILE

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
    code, told = job(tmp_path / "plain")
    assert (code, told.splitlines()[-1]) == (0, "55 uploads reached the server; no noise")
    found = verdicts(tmp_path / "plain/exchange")
    assert found["first_layer_samples"] == found["input_support"] == "LEAK"

    code, told = job(tmp_path / "gated", "--noise", "2.5", "--control", "../../plain/exchange")
    assert code == 0, told
    assert "55 uploads reached the server; epsilon 3.85" in told
    found = verdicts(tmp_path / "gated/exchange")
    assert found["first_layer_samples"] == "NOT_DETECTED"
    assert found["claim_noise"] == found["claim_accounting"] == "NOT_DETECTED"
    assert found["input_support"] != "LEAK"
    books = SiteBooks(tmp_path / "gated/sites/site-1")
    assert len(books.releases()) == 5
    assert books.spent("client", 1e-5).epsilon == pytest.approx(3.849, abs=1e-3)

    code, told = job(tmp_path / "low", "--noise", "0.5", "--rounds", "1")
    assert code == 1
    assert "has noise multiplier 0.5; wanted 1" in told
    assert "no upload reached the server" in told

    sites = tmp_path / "gated/sites"
    for floor in sites.glob(f"*/{POLICY_FILE}"):
        floor.write_text(floor.read_text().replace("epsilon: 8.0", "epsilon: 4.0"))
    code, told = job(tmp_path / "more", "--noise", "2.5", "--rounds", "1", "--sites", str(sites))
    assert code == 1
    assert "past the site's budget of 4" in told
    assert not list((tmp_path / "more/seen").glob("site-*"))
    assert {len(SiteBooks(home).releases()) for home in sites.iterdir()} == {5}
