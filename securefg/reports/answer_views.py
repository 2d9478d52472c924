"""The table of who learns what as HTML and as rows of a frame, for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

from audits.answer.model import Answer, Cell, Evidence
from audits.answer.sentences import attack_words, figures_text


def table_html(answer: Answer) -> str:
    """Return the table as HTML, with the verdict above it. Every text is escaped."""
    heads = "".join(f"<th>{escape(column.title)}</th>" for column in answer.columns)
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(row.title)}</th>"
        + "".join(f"<td>{_cell_html(cell)}</td>" for cell in row.cells)
        + "</tr>"
        for row in answer.rows
        if row.has_view
    )
    head = f"<p><b>{escape(answer.outcome.value)}</b> {escape(answer.sentence)}</p>"
    table = f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f"{head}{table}<p>{escape(answer.unknown)}</p>"


def _cell_html(cell: Cell) -> str:
    best = cell.best
    text = escape(cell.text)
    beside = f" title='{escape(best.sentence, quote=True)}'" if best else ""
    strong = f"<b{beside}>{text}</b>" if cell.level.is_leak else f"<span{beside}>{text}</span>"
    notes = [cell.lack, _best_words(best) if best else ""]
    return strong + "".join(f"<br><small>{escape(note)}</small>" for note in notes if note)


def _best_words(best: Evidence) -> str:
    """Return the attack of a cell and, where it has a prior, its step from guessing."""
    name = attack_words(best.attack)
    if best.prior is None or best.value is None:
        return name
    return f"{name}: {figures_text(best.prior.value, best.value.value)}"


def table_rows(answer: Answer) -> list[dict[str, Any]]:
    """Return one row per cell: the secret, the adversary, the level, and its best attack."""
    return [
        _frame_row(row.title, column.title, cell)
        for row in answer.rows
        if row.has_view
        for column, cell in zip(answer.columns, row.cells, strict=True)
    ]


def _frame_row(secret: str, adversary: str, cell: Cell) -> dict[str, Any]:
    best = cell.best
    figures = {
        name: getattr(best, name).value if best and getattr(best, name) else None
        for name in ("prior", "value", "gain")
    }
    return {
        "secret": secret,
        "adversary": adversary,
        "level": cell.text,
        "attack": best.attack if best else "",
        **figures,
        "share": best.share if best else None,
        "code": cell.code,
    }


def short_text(answer: Answer) -> str:
    """Return the verdict, the sentence and the leaks in a few lines."""
    counts: dict[str, int] = {}
    for cell in answer.leaks:
        counts[cell.level.value] = counts.get(cell.level.value, 0) + 1
    leaks = ", ".join(f"{count} {word}" for word, count in counts.items()) or "none"
    return "\n".join(
        (
            f"{answer.outcome.value}: {answer.sentence}",
            f"leaks: {leaks} ({answer.attacks_run} attacks ran, "
            f"{answer.attacks_not_applicable} do not apply)",
            answer.unknown or "Nothing that was asked is left open.",
        )
    )
