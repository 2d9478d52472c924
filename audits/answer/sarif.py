"""The answer as SARIF 2.1.0: a rule per code, and a result per line that counts."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from audits.answer.lines import Line, Told, told_lines
from audits.answer.model import Answer, Cell
from securefg.foundation.versions import list_versions

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"leak": "error", "unknown": "warning", "trace": "note"}


def as_sarif(answer: Answer) -> str:
    """Return the lines of the answer that are not silent, as one run of SARIF."""
    lines = list(told_lines(answer))
    titles = {told.line.code: told.title for told in lines}
    rules = [
        {"id": code, "name": _rule_name(code), "shortDescription": {"text": title}}
        for code, title in titles.items()
    ]
    driver = {"name": "securefg", "version": list_versions()["securefg"], "rules": rules}
    run = {
        "tool": {"driver": driver},
        "results": [_make_result(answer, told) for told in lines],
        "properties": {"outcome": answer.outcome.value, "sentence": answer.sentence},
    }
    tree = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(tree, indent=2, allow_nan=False) + "\n"


def _rule_name(code: str) -> str:
    return "".join(part.capitalize() for part in code.split("-"))


def _make_result(answer: Answer, described_line: Told) -> dict[str, Any]:
    uri = quote(f"{answer.run.folder or '.'}/audit/findings.json")
    code = described_line.line.code
    result: dict[str, Any] = {
        "ruleId": code,
        "level": LEVELS[described_line.kind],
        "message": {"text": described_line.text},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}}}],
        "partialFingerprints": {"code/v1": f"{answer.run.name}:{code}"},
        "properties": _cell_figures(described_line.line),
    }
    found = described_line.line.acceptance
    if found is not None and not found.expired:
        why = f"{found.owner}, until {found.until}: {found.reason}"
        suppression = {"kind": "external", "status": "accepted", "justification": why}
        result["suppressions"] = [suppression]
    return result


def _cell_figures(line: Line) -> dict[str, Any]:
    """Return the level of a cell and the figures of its best attack."""
    if not isinstance(line, Cell):
        return {}
    cell_figures: dict[str, Any] = {"level": line.level.value}
    if line.best is not None:
        best = line.best
        cell_figures |= {"attack": best.attack, "adversary": best.adversary, "metric": best.metric}
        figures = {"prior": best.prior, "value": best.value, "gain": best.gain}
        cell_figures |= {name: one.value for name, one in figures.items() if one is not None}
    return cell_figures
