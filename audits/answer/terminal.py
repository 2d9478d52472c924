"""The answer on a terminal of 80 columns, as lines of styled text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.text import Text

from audits.answer.model import Answer, Cell, Gap, Level, Outcome, Remedy, Row
from audits.answer.remedies import state_after
from audits.answer.sentences import attack_words, figures_text, join_words
from securefg.foundation.quoting import printable
from securefg.foundation.units import epsilon_text, plural
from securefg.protocol.secrets import SENSITIVE, find_secret

WIDTH = 80
TITLE, COLUMN = 34, 15
INDENT = 14
KEPT = 3
"""So many checks that held are named."""
COLOURS = {
    Outcome.BROKEN_PROMISE: "bold white on red",
    Outcome.NOT_PRIVATE: "bold red",
    Outcome.NOT_ENOUGH_MEASURED: "bold yellow",
    Outcome.LEAKS_A_LITTLE: "bold magenta",
    Outcome.NOTHING_FOUND: "bold green",
}
LEVEL_COLOURS = {
    **dict.fromkeys((Level.EXACT, Level.ALL, Level.MOST), "bold red"),
    **dict.fromkeys((Level.SOME, Level.FEW), "red"),
    **dict.fromkeys((Level.NOT_KNOWN, Level.NOT_TRIED), "yellow"),
    Level.TRACE: "magenta",
    Level.NOTHING: "green",
}
SCALE = "ALL >= 90 %, MOST >= 50 %, SOME >= 10 % of what guessing leaves open"
LEGEND = {
    Level.EXACT: "EXACT: by algebra",
    Level.FEW: "FEW: the most exposed",
    Level.NO_VIEW: "-: nothing to read",
    Level.NO_ATTACK: "no test: nobody wrote one",
}


def answer_lines(answer: Answer, whole: bool = False) -> list[Text]:
    """Return the lines of the screen. `whole` shows every attack and every row."""
    parts = [
        _head_lines(answer),
        _verdict_lines(answer),
        [*_table_lines(answer, whole), *_note_lines(answer)],
        [*_unknown_lines(answer, whole), *_promise_lines(answer, whole)],
        _remedies_lines(answer, whole),
    ]
    if whole:
        parts.append(_all_attacks(answer))
    lines: list[Text] = []
    for part in (list(part) for part in parts):
        if part:
            lines += [*part, Text("")]
    return lines[:-1]


def _head_lines(answer: Answer) -> Iterator[Text]:
    run, head_parts = answer.run, [answer.run.name]
    if run.clients is not None:
        head_parts.append(plural(run.clients, "client"))
    head_parts.append(run.noise or ("no noise" if run.can_run_again else "no noise claimed"))
    if run.masks is not None:
        head_parts.append("masks" if run.masks else "no masks")
    quality = run.quality
    if quality is not None and quality.value is not None:
        one = "" if quality.one_class is None else f", one class {quality.one_class:.0%}"
        head_parts.append(f"{quality.score} {quality.value:.0%}{one}")
    yield from _wrap_lines(" · ".join(head_parts), 0, "bold")
    if quality is not None and quality.is_useless:
        yield from _wrap_lines(
            "This model is no better than always naming one class. All figures below describe a "
            "model that has learnt nothing.",
            0,
            "bold yellow",
        )


def _verdict_lines(answer: Answer) -> Iterator[Text]:
    word = answer.outcome.value
    if answer.outcome is Outcome.NOTHING_FOUND:
        word = f"{word} by {plural(answer.attacks_silent, 'attack')} that work without the defence"
    sentence = answer.sentence
    if len(word) >= INDENT - 1:
        yield Text(word, COLOURS[answer.outcome])
        yield from _wrap_lines(sentence, 2, "")
        return
    lines = wrap(printable(sentence), WIDTH - INDENT)
    for number, line in enumerate(lines):
        start = word if number == 0 else ""
        yield Text.assemble((f"{start:<{INDENT}}", COLOURS[answer.outcome]), line)


def _table_lines(answer: Answer, whole: bool) -> Iterator[Text]:
    shown = [row for row in answer.rows if whole or row.has_view]
    if not shown:
        return
    heads = "".join(f"{column.title:<{COLUMN}}" for column in answer.columns)
    yield Text(f"{'What can be learnt':<{TITLE}}{heads}".rstrip(), "bold")
    yield Text("-" * WIDTH, "dim")
    for row in shown:
        yield _row_line(row)
    yield from (Text(line, "dim") for line in _legend_lines(shown))


def _row_line(row: Row) -> Text:
    line = Text(f"{printable(row.title)[: TITLE - 1]:<{TITLE}}")
    if row.code == SENSITIVE.code and {cell.level for cell in row.cells} == {Level.NOT_TRIED}:
        return line.append("NOT TRIED: name its column (audit.sensitive)", "yellow")
    for cell in row.cells:
        number = f"[{cell.number}]" if cell.number else ""
        accepted = "a" if cell.acceptance and not cell.acceptance.expired else ""
        word = f"{cell.text:<6}{number}{accepted}" if number else cell.text
        line.append(f"{word:<{COLUMN}}", LEVEL_COLOURS.get(cell.level, "dim"))
    line.rstrip()
    return line


def _legend_lines(rows: Sequence[Row]) -> list[str]:
    """Return the scale, and those words of the table that need an explanation."""
    cells = [cell for row in rows for cell in row.cells]
    found = {cell.level for cell in cells}
    rest = [text for level, text in LEGEND.items() if level in found]
    if any(cell.text.endswith("*") for cell in cells):
        rest.append("*: note")
    if any(cell.unsure for cell in cells):
        rest.append("?: or more")
    if any(cell.acceptance for cell in cells):
        rest.append("a: accepted")
    return [SCALE, *wrap("  ".join(rest), WIDTH, break_on_hyphens=False)]


def _note_lines(answer: Answer) -> Iterator[Text]:
    for cell in answer.cells:
        if cell.number and cell.best is not None:
            yield _note_line(cell)


def _note_line(cell: Cell) -> Text:
    best = cell.best
    assert best is not None
    figures = f"{best.value.value:.3g} exactly" if best.value and best.prior is None else ""
    if best.prior is not None and best.value is not None:
        figures = figures_text(best.prior.value, best.value.value)
    detail = best.condition or best.picked or f"{best.targets:,} targets"
    middle = f"{attack_words(best.attack)}{', ' if detail else ''}{detail}"
    number = f"[{cell.number}]"
    room = WIDTH - 5 - len(figures) - 1
    text = printable(middle)
    text = text if len(text) <= room else f"{text[: room - 1]}…"
    return Text(f"{number:<5}{text:<{room}} {figures}")


def _unknown_lines(answer: Answer, whole: bool) -> Iterator[Text]:
    unknown_texts = [
        f"{_family_name(row)}, {_column_title(answer, cell)}: {cell.lack}"
        for row in answer.rows
        for cell in row.cells
        if cell.level is Level.NOT_KNOWN
    ]
    if unsure := sum(cell.unsure for cell in answer.cells):
        unknown_texts[-1:] = [
            "; ".join((*unknown_texts[-1:], f"{plural(unsure, 'cell')} with a ?"))
        ]
    kinds = ("unplaced", "failed", "audit")
    unknown_texts += [_gap_text(gap) for gap in answer.gaps if gap.kind in kinds]
    unasked = [attack_words(gap.name) for gap in answer.gaps if gap.kind == "not_asked"]
    if unasked:
        unknown_texts.append(f"not asked for: {', '.join(unasked)}")
    unread = [gap.name for gap in answer.gaps if gap.kind == "unread"]
    if unread:
        unknown_texts.append(
            f"{plural(len(unread), 'field')} no attack reads: {_field_names(unread)}"
        )
    places = [_place_name(gap.name) for gap in answer.gaps if gap.kind == "place"]
    counts = [f"{join_words(places)} untried"] if places else []
    counts += _count_lines(answer)
    if counts:
        unknown_texts.append("; ".join(counts) + ("" if whole else " (--all)"))
    yield from _list_lines("Not known", unknown_texts, "yellow")


def _count_lines(answer: Answer) -> list[str]:
    weak = sum(gap.kind == "weak" for gap in answer.gaps)
    count_texts = [f"{plural(weak, 'attack')} too weak"] if weak else []
    if answer.absent:
        verb = "does" if len(answer.absent) == 1 else "do"
        count_texts.append(f"{len(answer.absent)} {verb} not apply")
    return count_texts


def _gap_text(gap: Gap) -> str:
    if gap.kind == "failed":
        return f"{attack_words(gap.name)} failed: {gap.because.removeprefix('it failed: ')}"
    if gap.kind == "unplaced":
        return f"LEAK outside of the table: {attack_words(gap.name)}: {gap.because}"
    return gap.because


def _field_names(names: Sequence[str]) -> str:
    """Return field names by message, without the method's prefix, which all share."""
    by_message: dict[str, list[str]] = {}
    for name in names:
        message, _, field = name.rpartition(".")
        by_message.setdefault(message.rpartition(".")[2], []).append(field)
    return "; ".join(f"{message} {', '.join(found)}" for message, found in by_message.items())


def _place_name(kind: str) -> str:
    return {"wire": "eavesdropper", "client": "other clients"}.get(kind, kind)


def _family_name(row: Row) -> str:
    secret = find_secret(row.code)
    return secret.family if secret else row.title


def _column_title(answer: Answer, cell: Cell) -> str:
    return next(column.title for column in answer.columns if column.kind == cell.column)


def _promise_lines(answer: Answer, whole: bool) -> Iterator[Text]:
    broken = [p for p in answer.promises if p.state == "broken"]
    open_ones = [p for p in answer.promises if p.state == "not known"]
    kept = [p.name for p in answer.promises if p.state == "kept"]
    promise_texts = [f"BROKEN: {promise.name}: {promise.because}" for promise in broken]
    promise_texts += [f"not known: {promise.name}: {promise.because}" for promise in open_ones]
    names = list(dict.fromkeys(kept))
    if names:
        more = "" if whole or len(names) <= KEPT else f" and {len(names) - KEPT} more"
        promise_texts.append(f"kept: {', '.join(names if whole else names[:KEPT])}{more}")
    promise_texts += _epsilon_lines(answer)
    yield from _list_lines("Promises", promise_texts if whole else _trim_kept(promise_texts), "")


def _epsilon_lines(answer: Answer) -> list[str]:
    """Return the promised epsilon for every unit, rounded up, and marked as void if the noise is
    seeded."""
    finite = {unit: eps for unit, eps in answer.run.epsilon.items() if eps is not None}
    if not answer.run.epsilon:
        return []
    if not finite:
        return ["no epsilon is promised"]
    claims = ", ".join(f"{epsilon_text(eps)} per {unit}" for unit, eps in finite.items())
    void = "" if answer.run.noise_protects else " (void: the noise is seeded)"
    return [f"epsilon {claims}{void}"]


def _trim_kept(said: Sequence[str]) -> list[str]:
    """Return one line for all that is kept."""
    plain = [text for text in said if not text.startswith(("BROKEN", "not known"))]
    loud = [text for text in said if text not in plain]
    return [*loud, *([" · ".join(plain)] if plain else [])]


def _remedies_lines(answer: Answer, whole: bool) -> Iterator[Text]:
    name = "What helps"
    for remedy in answer.remedies:
        if remedy.is_needed or whole:
            yield from _remedy_lines(f"{name:<{INDENT}}", remedy)
            name = ""


def _remedy_lines(start: str, remedy: Remedy) -> Iterator[Text]:
    numbers = f"[{spans_text(remedy.numbers)}]"
    if not remedy.setting:
        yield from _hanging_lines(start, f"{numbers} no setting: {remedy.words}")
        return
    remedy_text = f"{numbers} {remedy.key}, {_tried_text(remedy)};"
    first, *rest = (f"--set {part}" for part in remedy.setting.split("--set ")[1:])
    if len(start) + len(remedy_text) + 1 + len(first) <= WIDTH:
        remedy_text, first = f"{remedy_text} {first.strip()}", ""
    yield from _hanging_lines(start, remedy_text)
    for line in _fill_lines([first, *rest]):
        yield Text(f"{'':{max(0, min(INDENT, WIDTH - len(line)))}}{line}", "cyan")


def _fill_lines(parts: Sequence[str]) -> list[str]:
    """Return settings on as few lines as they fit. No setting is broken."""
    lines: list[str] = []
    for part in (part.strip() for part in parts if part):
        if lines and len(lines[-1]) + 1 + len(part) <= WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return lines


def _tried_text(remedy: Remedy) -> str:
    """Return what the twin showed: which cells it stops, and the score that is left."""
    if remedy.twin is None:
        return "not tried"
    by_word: dict[str, list[int]] = {}
    for number, level in zip(remedy.numbers, remedy.tried.values(), strict=True):
        by_word.setdefault(_level_after(level), []).append(number)
    stopped_text = ", ".join(f"[{spans_text(found)}] {word}" for word, found in by_word.items())
    quality = remedy.twin.quality
    known = quality is not None and quality.value is not None
    score = f", {quality.score} {quality.value:.0%}" if quality and known else ""
    if quality and quality.is_near_one_class:
        score += f", near one class {quality.one_class:.0%}"
    return f"tried ({remedy.twin.rounds} rounds{score}): {stopped_text}"


def _level_after(level: Level | None) -> str:
    state = state_after(level)
    return f"still {level.value}" if level and state == "still leaks" else state


def spans_text(numbers: Sequence[int]) -> str:
    """Return numbers with runs joined: 1-3,6."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _all_attacks(answer: Answer) -> Iterator[Text]:
    yield Text("Every attack", "bold")
    for cell in answer.cells:
        for one in cell.evidence:
            yield from _hanging_lines(f"{cell.code:<22}", one.sentence)
    names_by_reason: dict[tuple[str, str], list[str]] = {}
    for gap in (*answer.gaps, *answer.absent):
        kind = gap.kind.replace("_", " ")
        names_by_reason.setdefault((kind, gap.because), []).append(attack_words(gap.name))
    for (kind, because), names in names_by_reason.items():
        yield from _hanging_lines(f"{kind:<22}", f"{', '.join(names)}: {because}")


def _list_lines(name: str, said: Sequence[str], style: str) -> Iterator[Text]:
    for number, text in enumerate(said):
        start = f"{name if number == 0 else '':<{INDENT}}"
        yield from _hanging_lines(start, text, style if number == 0 else "")


def _hanging_lines(start: str, text: str, style: str = "") -> Iterator[Text]:
    """Yield a text behind its start, further lines indented below it."""
    lines = wrap(printable(text), WIDTH - len(start), break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        head = start if number == 0 else " " * len(start)
        yield Text.assemble((head, style), line)


def _wrap_lines(text: str, indent: int, style: str) -> Iterator[Text]:
    for line in wrap(printable(text), WIDTH - indent):
        yield Text(" " * indent + line, style)
