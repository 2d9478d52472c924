"""What an audit found stands on the run's page, the worst first; what was not audited says so."""

from __future__ import annotations

import json

import pytest

from audits.findings.record import Verdict
from securefg.foundation.errors import RunFolderError
from securefg.reports import build_report
from securefg.reports.findings_section import finding_anchor
from securefg.runs.folder import RunFolder
from tests.unit.reports.made_findings import ODD, attack, audited, check
from tests.unit.reports.outline import Outline


def words_of(folder: RunFolder) -> str:
    return " ".join(Outline(build_report(folder).read_text()).words.split())


def test_a_run_that_was_not_audited_says_so(spoilt: RunFolder) -> None:
    assert "Not audited yet" in words_of(spoilt)


def test_findings_stand_worst_first_with_gain_prior_and_control(spoilt: RunFolder) -> None:
    audited(spoilt.path, check("weights", 3.9), attack(0.189, Verdict.LEAK), check("scores", 6.0))
    words = words_of(spoilt).rpartition("Defence off")[2]
    assert "3 findings: 1 promise broken, 1 leak, 1 not detected." in words_of(spoilt)
    broken, leak = words.index("epsilon 6.0 was shown"), words.index("+0.189")
    assert broken < leak < words.index("epsilon 3.9 was shown")
    assert "similar links by clients 1, 5 together" in words
    assert "0.689 0.5 +0.189+0.159 to +0.219measured +0.190" in words
    assert "knows the split" in words


def test_claimed_epsilon_stands_beside_the_measured(spoilt: RunFolder) -> None:
    audited(spoilt.path, check("weights", 3.9), check("scores", 6.0))
    page = build_report(spoilt).read_text()
    assert '<td class="n">4.2</td><td class="n red">6</td>' in page
    assert '<td class="n">4.2</td><td class="n">3.9</td>' in page


def test_every_finding_has_an_address_of_its_own(spoilt: RunFolder) -> None:
    many = [check(field, 3.9) for field in ("a", "b", "c")]
    audited(spoilt.path, *many, attack(0.1, Verdict.LEAK))
    ids = Outline(build_report(spoilt).read_text()).ids
    assert len(ids) == len(set(ids))
    assert {finding_anchor(one.attack, one.adversary) for one in many} <= set(ids)
    assert finding_anchor("similar_links", "client:1,5") in ids


def test_words_of_findings_are_escaped(spoilt: RunFolder) -> None:
    audited(spoilt.path, attack(0.1, Verdict.LEAK))
    page = build_report(spoilt).read_text()
    assert ODD not in page
    assert "alert(1)" in page


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "no findings can be read"), ('{"schema": 9}', "schema 9"), ("[]", "no findings can")],
)
def test_damaged_findings_are_refused(spoilt: RunFolder, content: str, words: str) -> None:
    audited(spoilt.path)
    (spoilt.path / "audit" / "findings.json").write_text(content)
    with pytest.raises(RunFolderError, match=words):
        build_report(spoilt)


def test_a_finding_with_a_key_of_no_schema_is_refused_in_one_line(spoilt: RunFolder) -> None:
    audited(spoilt.path, attack(0.1, Verdict.LEAK))
    path = spoilt.path / "audit" / "findings.json"
    tree = json.loads(path.read_text())
    tree["findings"][0]["new_key"] = 1
    path.write_text(json.dumps(tree))
    with pytest.raises(RunFolderError, match="no findings can be read here: new_key: ") as told:
        build_report(spoilt)
    assert len(str(told.value).splitlines()) == 1
