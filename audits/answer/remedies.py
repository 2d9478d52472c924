"""What would change it: the defences that the leaking attacks themselves name, with the setting.

An attack says what stops it in clauses (`stopped_by="masks; noise on the rows; fewer rounds"`). A
clause that denies ("masks do not") is no remedy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from audits.answer.model import Cell, Remedy

DENIES = re.compile(r"\b(do not|does not|do nothing|hardly|neither|nor)\b")


@dataclass(frozen=True)
class Kind:
    """A kind of remedy: the words by which a clause names it, and the setting that applies it."""

    key: str
    words: str
    setting: str
    named_by: re.Pattern[str]


KINDS = (
    Kind(
        "masks",
        "secure aggregation, so that only sums arrive",
        "--set 'privacy={secure_aggregation: {}}'",
        re.compile(r"\bmasks\b"),
    ),
    Kind(
        "noise",
        "noise on what is sent",
        "--set privacy.target_epsilon=8",
        re.compile(r"\bnoise\b|\bDP-SGD\b"),
    ),
    Kind("rounds", "fewer rounds", "--set training.rounds=5", re.compile(r"\bfewer rounds\b")),
    Kind("budget", "a privacy budget", "--set privacy.budget=8", re.compile(r"\bbudget\b")),
)


def clauses_of(stopped_by: str) -> list[str]:
    """Return the clauses of an attack's `stopped_by` that name a remedy."""
    parts = [part.strip() for part in stopped_by.split(";")]
    return [part for part in parts if part and not DENIES.search(part)]


def kinds_named(stopped_by: str) -> list[Kind]:
    """Return the kinds of remedies that the clauses name, each once."""
    return [kind for kind in KINDS if any(map(kind.named_by.search, clauses_of(stopped_by)))]


def make_remedies(leaks: Sequence[Cell]) -> tuple[Remedy, ...]:
    """Return the remedies for the leaking cells; the one that stops most comes first."""
    found = []
    for kind in KINDS:
        stopped = [
            cell
            for cell in leaks
            if cell.best is not None and kind in kinds_named(cell.best.stopped_by)
        ]
        if stopped:
            found.append(
                Remedy(
                    key=kind.key,
                    words=kind.words,
                    setting=kind.setting,
                    codes=tuple(cell.code for cell in stopped),
                    numbers=tuple(sorted(cell.number for cell in stopped)),
                    tried=dict.fromkeys((cell.code for cell in stopped), None),
                )
            )
    return tuple(found)
