"""The answer as JSON and as Markdown, and the forms that `--format` offers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from audits.answer.junit import as_junit
from audits.answer.lines import Line, acceptance_text, open_gaps
from audits.answer.model import Answer
from audits.answer.sarif import as_sarif
from audits.answer.terminal import SCALE, spans_text
from securefg.foundation.quoting import printable

MARKS = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~!"})


def as_json(answer: Answer) -> str:
    """Return the whole answer as one object."""
    return json.dumps(answer.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"


def as_markdown(answer: Answer) -> str:
    """Return the screen of the answer as Markdown."""
    heads = ["What can be learnt", *(column.title for column in answer.columns)]
    rows = [
        [row.title, *(f"{c.text} [{c.number}]" if c.number else c.text for c in row.cells)]
        for row in answer.rows
        if row.has_view
    ]
    notes = [
        f"- [{cell.number}] {_line_text(cell, cell.best.sentence)}"
        for cell in answer.cells
        if cell.number and cell.best
    ]
    parts = [
        f"## {_plain_text(answer.run.name)}: {answer.outcome.value}",
        _plain_text(answer.sentence),
        _md_table(heads, rows),
        _plain_text(SCALE),
        "\n".join(notes),
        f"**Not known.** {_plain_text(answer.unknown)}" if answer.unknown else "",
        "\n".join(f"- {_line_text(gap, gap.because)}" for gap in open_gaps(answer)),
        "\n".join(f"- {_line_text(p, f'{p.state}: {p.because}')}" for p in answer.promises),
        "\n".join(_md_remedies(answer)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _line_text(line: Line, text: str) -> str:
    return f"`{line.code}` {_plain_text(text + acceptance_text(line))}"


def _md_remedies(answer: Answer) -> Iterator[str]:
    for remedy in answer.remedies:
        setting = f" `{remedy.setting}`" if remedy.setting else " (no setting)"
        yield f"- [{spans_text(remedy.numbers)}] {_plain_text(remedy.words)}{setting}"


def _md_table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([_plain_text(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain_text(text: str) -> str:
    return printable(" ".join(text.split())).translate(MARKS)


FORMATS: dict[str, Callable[[Answer], str]] = {
    "json": as_json,
    "md": as_markdown,
    "sarif": as_sarif,
    "junit": as_junit,
}
