"""Audits on other terms take nothing back: the worst that was measured stands, and is told so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.findings.file import FindingsFile, is_whole
from audits.findings.record import NOT_RECORDED, EndedAudit, Finding, Verdict
from audits.findings.stored import read_findings
from securefg.foundation.interval import Interval
from tests.unit.runs.written_over import write_over

LEAK, SILENT, UNSURE, BROKEN = (
    Verdict.LEAK,
    Verdict.NOT_DETECTED,
    Verdict.INCONCLUSIVE,
    Verdict.VIOLATION,
)


def finding(verdict: Verdict, gain: float | None = 0.1, **more: Any) -> Finding:
    spread = None if gain is None else Interval(value=gain, low=gain - 0.01, high=gain + 0.01)
    filled = {"adversary": "server", "attack": "a", "metric": "m", "because": "", **more}
    return Finding(method="made", unit="-", verdict=verdict, gain=spread, **filled)


def audited(
    folder: Path, *kept_findings: Finding, terms: str = "", anew: bool = True, check: str = ""
) -> list[Finding]:
    file = FindingsFile.begin(folder, {}, anew=anew, terms=terms)
    file.add(kept_findings, check=check)
    file.close(
        {
            f"{f.attack}/{f.adversary}/score": np.array([f.gain.value])
            for f in kept_findings
            if f.gain
        }
    )
    return read_findings(folder / "findings.json")


@pytest.mark.parametrize("anew", [True, False])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (finding(LEAK), finding(SILENT)),
        (finding(LEAK), finding(UNSURE)),
        (finding(LEAK, 0.3), finding(LEAK, 0.1)),
        (finding(UNSURE, 0.06), finding(SILENT, 0.01)),
        (finding(LEAK), finding(UNSURE, None, failed=True)),
        (finding(LEAK), finding(UNSURE, None, measured=False)),
    ],
)
def test_what_is_milder_on_other_terms_is_told_beside_what_stands(
    folder: Path, first: Finding, second: Finding, anew: bool
) -> None:
    audited(folder, first)
    (stands,) = audited(folder, second, terms="--seed 7", anew=anew)
    assert (stands.verdict, stands.gain, stands.terms) == (first.verdict, first.gain, "")
    (said,) = stands.milder
    assert said.startswith(f"--seed 7: {second.verdict}")
    assert "the worst of 2 audits; milder: --seed 7" in stands.words
    with np.load(folder / "scores.npz", allow_pickle=False) as scores:
        assert first.gain is not None
        assert scores["a/server/score"] == first.gain.value


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (finding(SILENT), finding(LEAK)),
        (finding(UNSURE, None, failed=True), finding(SILENT)),
        (finding(UNSURE, None, measured=False), finding(SILENT)),
        (finding(UNSURE, None, epsilon_lower=1.0), finding(SILENT, None, epsilon_lower=3.0)),
    ],
)
def test_what_is_worse_or_was_no_measurement_is_replaced(
    folder: Path, first: Finding, second: Finding
) -> None:
    """Too few trials show nothing; more of them may."""
    audited(folder, first)
    (stands,) = audited(folder, second, terms="--seed 7")
    assert (stands.verdict, stands.terms, stands.milder) == (second.verdict, "--seed 7", ())


def test_on_the_same_terms_a_measurement_replaces_and_a_failure_does_not(
    folder: Path,
) -> None:
    audited(folder, finding(LEAK))
    (stands,) = audited(folder, finding(UNSURE, None, failed=True))
    assert stands.verdict is LEAK
    (stands,) = audited(folder, finding(SILENT))
    assert stands.verdict is SILENT


def test_a_violation_is_not_outplayed_by_fewer_trials(folder: Path) -> None:
    """Findings of a check are replaced together, but for those that are worse on other terms."""
    broken = finding(BROKEN, None, metric="weights", epsilon_lower=9.0)
    quiet = finding(SILENT, None, metric="sizes", epsilon_lower=1.0)
    audited(folder, broken, quiet, check="mechanisms")
    milder = finding(SILENT, None, metric="weights", epsilon_lower=2.0)
    found = audited(folder, milder, terms="--trials 1000", check="mechanisms")
    assert [(f.metric, f.verdict) for f in found] == [("weights", BROKEN)]
    none = audited(folder, terms="--trials 1000", check="mechanisms")
    assert [f.verdict for f in none] == [BROKEN]
    assert [f.verdict for f in audited(folder, milder, check="mechanisms")] == [SILENT]


def test_a_leak_that_a_whole_audit_does_not_ask_again_stays(folder: Path) -> None:
    """Of an attack of one's own, or from another client's place."""
    audited(folder, finding(LEAK, adversary="client:5"), finding(SILENT, attack="own"))
    found = audited(folder, finding(SILENT))
    assert [(f.adversary, f.verdict) for f in found] == [("client:5", LEAK), ("server", SILENT)]


def test_a_hundred_seeds_are_told_once_each_and_counted(folder: Path) -> None:
    audited(folder, finding(LEAK))
    for seed in (*range(1, 12), 3):
        (stands,) = audited(folder, finding(SILENT), terms=f"--seed {seed}")
    assert len(stands.milder) == 11
    assert "the worst of 12 audits" in stands.words
    assert "(11 in all)" in stands.words


def test_terms_of_an_older_version_are_not_known(folder: Path) -> None:
    audited(folder, finding(LEAK))
    path = folder / "findings.json"
    tree = json.loads(path.read_text())
    for entry in tree["findings"]:
        del entry["terms"], entry["milder"]
    del tree["audits"]
    write_over(path, tree)
    (old,) = read_findings(path)
    assert old.terms == NOT_RECORDED
    assert is_whole(path)
    assert not is_whole(path, wanted=EndedAudit(asked="everything", terms=""))


def test_an_audit_on_other_terms_is_not_the_one_that_was_wanted(folder: Path) -> None:
    audited(folder, finding(SILENT), terms="--seed 7")
    path, wanted = folder / "findings.json", EndedAudit(asked="everything", terms="")
    assert not is_whole(path, wanted=wanted)
    audited(folder, finding(SILENT))
    assert is_whole(path, wanted=wanted)
