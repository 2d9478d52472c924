"""The first screen of a comparison: what a change did to who learns what, promise and score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from audits.answer.model import Answer, Cell, Level
from securefg.foundation.units import epsilon_text, percent, plural
from securefg.reports.results import Results
from securefg.reports.words import capitalise_words
from securefg.runs.scores import monitored_name, no_skill, score_of

Named = tuple[str, tuple[str, ...]]
MOST_SETTINGS = 8
SEEN_BY_NOBODY = (Level.NO_VIEW, Level.NO_ATTACK)


@dataclass(frozen=True)
class ChangedCell:
    """A secret before one adversary, in every run.

    span   rows of the same secret, on the first of them; else 0
    notes  compare with the first run
    """

    secret: str
    adversary: str
    span: int
    cells: tuple[Cell | None, ...]
    notes: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Return whether the runs differ in it."""
        return len({cell.text if cell else "" for cell in self.cells}) > 1


@dataclass(frozen=True)
class Changes:
    """A list of what changed.

    sentences  one per run after the first, compared with the first
    figures    (name, value per run): score, one class, promise
    settings   (name, value per run): what was set otherwise; a group of settings is one line
    """

    sentences: tuple[str, ...]
    figures: tuple[Named, ...]
    settings: tuple[Named, ...]
    cells: tuple[ChangedCell, ...]


def find_changes(
    names: Sequence[str],
    runs: Sequence[Results],
    answers: Sequence[Answer],
    settings: Sequence[Named],
) -> Changes:
    """Compare every run with the first. `settings` are those that differ."""
    cells = _changed_cells(answers)
    pairs = [(cell.cells[0], cell.cells) for cell in cells]
    sentences = [
        _change_sentence(
            name, names[0], [(first, every[k]) for first, every in pairs], _both_audited(runs, k)
        )
        for k, name in enumerate(names)
        if k
    ]
    figures = (
        ("Verdict", tuple(answer.outcome.value for answer in answers)),
        *_score_figures(runs),
        ("Not known", tuple(map(_unknown_words, answers))),
    )
    return Changes(tuple(sentences), figures, _shorten_settings(settings), cells)


def _unknown_words(answer: Answer) -> str:
    return answer.unknown.removeprefix("Not known: ") or "nothing that was asked"


def _shorten_settings(settings: Sequence[Named]) -> tuple[Named, ...]:
    """Return the settings without names, and a group that only some runs have as one line."""
    names = {name for name, _ in settings}
    short = []
    for name, values in settings:
        if name == "name" or any(name.startswith(f"{other}.") for other in names):
            continue
        has_group = any(other.startswith(f"{name}.") for other in names)
        short.append((name, tuple(map(_set_or_not, values)) if has_group else values))
    return tuple(short[:MOST_SETTINGS])


def _set_or_not(value: str) -> str:
    return "none" if value == "None" else "set"


def _both_audited(runs: Sequence[Results], k: int) -> bool:
    return runs[0].findings is not None and runs[k].findings is not None


def _changed_cells(answers: Sequence[Answer]) -> tuple[ChangedCell, ...]:
    """Return the cells of the table in which any run gives somebody a view."""
    place_by_code: dict[str, tuple[str, str]] = {}
    for answer in answers:
        columns = {column.kind: column.title for column in answer.columns}
        for row in answer.rows:
            place_by_code |= {cell.code: (row.title, columns[cell.column]) for cell in row.cells}
    by_code = [{cell.code: cell for cell in answer.cells} for answer in answers]
    seen = {
        code: cells
        for code in place_by_code
        if _is_seen(cells := tuple(cells.get(code) for cells in by_code))
    }
    sizes = Counter(place_by_code[code][0] for code in seen)
    lines = []
    for code, cells in seen.items():
        secret, adversary = place_by_code[code]
        notes = tuple("" if k == 0 else compare_cells(cells[0], c) for k, c in enumerate(cells))
        lines.append(
            ChangedCell(secret, capitalise_words(adversary), sizes.pop(secret, 0), cells, notes)
        )
    return tuple(lines)


def _is_seen(cells: Sequence[Cell | None]) -> bool:
    return any(cell and cell.level not in SEEN_BY_NOBODY for cell in cells)


def compare_cells(first: Cell | None, other: Cell | None) -> str:
    """Return in a word how a cell differs from that of the first run, or empty if it does not."""
    before, after = _cell_level(first), _cell_level(other)
    if before is after:
        return ""
    if before.is_unknown or after.is_unknown:
        return "not comparable"
    if not after.is_leak:
        return "stopped" if before.is_leak else ""
    if not before.is_leak:
        return "new"
    return "less" if after.rank > before.rank else "more"


def _cell_level(cell: Cell | None) -> Level:
    return cell.level if cell else Level.NO_ATTACK


def _change_sentence(
    name: str, first: str, pairs: Sequence[tuple[Cell | None, Cell | None]], is_audited: bool
) -> str:
    if not is_audited:
        return f"{name} and {first} were not both audited, so what the change did is not known."
    notes = [compare_cells(before, after) for before, after in pairs]
    leaks = [k for k, (before, _) in enumerate(pairs) if _cell_level(before).is_leak]
    count = {word: sum(note == word for note in notes) for word in ("less", "more", "new")}
    stopped = sum(notes[k] == "stopped" for k in leaks)
    unsure = sum(notes[k] == "not comparable" for k in leaks)
    same = sum(notes[k] == "" for k in leaks)
    parts = [
        f"{stopped} of {plural(len(leaks), 'leak')} stopped",
        f"{same} unchanged" if same else "",
        f"{count['less']} smaller" if count["less"] else "",
        f"{count['more']} larger" if count["more"] else "",
        f"{count['new']} new" if count["new"] else "",
        f"{unsure} not known any more" if unsure else "",
    ]
    return f"{name}, compared with {first}: {', '.join(filter(None, parts))}."


def _score_figures(runs: Sequence[Results]) -> list[tuple[str, tuple[str, ...]]]:
    scores = [monitored_name(run.config, run.summary) for run in runs]
    name = scores[0].replace("_", " ") if len(set(scores)) == 1 else "score"
    reached = [
        percent(score_of(run.summary, score)) + ("" if len(set(scores)) == 1 else f" ({score})")
        for run, score in zip(runs, scores, strict=True)
    ]
    chance = [
        percent(no_skill(run.summary.test_scores, score))
        for run, score in zip(runs, scores, strict=True)
    ]
    return [
        (f"Test {name}", tuple(reached)),
        ("The same of naming one class", tuple(chance)),
        ("Promised epsilon", tuple(map(_promise_words, runs))),
        ("Masked sums", tuple(_mask_words(run) for run in runs)),
    ]


def _promise_words(run: Results) -> str:
    finite = {u: c.epsilon for u, c in run.summary.epsilon.items() if c.epsilon is not None}
    if not finite:
        return "nothing"
    void = "" if run.summary.noise_protects else " (seeded noise: void)"
    return ", ".join(f"{epsilon_text(e)} per {unit}" for unit, e in finite.items()) + void


def _mask_words(run: Results) -> str:
    return "no" if run.config.privacy.secure_aggregation is None else "yes"
