"""Rows are secrets, columns are adversaries, and a cell is the best attack on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from audits.answer.levels import level_of, share_of
from audits.answer.model import Cell, Evidence, Level, Row
from audits.answer.sentences import (
    COLUMNS,
    attack_words,
    condition_of,
    finding_sentence,
    kind_of,
    lack_text,
    picked_text,
)
from audits.findings.record import COVERAGE, MISSING, UNFINISHED, Finding, Verdict
from securefg.protocol.secrets import PLACES, SECRETS, cell_code, find_secret

NO_ATTACKS = COVERAGE | {MISSING, UNFINISHED}
PREFIX = "SFG"


def is_promise(finding: Finding) -> bool:
    """Return whether a finding checks what the run claims of itself."""
    claims = bool(finding.check) or finding.epsilon_claimed is not None
    return finding.verdict is Verdict.VIOLATION or (not finding.cells and claims)


def is_attack(finding: Finding) -> bool:
    """Return whether a finding is about an attack, and not about a promise or the audit itself."""
    return bool(finding.cells) or not (finding.attack in NO_ATTACKS or is_promise(finding))


def cells_of_finding(finding: Finding) -> tuple[str, ...]:
    """Return the cells that a finding names. A finding from an older version has a row of its
    own."""
    if finding.cells or finding.adversary == "-":
        return tuple(map(code_text, finding.cells))
    return (cell_code(code_text(finding.attack), kind_of(finding.adversary)),)


def code_text(text: str) -> str:
    """Return a name as a part of a code, which has A to Z, 0 to 9 and hyphens alone."""
    parts = (c if c.isalnum() else "-" for c in text.upper())
    return "".join(c if c.isascii() else f"U{ord(c):04X}" for c in parts)


def has_place(finding: Finding) -> bool:
    """Return whether the table has a cell for a finding."""
    return any(
        code.rpartition("-")[2] in PLACES.values() and code.rpartition("-")[0]
        for code in cells_of_finding(finding)
    )


def is_mounted(finding: Finding) -> bool:
    """Return whether a finding is evidence in its cells. A leak always is."""
    leaks = finding.verdict in (Verdict.LEAK, Verdict.VIOLATION)
    return leaks or (not finding.unmet and (finding.measured or bool(finding.cells)))


def make_rows(findings: Iterable[Finding]) -> tuple[Row, ...]:
    """Return every row that any attack is about, in the order of the secrets."""
    by_cell: dict[str, list[Finding]] = {}
    for finding in filter(is_attack, findings):
        for code in cells_of_finding(finding):
            by_cell.setdefault(code, []).append(finding)
    wire = [PLACES["wire"]] if any(code.endswith(PLACES["wire"]) for code in by_cell) else []
    kinds = [kind for kind, place in PLACES.items() if kind != "wire" or place in wire]
    rows = [_make_row(code, kinds, by_cell) for code in _row_codes(by_cell)]
    return _number_footnotes(rows)


def _row_codes(cells: Iterable[str]) -> list[str]:
    """Return the codes of the rows: the package's secrets first, then those from outside."""
    found = {code.rpartition("-")[0] for code in cells}
    known = [secret.code for secret in SECRETS if secret.code in found]
    return [*known, *sorted(found - set(known))]


def _make_row(code: str, kinds: Sequence[str], found: Mapping[str, list[Finding]]) -> Row:
    secret = find_secret(code)
    title = secret.title if secret else attack_words(code.replace("-", "_").lower())
    cells = [make_cell(cell_code(code, kind), kind, found) for kind in kinds]
    return Row(code=code, title=title[:1].upper() + title[1:], cells=tuple(cells))


def make_cell(code: str, kind: str, found: Mapping[str, list[Finding]]) -> Cell:
    """Return one cell: the worst of the attacks that were mounted, and what is not known."""
    findings = found.get(code, [])
    mounted = [finding for finding in findings if is_mounted(finding)]
    evidence = sorted(map(make_evidence, mounted), key=_worst_first)
    is_untried = any(finding.unmet == "not_asked" for finding in findings)
    level, unsure = _judge_cell([one.level for one in evidence], bool(findings), is_untried)
    unknown = [finding for finding in mounted if level_of(finding) is Level.NOT_KNOWN]
    lack = lack_text(min(unknown, key=_least_known)) if level is Level.NOT_KNOWN else ""
    return Cell(
        code=f"{PREFIX}-{code}",
        column=kind,
        level=level,
        unsure=unsure,
        lack=lack,
        evidence=tuple(evidence),
    )


def _least_known(finding: Finding) -> tuple[bool, float, str, str]:
    """Order a failure first, then the largest gain that may hide, then by name."""
    may_hide = finding.gain.high if finding.gain else -1.0
    return not finding.failed, -may_hide, finding.attack, finding.adversary


def _judge_cell(levels: Sequence[Level], has_attacks: bool, is_untried: bool) -> tuple[Level, bool]:
    """Return the level of a cell, and whether a small one may hide a larger one."""
    every = [*levels, Level.NOT_TRIED] if is_untried else list(levels)
    if not every:
        return (Level.NO_VIEW if has_attacks else Level.NO_ATTACK), False
    worst = min(every, key=lambda level: level.rank)
    if worst.is_unknown and Level.TRACE in every:
        return Level.TRACE, True
    return worst, False


def make_evidence(finding: Finding) -> Evidence:
    """Return one attack of a cell with the figures of its finding."""
    level = level_of(finding)
    return Evidence(
        attack=finding.attack,
        adversary=finding.adversary,
        verdict=finding.verdict,
        level=level,
        metric=finding.metric,
        unit=finding.unit,
        targets=finding.targets,
        prior=finding.prior,
        value=finding.value,
        gain=finding.gain,
        basis=finding.basis,
        share=share_of(finding),
        sentence=finding_sentence(finding, level),
        because=finding.words,
        assumes="; ".join(finding.assumptions),
        exposes=finding.exposes,
        condition=condition_of(finding.exposes),
        picked=picked_text(finding.details),
        stopped_by=finding.stopped_by,
        failed=finding.failed,
    )


def _worst_first(evidence: Evidence) -> tuple[int, bool, bool, float, str, str]:
    """Order by level and verdict, then without a condition first, then by share and by name."""
    is_mild = evidence.verdict not in (Verdict.LEAK, Verdict.VIOLATION)
    share = -(evidence.share or 0.0)
    return (
        evidence.level.rank,
        is_mild,
        bool(evidence.condition),
        share,
        evidence.attack,
        evidence.adversary,
    )


def _number_footnotes(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Give every cell with a leak or a trace the number of its footnote."""
    count, done = 0, []
    for row in rows:
        cells = []
        for cell in row.cells:
            shown = cell.level.is_leak
            count += shown
            cells.append(cell.model_copy(update={"number": count}) if shown else cell)
        done.append(row.model_copy(update={"cells": tuple(cells)}))
    return tuple(done)


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Return the kinds of the columns."""
    return [cell.column for cell in rows[0].cells] if rows else list(COLUMNS)[:3]
