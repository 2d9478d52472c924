"""Who learns what: the size of a cell, the four kinds of not knowing, and the verdict."""

from __future__ import annotations

import random

import pytest

from audits.answer.build import make_answer
from audits.answer.levels import level_of, share_of
from audits.answer.model import Answer, Cell, Level, Outcome
from audits.findings.record import Finding, Verdict
from tests.unit.audits.made_answers import FACTS, answer, figure, leak, promise, told, unmet

SILENT = {"verdict": Verdict.NOT_DETECTED, "value": 0.51}
WEAK = {"verdict": Verdict.INCONCLUSIVE, "value": 0.6}
TRACE = {"verdict": Verdict.TRACE, "value": 0.53}


def cell(found: Answer, code: str) -> Cell:
    return next(one for one in found.cells if one.code == f"SFG-{code}")


@pytest.mark.parametrize(
    ("prior", "value", "level"),
    [
        (0.5, 0.95, Level.ALL),
        (0.5, 0.949, Level.MOST),
        (0.5, 0.75, Level.MOST),
        (0.5, 0.749, Level.SOME),
        (0.8, 0.98, Level.ALL),
        (0.5, 0.55, Level.SOME),
        (0.04, 0.07, Level.TRACE),
        (1.0, 1.0, Level.TRACE),
    ],
)
def test_level_of_a_leak_is_its_share_of_what_guessing_leaves(
    prior: float, value: float, level: Level
) -> None:
    assert level_of(leak(prior=prior, value=value)) is level


def test_level_of_a_small_mean_with_exposed_targets_is_few() -> None:
    exposed = {"tail_chance": 0.0001, "top_ten": 1.0, "top_ten_prior": 0.9}
    assert level_of(leak(value=0.52, details=exposed)) is Level.FEW
    slight = {"tail_chance": 0.0001, "top_ten": 0.23, "top_ten_prior": 0.18}
    assert level_of(leak(value=0.52, details=slight)) is Level.TRACE
    assert level_of(leak(value=0.52, details={"most_exposed": 0.2})) is Level.FEW


def test_level_of_a_leak_without_prior_is_exact() -> None:
    found = leak().model_copy(update={"prior": None, "gain": None})
    assert share_of(found) is None
    assert level_of(found) is Level.EXACT
    assert answer(found).outcome is Outcome.NOT_PRIVATE


def test_four_kinds_of_not_knowing_stay_apart() -> None:
    given_answer = answer(
        leak("weak", "LABEL-SERVER", **WEAK),
        unmet("later", "LABEL-CLIENT", "not_asked"),
        unmet("blind", "LABEL-OUTSIDER"),
        leak("links", "LINK-SERVER"),
        told("unread_field", "fedgl.Update.num_nodes"),
    )
    assert cell(given_answer, "LABEL-SERVER").level is Level.NOT_KNOWN
    assert cell(given_answer, "LABEL-SERVER").lack == "may gain +0.12 (100 targets)"
    assert cell(given_answer, "LABEL-CLIENT").level is Level.NOT_TRIED
    assert cell(given_answer, "LABEL-OUTSIDER").level is Level.NO_VIEW
    assert cell(given_answer, "LINK-OUTSIDER").level is Level.NO_ATTACK
    assert [gap.name for gap in given_answer.gaps if gap.kind == "unread"] == [
        "fedgl.Update.num_nodes"
    ]


def test_cell_with_a_weak_attack_beside_silence_is_not_known() -> None:
    found = answer(leak("strong", **SILENT), leak("weak", **WEAK))
    assert cell(found, "LINK-SERVER").level is Level.NOT_KNOWN


def test_cell_with_a_trace_beside_a_weak_attack_is_unsure() -> None:
    found = cell(answer(leak("small", **TRACE), leak("weak", **WEAK)), "LINK-SERVER")
    assert (found.level, found.unsure, found.text) == (Level.TRACE, True, "trace?")


def test_cell_where_nobody_asked_beside_silence_is_not_tried() -> None:
    found = answer(leak("strong", **SILENT), unmet("later", "LINK-SERVER", "not_asked"))
    assert cell(found, "LINK-SERVER").level is Level.NOT_TRIED


def test_best_attack_of_a_level_needs_no_condition() -> None:
    bound = leak("known", value=1.0, exposes="that two are connected, if all else is known")
    found = cell(answer(bound, leak("free", value=0.96)), "LINK-SERVER")
    assert found.best is not None
    assert (found.best.attack, found.text) == ("free", "ALL")
    assert cell(answer(bound), "LINK-SERVER").text == "ALL*"


OUTCOMES = {
    "violation": ([promise(Verdict.VIOLATION), leak()], Outcome.BROKEN_PROMISE),
    "leak": ([promise(Verdict.NOT_DETECTED), leak()], Outcome.NOT_PRIVATE),
    "weak": ([leak(**WEAK)], Outcome.NOT_ENOUGH_MEASURED),
    "unread": ([leak(**SILENT), told("unread_field", "a.B.c")], Outcome.NOT_ENOUGH_MEASURED),
    "failed": ([leak(**SILENT), leak("x", **WEAK, failed=True)], Outcome.NOT_ENOUGH_MEASURED),
    "lost": ([leak(**SILENT), told("missing_audit", "-")], Outcome.NOT_ENOUGH_MEASURED),
    "unchecked": (
        [leak(**SILENT), promise(Verdict.INCONCLUSIVE)],
        Outcome.NOT_ENOUGH_MEASURED,
    ),
    "trace": ([leak(**TRACE), leak("y", **SILENT)], Outcome.LEAKS_A_LITTLE),
    "silent": ([leak(**SILENT), promise(Verdict.NOT_DETECTED)], Outcome.NOTHING_FOUND),
    "nothing mounted": ([unmet("a", "LINK-SERVER")], Outcome.NOT_ENOUGH_MEASURED),
    "nothing at all": ([], Outcome.NOT_ENOUGH_MEASURED),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome_of_a_run_is_its_worst_line(name: str) -> None:
    findings, outcome = OUTCOMES[name]
    assert answer(*findings).outcome is outcome


def test_answer_of_a_run_without_audit_says_so() -> None:
    found = make_answer(None, FACTS)
    assert found.outcome is Outcome.NOT_ENOUGH_MEASURED
    assert "was not audited" in found.sentence


def test_answer_in_any_order_of_findings_is_the_same() -> None:
    findings = [
        *(leak(f"a{k}", code, value=0.6 + k / 10) for k in range(4) for code in CODES),
        *(promise(Verdict.NOT_DETECTED, name) for name in ("books", "integrity")),
        *(told("unread_field", f"m.Update.f{k}") for k in range(3)),
        unmet("gone", "RECORD-CLIENT"),
    ]
    first = answer(*findings)
    for seed in range(5):
        shuffled = random.Random(seed).sample(findings, len(findings))
        assert answer(*shuffled) == first


CODES = ("LINK-SERVER", "LINK-CLIENT", "MEMBER-OUTSIDER")


def test_finding_of_an_older_version_has_a_row_of_its_own() -> None:
    older = leak("odd_one").model_copy(update={"cells": (), "adversary": "client:1,5"})
    (row,) = answer(older).rows
    assert (row.title, row.cells[1].level) == ("Odd one", Level.ALL)


def test_secrets_from_outside_do_not_share_a_code() -> None:
    found = answer(leak("one", "ONE-SERVER"), leak("two", "TWO-SERVER"))
    assert [row.code for row in found.rows] == ["ONE", "TWO"]
    assert len({one.code for one in found.cells}) == len(found.cells)


def test_wire_has_a_column_only_if_an_attack_takes_its_place() -> None:
    assert [column.kind for column in answer(leak()).columns] == ["server", "client", "outsider"]
    assert answer(leak(cell="LINK-WIRE")).columns[-1].kind == "wire"


def test_dump_of_an_older_finding_is_what_it_was() -> None:
    older = leak().model_copy(
        update={"cells": (), "exposes": "", "stopped_by": "", "value": figure(0.9)}
    )
    kept = older.model_dump(mode="json")
    assert not {"cells", "exposes", "stopped_by", "unmet"} & set(kept)
    assert Finding.model_validate(kept) == older
    assert "cells" in leak().model_dump(mode="json")
