"""A run's results in other forms: Markdown, JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from audits.findings.record import Finding
from securefg.foundation.files import write_atomically
from securefg.foundation.lock import owned
from securefg.foundation.quoting import printable
from securefg.reports.figures.charts import csv_text
from securefg.reports.headline import make_headline
from securefg.reports.page import build_report
from securefg.reports.results import Results, read_results
from securefg.reports.words import adversary_words, attack_words, signed, verdict_words
from securefg.runs.folder import RunFolder


def export_report(folder: RunFolder, kind: str) -> Path:
    """Write `report.<kind>` into the run's folder."""
    if kind == "html":
        return build_report(folder)
    path = folder.path / f"report.{kind}"
    with owned(folder.path):
        write_atomically(path, FORMATS[kind](read_results(folder)))
    return path


def as_markdown(results: Results) -> str:
    """Return the head of the page and the findings, to paste."""
    top = make_headline(results)
    parts = [
        f"# {_plain_markdown(top.title)}",
        _plain_markdown(f"{top.method} on {top.dataset}: {top.about}."),
    ]
    parts += [
        f"**{_plain_markdown(title)}.** {_plain_markdown(text)}" for title, text in top.notices
    ]
    scores = [("Test accuracy", top.accuracy, top.definition)]
    scores += [(tile.name, tile.value, tile.note) for tile in top.tiles]
    parts.append(_markdown_table(("", "", ""), scores))
    parts.append("## Privacy")
    for verdict in top.verdicts:
        fields = "".join(f"\n- {_plain_markdown(field)}" for field in verdict.fields)
        sentence = _plain_markdown(verdict.sentence)
        parts.append(
            f"**per {verdict.unit}: {_plain_markdown(verdict.symbol)}** {sentence}{fields}"
        )
    parts.append("## Findings")
    parts.append(_findings_table(results.findings))
    return "\n\n".join(parts) + "\n"


def _findings_table(findings: Sequence[Finding] | None) -> str:
    if findings is None:
        return "Not audited."
    rows = [
        (
            attack_words(one.attack),
            adversary_words(one.adversary),
            verdict_words(one),
            "" if one.gain is None else signed(one.gain.value),
            one.words,
        )
        for one in findings
    ]
    return _markdown_table(("attack", "adversary", "verdict", "gain", "because"), rows)


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(_plain_markdown, line)) + " |" for line in lines)


_MEANT = str.maketrans({c: f"\\{c}" for c in "\\`*_[]|"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def _plain_markdown(text: str) -> str:
    """Return text that Markdown shows as it is: no markup, no HTML, one line."""
    return printable(" ".join(text.split())).translate(_MEANT)


def as_json(results: Results) -> str:
    """Return summary, config, partition, rounds and findings as one object."""
    findings = results.findings
    tree: dict[str, Any] = {
        "summary": results.summary.model_dump(mode="json"),
        "config": results.config.model_dump(mode="json"),
        "partition": results.partition.model_dump(mode="json", exclude={"clients", "overlap"}),
        "rounds": [vars(one) for one in results.rounds],
        "findings": None if findings is None else [f.model_dump(mode="json") for f in findings],
    }
    return json.dumps(tree, indent=2, allow_nan=False) + "\n"


def as_csv(results: Results) -> str:
    """Return the long form, one number a line: `part` is result, epsilon, round or finding."""
    return csv_text(("part", "name", "value", "low", "high", "note"), _number_rows(results))


def _number_rows(results: Results) -> Iterator[tuple[object, ...]]:
    summary = results.summary
    for name in ("test_accuracy", "val_accuracy", "rounds", "best_round", "dropped", "seconds"):
        yield "result", name, getattr(summary, name), None, None, ""
    for score, reached in (summary.test_scores.figures() if summary.test_scores else {}).items():
        yield "result", f"test_{score}", reached, None, None, ""
    yield "result", "bytes_up", summary.bytes.up.total, None, None, ""
    yield "result", "bytes_down", summary.bytes.down.total, None, None, ""
    for unit, claim in summary.epsilon.items():
        value = "inf" if claim.epsilon is None else claim.epsilon
        yield "epsilon", unit, value, None, None, f"delta {claim.delta:g}; {claim.about(unit)}"
    for one in (one for one in results.rounds if not one.aborted):
        for name in ("train_loss", "val_loss", "val_accuracy", "test_accuracy"):
            yield "round", name, getattr(one, name), None, None, one.round
    for found in results.findings or ():
        gain = found.gain
        numbers = (None,) * 3 if gain is None else (gain.value, gain.low, gain.high)
        yield "finding", f"{found.attack} {found.adversary}", *numbers, found.verdict


FORMATS: dict[str, Callable[[Results], str]] = {
    "md": as_markdown,
    "json": as_json,
    "csv": as_csv,
}
