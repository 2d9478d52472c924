"""Runs side by side, and a run's results in other forms."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import pytest

from audits.findings.record import Verdict
from securefg.cli import main as cli
from securefg.foundation.errors import RunFolderError
from securefg.reports.compare import compare_runs, flatten_tree, write_comparison
from securefg.reports.exports import export_report
from securefg.runs.folder import RunFolder
from tests.unit.reports.made_findings import attack, audited, check
from tests.unit.reports.outline import Outline
from tests.unit.reports.runs import NOISE, MakeRun


@pytest.fixture
def two(make_run: MakeRun, tmp_path: Path) -> tuple[Path, Path]:
    """A plain run, audited, and a noisy one, not audited."""
    plain = Path(shutil.copytree(make_run().path, tmp_path / "runs" / "plain"))
    noisy = Path(shutil.copytree(make_run(*NOISE).path, tmp_path / "runs" / "noisy"))
    return audited(plain, attack(0.189, Verdict.LEAK), check("a", 3.9), check("b", 6.0)), noisy


def test_settings_that_differ_are_shown_and_no_others(two: tuple[Path, Path]) -> None:
    lines = {line.name: line.values for line in compare_runs(two).settings}
    assert lines["privacy.mechanism"] == ("plain", "local_gaussian")
    assert "method.hidden" not in lines
    assert all(len(set(values)) == 2 for values in lines.values())


def test_results_and_findings_stand_side_by_side(two: tuple[Path, Path]) -> None:
    comparison = compare_runs(two)
    results = {line.name: line.values for line in comparison.results}
    assert results["epsilon per client"][0] == "∞"
    value, _, about = results["epsilon per client"][1].partition(" at δ 1e-5, ")
    assert float(value) > 0
    assert about == "one client replaced, 3 clients in all"
    assert results["audit"] == ("1 promise broken, 1 leak, 1 not detected", "not audited")
    findings = {line.name: line for line in comparison.findings}
    leak = findings["similar links, clients 1, 5 together"]
    assert leak.values == ("leak, +0.189", "–")
    assert leak.tones == ("leak", "")
    assert len(findings) == 3


def test_the_page_leads_to_the_runs_wherever_it_is(two: tuple[Path, Path], tmp_path: Path) -> None:
    page = write_comparison(compare_runs(two), tmp_path / "elsewhere" / "compare.html")
    outline = Outline(page.read_text())
    pages = {address.partition("#")[0] for address in outline.addresses} - {""}
    assert pages == {f"../runs/{name}/report.html" for name in ("plain", "noisy")}
    assert "Settings that differ" in outline.words


def test_folders_of_the_same_name_are_told_apart(two: tuple[Path, Path], tmp_path: Path) -> None:
    other = Path(shutil.copytree(two[1], tmp_path / "other" / "plain"))
    assert compare_runs([two[0], other]).names == ("runs/plain", "other/plain")


def test_one_run_is_not_compared_with_itself(two: tuple[Path, Path]) -> None:
    for paths in ([two[0]], [two[0], two[0]]):
        with pytest.raises(RunFolderError, match="two different runs"):
            compare_runs(paths)


def test_leaves_of_settings_have_dotted_names() -> None:
    tree = {"a": {"b": 1, "c": {}}, "d": [1, 2]}
    assert dict(flatten_tree(tree)) == {"a.b": 1, "a.c": {}, "d": [1, 2]}


def test_markdown_has_scores_claims_and_findings(two: tuple[Path, Path]) -> None:
    text = export_report(RunFolder.open(two[0]), "md").read_text()
    assert text.startswith("# ")
    assert "| Test accuracy | " in text
    assert "**per client: ε = ∞**" in text
    assert "| similar links | clients 1, 5 together | leak | +0.189 | " in text
    assert "Not audited." in export_report(RunFolder.open(two[1]), "md").read_text()


def test_json_holds_every_round_and_finding(two: tuple[Path, Path]) -> None:
    tree = json.loads(export_report(RunFolder.open(two[0]), "json").read_text())
    assert len(tree["rounds"]) == tree["summary"]["rounds"] == 3
    assert [one["attack"] for one in tree["findings"]].count("mechanism_canary") == 2
    assert json.loads(export_report(RunFolder.open(two[1]), "json").read_text())["findings"] is None


def test_csv_is_one_number_a_line(two: tuple[Path, Path]) -> None:
    with export_report(RunFolder.open(two[0]), "csv").open() as file:
        rows = list(csv.DictReader(file))
    by_name = {(row["part"], row["name"]): row for row in rows}
    summary = json.loads((two[0] / "summary.json").read_text())
    accuracy = by_name["result", "test_accuracy"]["value"]
    assert float(accuracy) == summary["test_accuracy"]
    assert by_name["epsilon", "client"]["value"] == "inf"
    leak = by_name["finding", "similar_links client:1,5"]
    assert (float(leak["value"]), leak["note"]) == (0.189, "LEAK")
    assert sum(row["part"] == "round" for row in rows) == 3 * 4


def told(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["securefg", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code if isinstance(stop.value.code, int) else 0


def test_commands_write_where_they_say(
    two: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain, noisy = map(str, two)
    assert told(monkeypatch, "compare", plain, noisy) == 0
    shown = capsys.readouterr().out
    assert "test accuracy" in shown
    assert (two[0].parent / "compare.html").is_file()
    assert told(monkeypatch, "report", plain, "--format", "csv") == 0
    assert capsys.readouterr().out.strip().endswith("plain/report.csv")
    assert told(monkeypatch, "compare", plain) == 2
    assert told(monkeypatch, "report", plain, "--format", "pdf") == 2
