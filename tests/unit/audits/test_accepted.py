"""Accepted risks stay visible, expire, and never cover more than was accepted."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from audits.answer.accepted import Entry, apply_accepted, new_lines, read_accepted
from audits.answer.exports import as_markdown
from audits.answer.model import Answer, Outcome
from audits.answer.sarif import as_sarif
from audits.findings.record import Finding, Verdict
from securefg.foundation.errors import ConfigError
from tests.unit.audits.made_answers import answer, leak, promise, told

TODAY = date(2026, 11, 18)
ENTRY = {
    "code": "SFG-LINK-SERVER",
    "at_most": "most",
    "owner": "Jane Doe",
    "reason": "the links are public anyway",
    "until": "2027-01-31",
}


def accepted(*findings: Finding, **changes: object) -> Answer:
    entry = Entry.model_validate({**ENTRY, **changes})
    return apply_accepted(answer(*findings), [entry], TODAY)


def test_accepted_leak_is_visible_and_is_not_new() -> None:
    accepted_answer = accepted(leak(value=0.8))
    assert accepted_answer.outcome is Outcome.NOT_PRIVATE
    assert accepted_answer.cells[0].acceptance is not None
    assert new_lines(accepted_answer) == []
    assert "accepted by Jane Doe" in as_markdown(accepted_answer)
    assert '"suppressions"' in as_sarif(accepted_answer)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"until": "2026-11-17"}, "accepted until 2026-11-17"),
        ({"at_most": "SOME"}, "found MOST, accepted at most SOME"),
        ({"until": "2036-01-01"}, "until 2036-01-01; expected a day within 366 days"),
    ],
)
def test_acceptance_that_is_over_counts_again(changes: dict[str, object], because: str) -> None:
    found = accepted(leak(value=0.8), **changes)
    assert new_lines(found) == ["SFG-LINK-SERVER"]
    assert found.acceptances[0].because == because
    assert '"suppressions"' not in as_sarif(found)


def test_acceptance_on_its_last_day_still_holds() -> None:
    assert new_lines(accepted(leak(value=0.8), until="2026-11-18")) == []


def test_acceptance_of_another_run_does_not_count() -> None:
    assert new_lines(accepted(leak(value=0.8), run="other")) == ["SFG-LINK-SERVER"]
    assert new_lines(accepted(leak(value=0.8), run="made")) == []


def test_broken_promise_cannot_be_accepted() -> None:
    found = accepted(promise(Verdict.VIOLATION), code="SFG-PROMISE-INTEGRITY")
    assert new_lines(found) == ["SFG-PROMISE-INTEGRITY"]


def test_unread_field_can_be_accepted() -> None:
    unread = told("unread_field", "m.Update.sizes")
    assert new_lines(answer(unread)) == ["SFG-UNREAD-M-UPDATE-SIZES"]
    assert new_lines(accepted(unread, code="SFG-UNREAD-M-UPDATE-SIZES")) == []


def test_acceptance_of_nothing_is_told() -> None:
    (stale,) = accepted(leak("quiet", verdict=Verdict.NOT_DETECTED)).acceptances
    assert stale.because == "nothing to accept: take it out"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found None; expected code, at_most, owner, reason and until"),
        ("accepted: [{code: SFG-A}]", "accepted.0.at_most: found"),
        ("accepted: [{code: links, at_most: ALL}]", "accepted.0.code: found 'links'"),
        ("accepted: 3", "accepted: found 3"),
        ("- 1", "expected code"),
    ],
)
def test_read_accepted_of_a_bad_file_names_the_key(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "accepted.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as told_error:
        read_accepted(path)
    assert message in str(told_error.value)


def test_read_accepted_twice_the_same_code_is_refused(tmp_path: Path) -> None:
    line = "{" + ", ".join(f"{name}: {value}" for name, value in ENTRY.items()) + "}"
    path = tmp_path / "accepted.yaml"
    path.write_text(f"accepted:\n- {line}\n- {line}\n")
    with pytest.raises(ConfigError, match="found SFG-LINK-SERVER twice"):
        read_accepted(path)
    path.write_text(f"accepted:\n- {line}\n")
    assert read_accepted(path)[0].owner == "Jane Doe"
