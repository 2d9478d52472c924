"""The answer as JUnit XML: a test case per cell, per promise and per gap of the audit."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from audits.answer.lines import Line, Told, acceptance_text, open_gaps, told_lines
from audits.answer.model import Answer, Cell, Level
from securefg.foundation.quoting import printable

STATES = {"leak": "failure", "unknown": "error", "trace": ""}
COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def as_junit(answer: Answer) -> str:
    """Return one test suite. An accepted line and a cell without an attack are skipped."""
    suite = ElementTree.Element("testsuite", name=printable(f"securefg {answer.run.name}"))
    told = {found.line.code: found for found in told_lines(answer)}
    lines: list[Line] = [*answer.cells, *answer.promises, *open_gaps(answer)]
    counts = Counter(_add_case(suite, line, told.get(line.code)) for line in lines)
    suite.set("tests", str(len(lines)))
    for state, name in COUNTED.items():
        suite.set(name, str(counts[state]))
    root = ElementTree.Element("testsuites", name=answer.outcome.value)
    root.append(suite)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _add_case(suite: ElementTree.Element, line: Line, told: Told | None) -> str:
    """Add one case, and return its state, which is empty if the case passed."""
    case = ElementTree.SubElement(suite, "testcase", classname="securefg.audit", name=line.code)
    state, title, text = _judge_line(line, told)
    if state:
        found = ElementTree.SubElement(case, state, message=printable(title))
        found.text = printable(text)
    elif text:
        ElementTree.SubElement(case, "system-out").text = printable(text)
    return state


def _judge_line(line: Line, described_line: Told | None) -> tuple[str, str, str]:
    if isinstance(line, Cell) and line.level in (Level.NO_VIEW, Level.NO_ATTACK):
        return "skipped", line.level.value, ""
    if described_line is None:
        return "", "", ""
    text = f"{described_line.text}{acceptance_text(line)}"
    if line.acceptance is not None and not line.acceptance.expired:
        return "skipped", f"accepted: {described_line.title}", text
    return STATES[described_line.kind], described_line.title, text
