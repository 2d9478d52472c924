"""The answer of every shipped method: every number on the screen is one of findings.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audits.answer.build import answer_of
from audits.answer.exports import FORMATS
from audits.answer.model import Answer, Cell
from audits.answer.sentences import rate_text
from audits.answer.terminal import WIDTH, answer_lines
from audits.plan import Plan
from audits.run import audit
from securefg.cli.main import app
from securefg.foundation.errors import SecurefgError
from securefg.settings.methods import method_names
from tests.contract.test_engines import CONFIGS, finished, shipped, small_version
from tests.shown_figures import screen_figures
from tests.small import config

DEFENDED = ("fedgl_cora_private", "gfl_dnc_masked", "ppfl_deepwalk_citeseer_masked")


def configs() -> list[str]:
    """One config per shipped method, some with defences, and methods that no config names."""
    first: dict[str, str] = {}
    for path in CONFIGS:
        first.setdefault(json.loads(shipped(path))["method"]["name"], path.stem)
    return sorted({*first.values(), *DEFENDED, *set(method_names()) - set(first)})


def audited(stem: str, root: Path) -> Path:
    path = Path(f"configs/{stem}.yaml")
    small = small_version(path, root) if path.is_file() else config(root, method=stem)
    run = finished(small, "audit.num_shadows=4").path
    audit(run, Plan(trials=1000))
    return run


def findings(run: Path) -> dict[tuple[str, str], list[dict[str, object]]]:
    found: dict[tuple[str, str], list[dict[str, object]]] = {}
    for one in json.loads((run / "audit" / "findings.json").read_text())["findings"]:
        found.setdefault((one["attack"], one["adversary"]), []).append(one)
    return found


def numbered(answer: Answer) -> Iterator[Cell]:
    yield from (cell for cell in answer.cells if cell.number)


@pytest.mark.parametrize("stem", configs())
def test_answer_of_a_method_shows_the_numbers_of_its_findings(stem: str, tmp_path: Path) -> None:
    run = audited(stem, tmp_path)
    answer, stored = answer_of(run), findings(run)
    lines = [line.plain for line in answer_lines(answer)]
    assert max(map(len, lines)) <= WIDTH
    for cell in numbered(answer):
        best = cell.best
        assert best is not None
        (note,) = [line for line in lines if line.startswith(f"[{cell.number}]")]
        same = [f for f in stored[best.attack, best.adversary] if f["metric"] == best.metric]
        value, prior = same[0]["value"], same[0]["prior"]
        if value and prior:
            figures = f"guessing {rate_text(prior['value'])} -> {rate_text(value['value'])}"
            assert note.endswith(figures), note
    for cell in answer.cells:
        for shown_finding in cell.evidence:
            assert any(
                (f["value"] or {}).get("value")
                == (shown_finding.value.value if shown_finding.value else None)
                and f["verdict"] == shown_finding.verdict
                for f in stored[shown_finding.attack, shown_finding.adversary]
            )
    whole = [line.plain for line in answer_lines(answer, whole=True)]
    assert max(map(len, whole)) <= WIDTH
    for name, make in FORMATS.items():
        assert answer.outcome.value in make(answer), name
    shown = screen_figures("\n".join(lines))
    assert {row.title[:33] for row in answer.rows if row.has_view} <= set(shown)
    assert sum(name.startswith("[") for name in shown) <= len(list(numbered(answer)))


def test_audit_twice_prints_the_same_screen(tmp_path: Path) -> None:
    run = audited("fedgl_cora", tmp_path)
    first = [line.plain for line in answer_lines(answer_of(run))]
    audit(run, Plan(trials=1000, jobs=2))
    assert [line.plain for line in answer_lines(answer_of(run))] == first


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["audit", *arguments])
    if isinstance(result.exception, SecurefgError):  # as `main` ends on bad input
        return 2, result.stdout, str(result.exception)
    return result.exit_code, result.stdout, result.stderr


def test_audit_command_offers_every_form_and_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = str(finished(small_version(HERE / "configs" / "fedgl_cora.yaml", tmp_path)).path)
    quick = (run, "--only", "links", "--only", "promises", "--trials", "1000", "--set", SHADOWS)
    code, text, _ = invoke(*quick)
    assert code == 0
    assert text.startswith("fedgl_cora · 3 clients")
    assert "NOT TRIED" in text
    asked = {attack for attack, _ in findings(Path(run))}
    assert {"whitened_links", "influence_links", "integrity"} <= asked
    assert "membership_loss" not in asked
    for form, start in (("json", "{"), ("MD", "## "), ("sarif", "{"), ("junit", "<?xml")):
        code, text, _ = invoke(*quick, "--format", form)
        assert (code, text.startswith(start)) == (0, True), text[:200]
    assert invoke(*quick, "--fail-on", "leak", "-q")[0] == 1
    code, _, error_text = invoke(*quick, "--fail-on", "new", "-q")
    assert code == 1
    codes = re.findall(r"SFG-[A-Z0-9-]+", error_text)
    assert "SFG-LINK-CLIENT" in codes
    entry = "{{code: {}, at_most: {}, owner: Jane Doe, reason: a test of ours, until: {}}}"
    unknown = {cell.code for cell in answer_of(Path(run)).cells if cell.is_open}
    levels = {code: "not known" if code in unknown else "ALL" for code in codes}
    accepted = "\n".join(
        f"- {entry.format(code, level, tomorrow())}" for code, level in levels.items()
    )
    (tmp_path / "accepted.yaml").write_text(f"accepted:\n{accepted}\n")
    code, text, error_text = invoke(*quick, "--fail-on", "NEW")
    assert (code, error_text) == (0, "")
    assert "a: accepted" in text
    assert "Jane Doe" in invoke(*quick, "--format", "md")[1]
    (tmp_path / "accepted.yaml").write_text(accepted.replace(tomorrow(), "2020-01-31"))
    assert invoke(*quick)[0] == 2


def test_audit_command_tries_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = str(finished(small_version(HERE / "configs" / "fedgl_cora.yaml", tmp_path)).path)
    assert invoke(run, "--only", "holders", "-q")[0] == 0
    code, text, _ = invoke(run, "--only", "holders", "--try", "MASKS")
    assert code == 0
    assert "masks, tried (3 rounds" in text
    (remedy,) = [one for one in answer_of(Path(run)).remedies if one.key == "masks"]
    assert remedy.twin is not None
    assert set(remedy.tried) == {"SFG-HOLDER-SERVER"}
    (twin,) = (Path(run) / "audit/tried/masks").glob("*/audit/findings.json")
    levels = {f["attack"]: f["verdict"] for f in json.loads(twin.read_text())["findings"]}
    assert levels["held_rows"] != "LEAK"
    code, _, error_text = invoke(run, "--try", "magic")
    assert code == 2
    assert "--try: found 'magic'; expected masks or noise" in error_text
    line = "{code: SFG-HOLDER-SERVER, at_most: ALL, owner: Jane Doe, reason: a test of ours, until"
    Path("accepted.yaml").write_text(f"accepted:\n- {line}: {tomorrow()}}}\n")
    gate = (run, "--only", "holders", "--fail-on", "new", "-q")
    code, _, error_text = invoke(*gate, "--try", "masks")
    assert (Path(run) / "audit/accepted.yaml").is_file()
    assert "SFG-HOLDER-SERVER" not in error_text
    assert (code, error_text) == (invoke(*gate)[0], invoke(*gate)[2])
    tried = Path(run) / "audit/tried"
    (tried / "masks").rename(tried / "noise")  # a twin of another remedy says nothing of this one
    assert not any(one.is_tried for one in answer_of(Path(run)).remedies)


HERE = Path.cwd()
SHADOWS = "audit.num_shadows=4"


def tomorrow() -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime.now(UTC).date() + timedelta(days=1)).isoformat()
