"""`securefg audit`, from run to verdict, and what it says of folders that are no runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from audits.findings.record import Finding, Verdict
from audits.findings.stored import read_findings
from audits.plan import Plan
from audits.run import audit
from securefg.cli.main import app
from securefg.foundation.errors import InputError
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from tests.forks import securefg
from tests.small import config

HIDDEN = "method.embedding=hidden"
ATTACKS = ("adjacency_nnls", "similar_links", "training_labels", "promises")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    root = tmp_path_factory.mktemp("plain")
    return runner.start(config(root, HIDDEN, "training.rounds=40")).folder


@pytest.fixture(scope="module")
def noised(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    root = tmp_path_factory.mktemp("noised")
    noise = "privacy={mechanism: local_gaussian, target_epsilon: 4, unit: row}"
    weighting = "method.weighting=equal"
    gain = "audit.leak_threshold=0.1"  # some 1800 pairs tell a gain of 0.1 from none, hardly 0.05
    return runner.start(config(root, HIDDEN, weighting, noise, gain, "training.rounds=40")).folder


def copied(run: RunFolder, to: Path) -> Path:
    shutil.copytree(run.path, to / "run")
    return to / "run"


def by_attack(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.attack: finding for finding in findings}


@pytest.fixture(scope="module")
def first_findings(plain: RunFolder) -> list[Finding]:
    return audit(plain.path, Plan(only=ATTACKS)).findings


def test_an_undefended_run_leaks_its_edges(first_findings: list[Finding]) -> None:
    findings_by_attack = by_attack(first_findings)
    edges = findings_by_attack["adjacency_nnls"]
    assert edges.verdict is Verdict.LEAK
    assert edges.value is not None
    assert edges.value.value > 0.95
    assert edges.null_at_chance
    assert findings_by_attack["integrity"].verdict is Verdict.NOT_DETECTED


def test_noise_silences_what_speaks_without_it_and_keeps_its_promise(noised: RunFolder) -> None:
    audit_findings = audit(noised.path, Plan(only=ATTACKS, trials=1000)).findings
    attacks = by_attack(audit_findings)
    assert attacks["adjacency_nnls"].verdict is Verdict.NOT_DETECTED
    assert attacks["adjacency_nnls"].positive is not None
    assert attacks["adjacency_nnls"].positive.value > 0.3
    games = [finding for finding in audit_findings if finding.attack.startswith("mechanism_")]
    assert {finding.attack for finding in games} >= {"mechanism_canary", "mechanism_shape"}
    assert not any(finding.verdict is Verdict.VIOLATION for finding in games)


def test_findings_and_raw_scores_are_kept(plain: RunFolder) -> None:
    audit(plain.path, Plan(only=("similar_links",)))
    stored_findings = read_findings(plain.path / "audit" / "findings.json")
    (finding,) = (one for one in stored_findings if one.attack == "similar_links")
    assert finding.measured
    assert all(
        one.measured or one.verdict is Verdict.INCONCLUSIVE for one in stored_findings
    )  # what no attack read stands beside it
    with np.load(plain.path / "audit" / "scores.npz") as scores:
        assert len(scores["similar_links/server/score"]) == finding.targets
    assert "NaN" not in (plain.path / "audit" / "findings.json").read_text()


def test_an_audit_repeats_to_the_digit(plain: RunFolder, first_findings: list[Finding]) -> None:
    again = audit(plain.path, Plan(only=ATTACKS)).findings
    both = (first_findings, again)
    timeless = [[f.model_copy(update={"seconds": 0.0}) for f in found] for found in both]
    assert timeless[0] == timeless[1]


def test_a_thinned_transcript_is_inconclusive(tmp_path: Path) -> None:
    run = runner.start(config(tmp_path, HIDDEN, "output.transcript_every=0")).folder
    found = by_attack(audit(run.path, Plan(only=("adjacency_nnls",))).findings)
    assert found["adjacency_nnls"].verdict is Verdict.INCONCLUSIVE
    assert "thinned" in found["adjacency_nnls"].because


def invoked(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["audit", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_leak_fails_the_gate_only_where_asked_for(plain: RunFolder) -> None:
    assert invoked(str(plain.path), "--only", "similar_links")[0] == 0
    assert invoked(str(plain.path), "--only", "similar_links", "--fail-on", "LEAK")[0] == 1


def test_a_tampered_transcript_is_a_violation(plain: RunFolder, tmp_path: Path) -> None:
    run = copied(plain, tmp_path)
    path = run / "transcript" / "messages.bin"
    path.write_bytes(path.read_bytes()[:-1000])
    code, output = invoked(str(run), "--only", "promises")
    assert code == 1
    assert "BROKEN PROMISE" in output


def test_findings_print_as_json(plain: RunFolder) -> None:
    code, output = invoked(str(plain.path), "--only", "similar_links", "--json")
    assert code == 0
    found = json.loads(output)
    assert [one["verdict"] for one in found if one["attack"] == "similar_links"] == ["LEAK"]


def refused(*arguments: str) -> str:
    """What the command line says, in a line or two, before it ends with 2."""
    with pytest.raises(InputError) as error:  # `main` ends with 2 on these: see the test below
        invoked(*arguments)
    assert 1 <= len(str(error.value).splitlines()) <= 2
    return str(error.value)


def test_bad_input_ends_with_2(tmp_path: Path) -> None:
    done = securefg("audit", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "expected a run's folder" in done.stderr


def test_bad_input_is_answered_in_a_line_or_two(plain: RunFolder, tmp_path: Path) -> None:
    assert "expected a run's folder" in refused(str(tmp_path))
    assert "attack: found 'telepathy'; expected adjacency_nnls, " in refused(
        str(plain.path), "--only", "telepathy"
    )
    assert "adversary: found 'martian'; expected server" in refused(
        str(plain.path), "--adversary", "martian"
    )
    older = copied(plain, tmp_path)
    path = older / "config.yaml"
    path.write_text(path.read_text().replace("format: 5", "format: 4"))
    assert "a run of format 4; this version reads 5" in refused(str(older))
