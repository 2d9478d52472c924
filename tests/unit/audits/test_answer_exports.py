"""The same table for people and programs: terminal, JSON, Markdown, SARIF and JUnit."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from audits.answer.exports import as_json, as_markdown
from audits.answer.junit import as_junit
from audits.answer.model import Answer, Level, Quality
from audits.answer.sarif import as_sarif
from audits.answer.sentences import figures_text, rate_text
from audits.answer.terminal import WIDTH, answer_lines, spans_text
from audits.findings.record import Verdict
from tests.unit.audits.made_answers import FACTS, answer, leak, promise, told, unmet

HOSTILE = "\x1b[31m<script>alert(1)</script>|`[x](y)`"
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
RESULT = {
    "type": "object",
    "required": ["ruleId", "message", "level"],
    "properties": {
        "ruleId": {"type": "string"},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": TEXT,
        "partialFingerprints": {
            "type": "object",
            "additionalProperties": {"type": "string"},
        },
        "locations": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["physicalLocation"],
                "properties": {
                    "physicalLocation": {
                        "type": "object",
                        "required": ["artifactLocation"],
                        "additionalProperties": False,
                        "properties": {
                            "artifactLocation": {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {"uri": {"type": "string", "pattern": r"^[^ ]+$"}},
                            }
                        },
                    }
                },
            },
        },
        "suppressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind"],
                "additionalProperties": False,
                "properties": {
                    "kind": {"enum": ["inSource", "external"]},
                    "status": {"enum": ["accepted", "underReview", "rejected"]},
                    "justification": {"type": "string"},
                },
            },
        },
        "properties": {"type": "object"},
    },
    "additionalProperties": False,
}
RULE = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "shortDescription": TEXT,
    },
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "additionalProperties": False,
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": RULE,
                                    },
                                },
                            }
                        },
                    },
                    "results": {"type": "array", "items": RESULT},
                    "properties": {"type": "object"},
                },
            },
        },
    },
}
"""The part of the SARIF 2.1.0 schema that covers all that is written here."""


@pytest.fixture
def full() -> Answer:
    return answer(
        leak("links", because=HOSTILE),
        leak("labels", "LABEL-SERVER", verdict=Verdict.INCONCLUSIVE, value=0.6),
        leak("small", "RECORD-SERVER", verdict=Verdict.TRACE, value=0.53),
        leak("quiet", "MEMBER-CLIENT", verdict=Verdict.NOT_DETECTED, value=0.5),
        unmet("later", "SENSITIVE-SERVER", "not_asked"),
        unmet("gone", "IDENTITY-SERVER"),
        promise(Verdict.VIOLATION, "books"),
        promise(Verdict.NOT_DETECTED),
        told("unread_field", f"m.Update.{HOSTILE}"),
        told("untaken_place", "-", adversary="wire"),
    )


def sarif(found: Answer) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(as_sarif(found))
    jsonschema.validate(tree, SARIF)
    return tree


def test_sarif_has_a_rule_and_a_level_for_every_line(full: Answer) -> None:
    (run,) = sarif(full)["runs"]
    levels = {result["ruleId"]: result["level"] for result in run["results"]}
    assert levels["SFG-LINK-SERVER"] == "error"
    assert levels["SFG-LABEL-SERVER"] == "warning"
    assert levels["SFG-RECORD-SERVER"] == "note"
    assert levels["SFG-PROMISE-BOOKS"] == "error"
    assert "SFG-MEMBER-CLIENT" not in levels
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(levels)
    (link,) = [one for one in run["results"] if one["ruleId"] == "SFG-LINK-SERVER"]
    assert link["properties"]["value"] == 0.97


def test_sarif_of_a_folder_with_spaces_has_a_valid_uri() -> None:
    facts = FACTS.model_copy(update={"folder": "my runs/a b"})
    (run,) = sarif(answer(leak(), facts=facts))["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my%20runs/a%20b/audit/findings.json"


def test_junit_counts_what_it_holds(full: Answer) -> None:
    root = ElementTree.fromstring(as_junit(full))
    (suite,) = root
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases["SFG-LINK-SERVER"] == ["failure"]
    assert cases["SFG-LABEL-SERVER"] == ["error"]
    assert cases["SFG-MEMBER-CLIENT"] == []
    assert cases["SFG-IDENTITY-SERVER"] == ["skipped"]
    assert cases["SFG-PROMISE-INTEGRITY"] == []
    counted = [sum(tags == [tag] for tags in cases.values()) for tag in ("failure", "error")]
    assert [int(suite.get(name, "")) for name in ("failures", "errors")] == counted
    assert int(suite.get("tests", "")) == len(cases)


def test_json_of_an_answer_reads_back_as_it_was(full: Answer) -> None:
    assert Answer.model_validate_json(as_json(full)) == full


def test_markdown_shows_the_rows_of_the_terminal(full: Answer) -> None:
    text = as_markdown(full)
    assert "| Who is connected to whom | ALL \\[1\\] | no test | no test |" in text
    assert "<script>" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("whole", [False, True])
def test_terminal_keeps_to_its_width_and_lets_nothing_steer(full: Answer, whole: bool) -> None:
    lines = [line.plain for line in answer_lines(full, whole)]
    assert max(map(len, lines)) <= WIDTH
    assert not any("\x1b" in line for line in lines)


def test_terminal_counts_what_does_not_apply_and_lists_it_with_all(full: Answer) -> None:
    short = "\n".join(line.plain for line in answer_lines(full))
    assert "1 does not apply (--all)" in short
    assert "gone: not run" not in short
    assert "Which listed record" not in short
    whole = "\n".join(line.plain for line in answer_lines(full, whole=True))
    assert "gone: not run" in whole
    assert "Which listed record" in whole


def test_terminal_never_folds_a_failure_or_an_unread_field() -> None:
    failed = leak("odd", verdict=Verdict.INCONCLUSIVE, failed=True, because="it failed: ValueError")
    text = "\n".join(
        line.plain for line in answer_lines(answer(failed, told("unread_field", "m.Up.sizes")))
    )
    assert "odd-server failed: ValueError" in text
    assert "1 field no attack reads: Up sizes" in text


def test_terminal_says_first_that_a_model_is_useless() -> None:
    quality = Quality(score="accuracy", value=0.5, one_class=0.5)
    facts = FACTS.model_copy(update={"quality": quality})
    lines = [line.plain for line in answer_lines(answer(leak(), facts=facts))]
    assert lines[1].startswith("This model is no better than always naming one class.")


def test_rate_text_has_no_more_than_its_digits_say() -> None:
    found = [rate_text(value) for value in (0.57, 0.998, 1.0, 0.9997, 0.0, -0.1, 0.9951)]
    assert found == [".57", ".998", "1.0", "1.0", ".00", "-.10", ".995"]
    assert figures_text(0.5, 0.94) == "guessing .50 -> .94"


def test_spans_text_joins_runs() -> None:
    assert spans_text((1, 2, 3, 6, 8, 9)) == "1-3,6,8-9"


def test_levels_are_ordered_from_the_worst() -> None:
    assert [level for level in Level if level.is_leak] == list(Level)[:5]
