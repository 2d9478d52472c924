"""Faults of tables: the file, the line, the advice, and the change of tables.yaml that helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shortened

MOST_ALIKE = 3


@dataclass(frozen=True)
class Fix:
    """A change of tables.yaml that decides a fault without making anything public.

    settings  keys to set. Entries of lists and mappings are added to those that are there
    gone      names that no rule may speak of any longer
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    gone: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """A part of a file that cannot be used, with the change that helps if a setting helps."""

    path: Path
    line: int
    found: str
    wanted: str
    fix: Fix | None = None

    def __str__(self) -> str:
        where = f"{self.path}, line {self.line}" if self.line else f"{self.path}"
        return f"{where}: found {shortened(self.found, 100)}; wanted {self.wanted}"


class Unreadable(DataError):
    """An error: these faults hide all that comes after them."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(group_faults(faults)))
        self.faults = tuple(faults)


def group_faults(faults: Sequence[Fault]) -> list[str]:
    """Return the faults as lines: of many alike in one file the first, and how many follow."""
    alike: dict[tuple[Path, str], list[Fault]] = {}
    for fault in faults:
        alike.setdefault((fault.path, fault.wanted), []).append(fault)
    lines = []
    for (path, _), group in alike.items():
        lines += [str(fault) for fault in group[:MOST_ALIKE]]
        if len(group) > MOST_ALIKE:
            lines.append(f"{path}: the same on {len(group) - MOST_ALIKE} lines more")
    return lines
