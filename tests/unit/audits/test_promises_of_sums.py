"""The canary, the redraws and the record agree with the claims of every method of private sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from audits.findings.record import Finding, Verdict
from audits.plan import PROMISES, Plan
from audits.run import audit
from securefg.runs import runner
from securefg.settings.config import RunConfig
from tests.unit.methods import test_noisy_counts, test_one_sum, test_pseudo_sums

RUNS: dict[str, Callable[[Path], RunConfig]] = {
    "one sum": test_one_sum.config,
    "noisy counts": test_noisy_counts.config,
    "sums by pseudo label": lambda root: test_pseudo_sums.config(root, test_pseudo_sums.NOISE),
}


@pytest.fixture(scope="module", params=sorted(RUNS))
def findings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Finding]:
    run = runner.start(RUNS[request.param](tmp_path_factory.mktemp("promises"))).folder
    return audit(run.path, Plan(only=(PROMISES,), trials=2000)).findings


def test_no_check_of_a_promise_finds_fault(findings: list[Finding]) -> None:
    names = {found.attack for found in findings}
    assert {"mechanism_moved", "mechanism_redraw", "recorded_noise", "declared_influence"} <= names
    checked = [found for found in findings if found.check]
    assert {found.verdict for found in checked} == {Verdict.NOT_DETECTED}


def test_moved_canary_shows_most_of_the_claim(findings: list[Finding]) -> None:
    (moved,) = [found for found in findings if found.attack == "mechanism_moved"]
    assert moved.epsilon_claimed is not None
    assert moved.epsilon_lower is not None
    assert 0.6 < moved.epsilon_lower / moved.epsilon_claimed <= 1


def test_removal_of_some_unit_reaches_the_declared_distance(findings: list[Finding]) -> None:
    shares = [f.details["share_of_declared"] for f in findings if f.attack == "declared_influence"]
    assert 0.98 < max(shares) <= 1 + 1e-4
