"""No outcome is milder than its findings, and nothing unknown is told as safe."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
import typer

from audits.answer.accepted import Entry, apply_accepted, new_lines
from audits.answer.build import make_answer
from audits.answer.junit import as_junit
from audits.answer.lines import told_lines
from audits.answer.model import Answer, Level, Outcome, Quality, Twin
from audits.answer.sentences import finding_sentence, picked_text
from audits.answer.terminal import answer_lines
from audits.findings.record import Finding, Verdict
from audits.plan import Plan
from audits.run import Audit
from audits.twins import find_remedy
from securefg.cli.audit import Gate, _end_by_gate, failures_of
from securefg.cli.common import PART_FAILED
from securefg.foundation.errors import ConfigError
from securefg.reports.first_screen import _remedy_line
from tests.unit.audits.made_answers import FACTS, answer, leak, promise, told, unmet

SILENT: dict[str, Any] = {"verdict": Verdict.NOT_DETECTED, "value": 0.51}
WEAK: dict[str, Any] = {"verdict": Verdict.INCONCLUSIVE, "value": 0.6}
TRACE: dict[str, Any] = {"verdict": Verdict.TRACE, "value": 0.53}
NOWHERE: dict[str, Any] = {"cells": (), "adversary": "-"}
TODAY = date(2026, 11, 18)


def screen(found: Answer) -> str:
    return "\n".join(line.plain for line in answer_lines(found))


def entry(code: str, at_most: str, run: str | None = None) -> Entry:
    told_by = {"owner": "Jane Doe", "reason": "the links are public anyway", "until": "2027-01-31"}
    return Entry.model_validate({"code": code, "at_most": at_most, "run": run, **told_by})


@pytest.mark.parametrize("mild", [SILENT, TRACE])
def test_outcome_with_a_cell_that_nobody_tried_is_not_enough_measured(mild: dict[str, Any]) -> None:
    found = answer(leak("a", **mild), unmet("later", "LABEL-SERVER", "not_asked"))
    assert found.outcome is Outcome.NOT_ENOUGH_MEASURED
    assert "SFG-LABEL-SERVER" in new_lines(found)


@pytest.mark.parametrize("unasked", ["", "not_asked"])
def test_open_finding_that_no_cell_shows_fails_the_gate_for_new_lines(unasked: str) -> None:
    lost = unmet("later", "LINK-MOON", unasked)
    found = answer(leak("a", **SILENT), lost)
    assert found.outcome is Outcome.NOT_ENOUGH_MEASURED
    assert any("LATER" in code for code in new_lines(found))


FLOORS = {
    "violation with cells": (leak(verdict=Verdict.VIOLATION), Outcome.BROKEN_PROMISE),
    "violation, not measured": (
        leak(verdict=Verdict.VIOLATION, measured=False, **NOWHERE),
        Outcome.BROKEN_PROMISE,
    ),
    "leak, not measured": (leak("x", measured=False), Outcome.NOT_PRIVATE),
    "leak, unknown place": (leak("x", "LINK-MOON"), Outcome.NOT_PRIVATE),
    "leak by nobody": (leak("x", **NOWHERE), Outcome.NOT_PRIVATE),
    "leak from certainty": (leak("x", prior=1.0, value=1.0), Outcome.NOT_PRIVATE),
    "leak, said not to apply": (leak("x", unmet="does_not_apply"), Outcome.NOT_PRIVATE),
    "weak by nobody": (leak("x", **WEAK, **NOWHERE), Outcome.NOT_ENOUGH_MEASURED),
    "weak, unknown place": (leak("x", "LINK-MOON", **WEAK), Outcome.NOT_ENOUGH_MEASURED),
    "weak, not measured": (leak("x", **WEAK, measured=False), Outcome.NOT_ENOUGH_MEASURED),
    "failed, silent": (leak("x", **SILENT, failed=True), Outcome.NOT_ENOUGH_MEASURED),
    "unfinished": (told("unfinished_audit", "-", failed=True), Outcome.NOT_ENOUGH_MEASURED),
    "trace, unknown place": (leak("x", "LINK-MOON", **TRACE), Outcome.LEAKS_A_LITTLE),
}


@pytest.mark.parametrize("name", FLOORS)
def test_outcome_is_never_milder_than_a_finding(name: str) -> None:
    finding, outcome = FLOORS[name]
    given_answer = answer(leak("quiet", "MEMBER-CLIENT", **SILENT), finding)
    assert given_answer.outcome is outcome
    assert given_answer.sentence
    if outcome in (Outcome.BROKEN_PROMISE, Outcome.NOT_PRIVATE):
        assert new_lines(given_answer)
        assert "leak" in {line.kind for line in told_lines(given_answer)}


def test_place_that_nobody_took_holds_no_outcome_back() -> None:
    found = answer(leak(**SILENT), told("untaken_place", "-", adversary="wire"))
    assert found.outcome is Outcome.NOTHING_FOUND


def test_small_leak_is_not_told_as_too_little_to_matter() -> None:
    small = leak("slight", prior=0.04, value=0.1)
    given_answer = answer(small)
    (line,) = told_lines(given_answer)
    assert (given_answer.cells[0].level, line.kind) == (Level.TRACE, "leak")
    assert "enough to count as a leak" in line.text
    assert "too little" not in line.text
    assert new_lines(given_answer) == ["SFG-LINK-SERVER"]
    assert given_answer.sentence == "1 cell leaks little, and enough to count as a leak."


def test_unsure_cell_counts_as_not_known() -> None:
    given_answer = answer(leak("small", **TRACE), leak("weak", **WEAK))
    assert [line.kind for line in told_lines(given_answer)] == ["unknown"]
    assert new_lines(given_answer) == ["SFG-LINK-SERVER"]
    assert 'errors="1"' in as_junit(given_answer)
    assert given_answer.unknown == "Not known: 1 cell of the table and 2 cells without any test."
    assert "1 cell with a ?" in screen(given_answer)


def test_headline_keeps_the_condition_of_a_leak() -> None:
    bound = "that two are connected, if all else is known"
    given_answer = answer(
        leak("free", "LINK-CLIENT"),
        leak("bound", "LINK-OUTSIDER", exposes=bound),
        leak("labels", "LABEL-OUTSIDER"),
    )
    clauses = given_answer.sentence.split("; ")
    assert clauses[0] == "Another client learns who is connected to whom"
    assert "if" not in clauses[1]
    assert clauses[2] == (
        "anyone who gets the model learns who is connected to whom, if all else is known."
    )


def test_attacks_that_nobody_asked_for_have_codes_of_their_own() -> None:
    one = answer(told("not_asked", "links, labels by client", unmet="not_asked"))
    codes = {"SFG-NOT-ASKED-LINKS", "SFG-NOT-ASKED-LABELS-BY-CLIENT"}
    assert {gap.code for gap in one.gaps} == codes
    assert "not asked for: labels by client, links" in screen(one)


def test_other_lost_audit_has_another_code() -> None:
    lost = [told("missing_audit", "-", because=f"the findings of {k} are gone") for k in "ab"]
    first, both = (answer(*lost[:k]) for k in (1, 2))
    accepted = [entry(gap.code, "not known") for gap in first.gaps]
    assert new_lines(apply_accepted(first, accepted, TODAY)) == []
    assert len(new_lines(apply_accepted(both, accepted, TODAY))) == 1


@pytest.mark.parametrize(
    ("finding", "at_most", "is_new"),
    [
        (leak(**WEAK), "FEW", True),
        (leak(**WEAK), "ALL", True),
        (leak(**WEAK), "NOT TRIED", True),
        (leak(**WEAK), "not known", False),
        (unmet("later", "LINK-SERVER", "not_asked"), "NOT TRIED", False),
        (leak(value=0.8), "not known", True),
        (leak(prior=0.04, value=0.1), "not known", True),
        (leak(prior=0.04, value=0.1), "FEW", False),
    ],
)
def test_size_that_was_accepted_does_not_cover_what_is_not_known(
    finding: Finding, at_most: str, is_new: bool
) -> None:
    found = apply_accepted(answer(finding), [entry("SFG-LINK-SERVER", at_most)], TODAY)
    assert bool(new_lines(found)) is is_new


def test_acceptance_for_the_run_itself_wins_in_any_order() -> None:
    both = [entry("SFG-LINK-SERVER", "SOME", "made"), entry("SFG-LINK-SERVER", "ALL")]
    for entries in (both, both[::-1]):
        found = apply_accepted(answer(leak(value=0.8)), entries, TODAY)
        assert new_lines(found) == ["SFG-LINK-SERVER"]


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (told("unfinished_audit", "-", failed=True), "1 audit whose findings are not whole"),
        (promise(Verdict.INCONCLUSIVE), "1 promise that could not be checked"),
    ],
)
def test_unknown_names_lost_audits_and_unchecked_promises(finding: Finding, words: str) -> None:
    assert words in answer(leak(**SILENT), finding).unknown


def test_sentence_of_a_silent_attack_tells_its_terms() -> None:
    said = finding_sentence(leak(**SILENT, terms="--seed 7"), Level.NOTHING)
    assert "audited with --seed 7" in said


def test_client_that_the_run_lacks_is_refused() -> None:
    Plan(adversaries=("client:5", "server")).check_clients(6)
    with pytest.raises(ConfigError, match="found client:99; expected clients from 0 to 5"):
        Plan(adversaries=("client:99",)).check_clients(6)


def test_gate_with_a_stored_failure_says_that_a_part_failed() -> None:
    failed = leak("odd", **WEAK, failed=True)
    with pytest.raises(typer.Exit) as ended:
        _end_by_gate(
            answer(failed), Audit(findings=[failed], failed=failures_of([failed])), Gate.VIOLATION
        )
    assert ended.value.exit_code == PART_FAILED


def test_remedy_line_of_the_page_counts_what_is_not_known() -> None:
    levels = {"SFG-LINK-SERVER": Level.NOT_KNOWN, "SFG-LABEL-SERVER": Level.NOTHING}
    leaks = [leak(), leak("b", "LABEL-SERVER"), leak("c", "MEMBER-SERVER")]
    levels["SFG-MEMBER-SERVER"] = Level.SOME
    twin = Twin(rounds=20, quality=None, levels=levels)
    first, second, *_ = make_answer(leaks, FACTS, {"masks": twin}).remedies
    line = _remedy_line(first)
    assert line.tried == "tried: 1 of 3 stopped, 1 still leaks, 1 not known"
    assert _remedy_line(second).tried == "not tried on this run"


def test_remedy_without_a_name_is_refused() -> None:
    found = answer(leak(stopped_by="noise on the edges"))
    with pytest.raises(ConfigError, match="--try: found ''"):
        find_remedy(found, "")


def test_picked_text_without_false_alarms_says_so() -> None:
    details = {"picked": 3.0, "picked_of": 4.0, "picked_false_alarms": 0.0}
    assert picked_text(details) == "3 of 4 at no false alarm"


def test_codes_have_plain_letters_alone() -> None:
    found = answer(leak("ä", "größe-server"), told("unread_field", "m.Ü.名"))
    codes = [line.code for line in (*found.cells, *found.gaps)]
    assert all(re.fullmatch(r"SFG-[A-Z0-9-]+", code) for code in codes)
    assert found.outcome is Outcome.NOT_PRIVATE


def test_silent_attack_with_several_places_counts_once() -> None:
    found = answer(leak("a", **SILENT), leak("a", "LINK-CLIENT", **SILENT))
    assert (found.attacks_run, found.attacks_silent) == (1, 1)


@pytest.mark.parametrize(("score", "is_near"), [(0.51, True), (0.9, False)])
def test_twin_whose_model_is_near_one_class_is_told(score: float, is_near: bool) -> None:
    quality = Quality(score="accuracy", value=score, one_class=0.5)
    twin = Twin(rounds=20, quality=quality, levels={"SFG-LINK-SERVER": Level.NOTHING})
    found = " ".join(screen(make_answer([leak()], FACTS, {"masks": twin})).split())
    assert ("near one class 50%" in found) is is_near
