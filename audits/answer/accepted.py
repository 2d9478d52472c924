"""Accepted risks: lines of the answer that somebody answers for, until a day.

`accepted.yaml` lists codes, each with the largest level that is accepted, an owner, a reason and a
day. An accepted line stays visible. It counts again after its day, or if the leak has grown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError, field_validator

from audits.answer.model import Acceptance, Answer, Cell, Gap, Level, Promise
from securefg.foundation.errors import ConfigError
from securefg.foundation.quoting import shown
from securefg.foundation.settings import Settings
from securefg.foundation.yaml_text import read_yaml

FILE = "accepted.yaml"
LONGEST_DAYS = 366
"""An acceptance that is never looked at again is no decision."""


class Entry(Settings):
    """An accepted line of the answer."""

    code: str = Field(pattern=r"^SFG-[A-Z0-9-]+$", description="the code of the line")
    at_most: Level = Field(
        description="largest level that is accepted: ALL, MOST, SOME, FEW, or not known"
    )
    owner: str = Field(min_length=2, max_length=200, description="who answers for it")
    reason: str = Field(min_length=10, max_length=2000, description="why it is acceptable")
    until: date = Field(description="last day on which it is accepted, as 2027-01-31")
    run: str | None = Field(None, description="name of the config; without it, every run")

    @field_validator("at_most", mode="before")
    @classmethod
    def _ignore_case(cls, value: object) -> object:
        names = {level.value.lower(): level for level in Level}
        return names.get(value.lower(), value) if isinstance(value, str) else value


class AcceptedFile(Settings):
    """A file of accepted risks."""

    accepted: tuple[Entry, ...]


def read_accepted(path: Path) -> tuple[Entry, ...]:
    """Read `accepted.yaml` and return its entries. Raise ConfigError if an entry lacks its owner,
    reason or day."""
    try:
        accepted_file = AcceptedFile.model_validate(read_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"{path}: {key}: found {shown(first.get('input'))}; expected {_expected_value(key)}"
        ) from error
    codes = [(entry.code, entry.run) for entry in accepted_file.accepted]
    for code, _ in {pair for pair in codes if codes.count(pair) > 1}:
        raise ConfigError(f"{path}: code: found {code} twice; expected each code once")
    return accepted_file.accepted


def _expected_value(key: str) -> str:
    name = key.rpartition(".")[2]
    if name not in Entry.model_fields:
        return "code, at_most, owner, reason and until"
    return Entry.describe_fields().get(name, name)


def apply_accepted(answer: Answer, entries: Sequence[Entry], today: date | None = None) -> Answer:
    """Return the answer with its accepted lines marked, and all acceptances of this run."""
    day = today or datetime.now(UTC).date()
    general = {entry.code: entry for entry in entries if entry.run is None}
    run_entries = general | {entry.code: entry for entry in entries if entry.run == answer.run.name}
    rows = [
        row.model_copy(
            update={"cells": tuple(_mark_cell(cell, run_entries, day) for cell in row.cells)}
        )
        for row in answer.rows
    ]
    promises = tuple(_mark_line(promise, run_entries, day) for promise in answer.promises)
    gaps = tuple(_mark_line(gap, run_entries, day) for gap in answer.gaps)
    marked = answer.model_copy(update={"rows": tuple(rows), "promises": promises, "gaps": gaps})
    lines: list[Cell | Promise | Gap] = [*marked.cells, *promises, *gaps]
    used = {line.code: line.acceptance for line in lines if line.acceptance is not None}
    acceptances = [
        used.get(code) or _stale_acceptance(entry, day)
        for code, entry in sorted(run_entries.items())
    ]
    return marked.model_copy(update={"acceptances": tuple(acceptances)})


def _mark_cell(cell: Cell, own: dict[str, Entry], day: date) -> Cell:
    """Mark a cell whose line counts: one that leaks or is not known."""
    entry = own.get(cell.code)
    if entry is None or not cell.counts:
        return cell
    grown = not _covers_cell(entry.at_most, cell)
    why = f"found {cell.text}, accepted at most {entry.at_most.value}" if grown else ""
    return cell.model_copy(update={"acceptance": _make_acceptance(entry, day, why)})


def _covers_cell(at_most: Level, cell: Cell) -> bool:
    """Return whether a cell is within an accepted level. A size never covers a cell that is not
    known."""
    if cell.is_open:
        return at_most in (Level.NOT_KNOWN, cell.level) and at_most.is_unknown
    return not at_most.is_unknown and cell.level.rank >= at_most.rank


Line = TypeVar("Line", Promise, Gap)


def _mark_line(line: Line, own: dict[str, Entry], day: date) -> Line:
    entry = own.get(line.code)
    counts = line.state == "not known" if isinstance(line, Promise) else line.kind != "unplaced"
    if entry is None or not counts:  # nobody can accept a broken promise or a leak without a size
        return line
    return line.model_copy(update={"acceptance": _make_acceptance(entry, day, "")})


def _stale_acceptance(entry: Entry, day: date) -> Acceptance:
    """Return an acceptance of a line that is not there, or that does not count."""
    return _make_acceptance(entry, day, "").model_copy(
        update={"because": "nothing to accept: take it out"}
    )


def _make_acceptance(entry: Entry, day: date, grown: str) -> Acceptance:
    late = f"accepted until {entry.until}" if day > entry.until else ""
    far = (entry.until - day).days > LONGEST_DAYS
    long = f"until {entry.until}; expected a day within {LONGEST_DAYS} days" if far else ""
    because = late or long or grown
    return Acceptance(
        code=entry.code,
        at_most=entry.at_most,
        owner=entry.owner,
        reason=entry.reason,
        until=entry.until.isoformat(),
        expired=bool(because),
        because=because,
    )


def new_lines(answer: Answer) -> list[str]:
    """Return the codes that count and that nobody accepted: the reason why a build fails."""
    cells = [cell for cell in answer.cells if cell.counts]
    promises = [promise for promise in answer.promises if promise.state != "kept"]
    gaps = [gap for gap in answer.gaps if gap.blocks and gap.kind != "weak"]
    lines: list[Cell | Promise | Gap] = [*cells, *promises, *gaps]
    return [line.code for line in lines if line.acceptance is None or line.acceptance.expired]
