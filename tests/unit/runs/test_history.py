"""Findings that were edited or taken away are missed: an audit notes them in the run's history."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from audits.findings.file import FindingsFile, is_whole
from audits.findings.history import FILE, note_the_end, read_history
from audits.findings.record import MISSING, Finding, Verdict
from audits.findings.stored import findings_of, read_findings
from securefg.foundation.errors import RunFolderError
from securefg.foundation.interval import Interval

LEAK, SILENT = Verdict.LEAK, Verdict.NOT_DETECTED
RECORD = "ab12"


def finding(verdict: Verdict, attack: str = "a") -> Finding:
    gain = Interval(value=0.2, low=0.1, high=0.3)
    filled = {"adversary": "server", "method": "made", "metric": "m", "unit": "-", "because": "so"}
    return Finding(**filled, attack=attack, verdict=verdict, gain=gain)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run, as far as its history goes."""
    note_the_end(tmp_path, RECORD, b"{}")
    (tmp_path / "summary.json").write_bytes(b"{}")
    return tmp_path


def audited(run: Path, *kept_findings: Finding, terms: str = "", asked: str = "everything") -> None:
    whole = asked == "everything"
    file = FindingsFile.begin(
        run / "audit", {"record": RECORD}, anew=whole, asked=asked, terms=terms
    )
    file.add(kept_findings)
    file.close({})


def told(run: Path) -> list[tuple[str, Verdict]]:
    return [(f.attack, f.verdict) for f in findings_of(run, RECORD) or ()]


def edited(run: Path, before: str, after: str) -> Path:
    path = run / "audit" / "findings.json"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    return path


# ---------------------------------------------------------------------------------------- edited


def test_an_edited_verdict_is_refused_by_its_name(run: Path) -> None:
    audited(run, finding(LEAK), finding(SILENT, "b"))
    path = edited(run, '"LEAK"', '"NOT_DETECTED"')
    with pytest.raises(RunFolderError, match=r"a \(server\) was LEAK and is NOT_DETECTED"):
        read_findings(path, RECORD)
    assert not is_whole(path, RECORD)


@pytest.mark.parametrize(
    ("before", "after"), [('"value": 0.2', '"value": 0.0'), ('"so"', '"nothing"')]
)
def test_so_is_any_other_edit(run: Path, before: str, after: str) -> None:
    audited(run, finding(LEAK))
    with pytest.raises(RunFolderError, match="changed since the audit of"):
        read_findings(edited(run, before, after))


def test_a_finding_that_was_cut_out_is_named(run: Path) -> None:
    audited(run, finding(LEAK))
    path = run / "audit" / "findings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "findings": []}))
    with pytest.raises(RunFolderError, match=r"a \(server\) was LEAK and is gone"):
        read_findings(path, RECORD)


def test_no_audit_of_some_attacks_goes_on_from_edited_findings(run: Path) -> None:
    audited(run, finding(LEAK))
    edited(run, '"LEAK"', '"NOT_DETECTED"')
    with pytest.raises(RunFolderError, match="changed since"):
        audited(run, finding(SILENT, "b"), asked="b")
    audited(run, finding(SILENT, "b"))
    assert ("a", LEAK) in told(run)


def test_findings_of_another_folder_are_of_no_audit_of_this_one(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    note_the_end(other, RECORD, b"{}")
    audited(other, finding(SILENT))
    shutil.copytree(other / "audit", run / "audit")
    with pytest.raises(RunFolderError, match="no audit of this folder wrote these findings"):
        findings_of(run, RECORD)


def test_an_edited_history_is_refused(run: Path) -> None:
    audited(run, finding(LEAK))
    path = run / FILE
    path.write_text(path.read_text().replace('"LEAK"', '"NOT_DETECTED"'))
    with pytest.raises(RunFolderError, match=r"history\.jsonl:2: not the line of this log"):
        read_history(run)


@pytest.mark.parametrize("after_noting", [True, False])
def test_an_audit_that_dies_between_its_two_files_leaves_findings_that_are_read(
    run: Path, monkeypatch: pytest.MonkeyPatch, after_noting: bool
) -> None:
    file = FindingsFile.begin(run / "audit", {"record": RECORD}, anew=True)
    file.add([finding(LEAK)])
    broken = "write_atomically" if after_noting else "write_history"

    def fails(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(f"audits.findings.file.{broken}", fails)
    with pytest.raises(OSError, match="full"):
        file.add([finding(SILENT, "b")])
    assert [f.attack for f in findings_of(run, RECORD) or ()] == ["a", "unfinished_audit"]


# ------------------------------------------------------------------------------------ taken away


def test_what_an_audit_found_stands_where_its_folder_was_deleted(run: Path) -> None:
    audited(run, finding(LEAK), finding(SILENT, "b"))
    shutil.rmtree(run / "audit")
    assert told(run) == [("a", LEAK), (MISSING, Verdict.INCONCLUSIVE)]


def test_a_milder_audit_in_its_place_takes_nothing_back(run: Path) -> None:
    audited(run, finding(LEAK))
    shutil.rmtree(run / "audit")
    audited(run, finding(SILENT), terms="--seed 7")
    assert told(run) == [("a", LEAK), (MISSING, Verdict.INCONCLUSIVE)]
    stands, gone = findings_of(run, RECORD) or ()
    assert stands.milder[0].startswith("--seed 7: NOT_DETECTED")
    assert "the audit of" in gone.because
    assert "(everything, default terms) were taken away" in gone.because


def test_the_same_audit_made_again_replaces_it(run: Path) -> None:
    """As it would have with its findings there: on the same terms the last measurement counts."""
    audited(run, finding(LEAK))
    shutil.rmtree(run / "audit")
    audited(run, finding(SILENT))
    assert told(run) == [("a", SILENT)]
    assert [entry.lost for entry in read_history(run)] == [False, False, True]


def test_of_two_that_were_taken_away_both_must_be_made_again(run: Path) -> None:
    audited(run, finding(SILENT))
    audited(run, finding(SILENT), terms="--seed 7")
    shutil.rmtree(run / "audit")
    audited(run, finding(SILENT))
    assert told(run) == [("a", SILENT), (MISSING, Verdict.INCONCLUSIVE)]
    audited(run, finding(SILENT), terms="--seed 7")
    assert told(run) == [("a", SILENT)]


def test_where_the_history_went_too_nothing_is_known_to_have_been_before(run: Path) -> None:
    audited(run, finding(LEAK))
    shutil.rmtree(run / "audit")
    (run / FILE).unlink()
    assert told(run) == [(MISSING, Verdict.INCONCLUSIVE)]
    for _ in range(2):
        audited(run, finding(SILENT))
        assert told(run) == [("a", SILENT), (MISSING, Verdict.INCONCLUSIVE)]


def test_a_run_that_was_never_audited_lacks_nothing(run: Path) -> None:
    assert findings_of(run, RECORD) is None
