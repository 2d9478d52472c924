"""Bits flipped in a finished run's folder: nothing tells a smaller epsilon or a cleaner verdict."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audits.findings.history import note_the_end
from audits.findings.record import Verdict
from audits.run import Plan, audit
from securefg.cli.main import app
from securefg.foundation.errors import SecurefgError
from securefg.reports import build_report
from securefg.reports.objects import RunResult
from securefg.reports.results import Results, read_results
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.runs.seal import sign_page, verify_run
from tests.small import config
from tests.unit.runs.interrupted import NOISE, WEIGHTS_ALONE

PROMISES = Plan(only=("promises",), trials=1000)
ORDER = [Verdict.VIOLATION, Verdict.LEAK, Verdict.INCONCLUSIVE, Verdict.NOT_DETECTED]
SIGNED = (
    "config.yaml",
    "summary.json",
    "metrics.jsonl",
    "ledger.jsonl",
    "partition.json",
    "model.safetensors",
    "history.jsonl",
    "manifest.json",
    "audit/findings.json",
    "audit/scores.npz",
    "report.html",
    "transcript/messages.bin",
    "fingerprints.json",
    "partition.safetensors",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    settings = config(tmp_path_factory.mktemp("runs"), "training.rounds=2", WEIGHTS_ALONE, NOISE)
    run = runner.start(settings).folder
    audit(run.path, PROMISES)
    sign_page(run, build_report(run))
    assert not [check for check in verify_run(run) if not check.is_met]
    return run


@pytest.fixture
def run(whole: RunFolder, tmp_path: Path) -> RunFolder:
    path = tmp_path / "[red]a\nb" / whole.path.name
    shutil.copytree(whole.path, path)
    return RunFolder(path)


def read(run: RunFolder) -> Results | None:
    try:
        return read_results(run)
    except SecurefgError:
        return None


def wrong(run: RunFolder) -> bool:
    try:
        return any(not check.is_met for check in verify_run(run))
    except SecurefgError:
        return True


def no_cleaner(now: Results, before: Results) -> None:
    for unit, claim in before.summary.epsilon.items():
        found, least = now.summary.epsilon[unit].epsilon, claim.epsilon
        assert found is None or (least is not None and found >= least * (1 - 1e-9))
    verdicts = {(f.attack, f.adversary, f.metric): f.verdict for f in now.findings or ()}
    for one in before.findings or ():
        found_verdict = verdicts.get((one.attack, one.adversary, one.metric))
        assert found_verdict is None or ORDER.index(found_verdict) <= ORDER.index(one.verdict)


@pytest.mark.parametrize("name", SIGNED)
def test_a_flipped_bit_is_seen(name: str, run: RunFolder, whole: RunFolder) -> None:
    path, draws, before = run.path / name, random.Random(name), read_results(whole)
    data = path.read_bytes()
    for _ in range(3):
        spoilt = bytearray(data)
        spoilt[draws.randrange(len(data))] ^= 1 << draws.randrange(8)
        path.write_bytes(spoilt)
        assert wrong(run), f"verify says nothing of {name}"
        found = read(run)
        if found is not None:
            no_cleaner(found, before)
    path.write_bytes(data)
    assert not wrong(run)


def edited(run: RunFolder, change: Callable[[dict[str, dict[str, object]]], object]) -> None:
    path = run.path / "summary.json"
    tree = json.loads(path.read_text())
    change(tree["epsilon"])
    path.write_text(json.dumps(tree))


@pytest.mark.parametrize(
    "change",
    [
        lambda claims: claims["client"].update(epsilon=0.1),
        lambda claims: claims.pop("client"),
        lambda claims: claims["client"].update(epsilon=float("nan")),
    ],
    ids=["smaller", "gone", "not a number"],
)
def test_a_smaller_epsilon_is_told_by_nobody(
    change: Callable[[dict[str, dict[str, object]]], object], run: RunFolder
) -> None:
    edited(run, change)
    with pytest.raises(SecurefgError, match="summary"):
        build_report(run)
    assert wrong(run)


def test_nor_where_the_metrics_are_changed_with_it_and_all_is_signed_again(run: RunFolder) -> None:
    edited(run, lambda claims: claims["client"].update(epsilon=0.1))
    lines = [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
    for line in lines:
        line["epsilon"]["client"] = 0.1
    run.metrics_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(SecurefgError, match=r"since the run ended: metrics\.jsonl, summary\.json"):
        build_report(run)
    forged = (run.path / "summary.json").read_bytes()
    note_the_end(run.path, run.summary().transcript_chain, forged)
    sign_page(run, build_report(run))
    said = {check.name: check.wrong for check in verify_run(run)}
    assert "per client the summary claims less than was booked" in said["epsilon"]
    found = audit(run.path, PROMISES)
    assert found.worst is Verdict.VIOLATION


@pytest.mark.parametrize("name", [".lock", "audit", "metrics.jsonl", "checkpoints", "private"])
def test_nothing_is_written_through_a_link(name: str, run: RunFolder, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    path = run.path / name
    if path.is_dir():
        shutil.move(path, victim)
    else:
        path.unlink(missing_ok=True)
        victim.write_text("precious")
    path.symlink_to(victim)
    before = sorted(victim.rglob("*")) if victim.is_dir() else victim.read_text()
    for act in (build_report, lambda run: audit(run.path, PROMISES)):
        with pytest.raises(SecurefgError, match="is a link"):
            act(run)
    assert before == (sorted(victim.rglob("*")) if victim.is_dir() else victim.read_text())


def test_findings_of_any_size_are_a_line(run: RunFolder) -> None:
    with (run.path / "audit" / "findings.json").open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(SecurefgError, match="more than 32 MiB"):
        build_report(run)
    with pytest.raises(SecurefgError, match="more than 32 MiB"):
        audit(run.path, PROMISES)


@pytest.mark.parametrize("kept", [0, 1])
def test_no_page_is_made_of_a_ledger_that_lacks_what_was_sent(run: RunFolder, kept: int) -> None:
    """An emptied one would read: no private field left any client."""
    lines = run.ledger_path.read_text().splitlines(keepends=True)
    run.ledger_path.write_text("".join(lines[:kept]))
    with pytest.raises(SecurefgError, match="recorded in the transcript"):
        build_report(run)
    said = {check.name: check.wrong for check in verify_run(run)}
    assert "recorded in the transcript, and is missing" in said["epsilon"]


def test_edited_findings_are_on_no_page_and_are_not_signed(run: RunFolder, tmp_path: Path) -> None:
    path, complaint = run.path / "audit" / "findings.json", "changed since the audit of"
    other = shutil.copytree(run.path, tmp_path / "other")
    text = path.read_text()
    path.write_text(text.replace("NOT_DETECTED", "INCONCLUSIVE", 1))
    assert path.read_text() != text
    for act in (["report"], ["report", "--for", "dpo"], ["compare", str(other)]):
        result = CliRunner().invoke(app, [act[0], str(run.path), *act[1:]])
        assert result.exit_code != 0
        assert complaint in str(result.exception or result.output)
    assert complaint in {check.name: check.wrong for check in verify_run(run)}["audits"]
    with pytest.raises(SecurefgError, match=complaint):
        RunResult.of(run).findings  # noqa: B018


def test_page_and_verify_say_that_an_audit_is_missing(run: RunFolder) -> None:
    shutil.rmtree(run.path / "audit")
    audit(run.path, replace(PROMISES, seed=7))
    page = build_report(run)
    sign_page(run, page)
    gone = "(promises, --trials 1000) were taken away"
    assert gone in page.read_text()
    assert gone in {check.name: check.wrong for check in verify_run(run)}["audits"]
    audit(run.path, PROMISES)
    page = build_report(run)
    sign_page(run, page)
    assert gone not in page.read_text()
    assert not [check for check in verify_run(run) if not check.is_met]


def test_a_history_that_was_cut_back_is_not_signed(run: RunFolder) -> None:
    shutil.rmtree(run.path / "audit")
    path = run.path / "history.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    with pytest.raises(SecurefgError, match="entries were taken away"):
        sign_page(run, build_report(run))


def test_findings_about_another_run_are_on_no_page(run: RunFolder) -> None:
    path = run.path / "audit" / "findings.json"
    tree = json.loads(path.read_text())
    tree["run"]["record"] = "0" * 64
    path.write_text(json.dumps(tree))
    with pytest.raises(SecurefgError, match="another run"):
        build_report(run)
