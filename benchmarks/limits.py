"""A figure and the limit that it is held to, as every benchmark with a limit gives it: `rows()`.

Outcomes of benchmarks are kept in a JSON file, from which the page and the check are made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the table.

    unit   of both numbers: "x" is a ratio
    least  whether the figure must reach the limit; else it must not pass it
    """

    name: str
    wanted: float
    found: float
    unit: str
    least: bool = False

    @property
    def met(self) -> bool:
        return self.found >= self.wanted if self.least else self.found <= self.wanted

    def cells(self) -> tuple[str, str, str, str]:
        bound = "at least" if self.least else "at most"
        words = "yes" if self.met else "NO"
        return self.name, f"{bound} {self.wanted:g} {self.unit}", self._shown(), words

    def _shown(self) -> str:
        return (
            f"{self.found:.3g} {self.unit}"
            if self.found < 1000
            else f"{self.found:.0f} {self.unit}"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """The rows of one benchmark, or the reason why there are none.

    load     of the machine when the benchmark began
    seconds  that the whole benchmark took
    """

    script: str
    rows: tuple[Row, ...] = ()
    failure: str = ""
    load: float = 0.0
    seconds: float = 0.0

    @property
    def met(self) -> bool:
        return not self.failure and all(row.met for row in self.rows)

    @classmethod
    def from_json(cls, script: str, data: Mapping[str, Any]) -> Outcome:
        rows = tuple(Row(**row) for row in data["rows"])
        return cls(script, rows, data["failure"], data["load"], data["seconds"])

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "script"}


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """Return the outcomes of a file by script; none where there is no file."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    return {script: Outcome.from_json(script, data) for script, data in stored.items()}


def store_outcomes(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Replace the outcomes of these scripts in a file; others stay."""
    known = read_outcomes(path) | {each.script: each for each in outcomes}
    path.parent.mkdir(parents=True, exist_ok=True)
    dumped = {script: each.to_json() for script, each in known.items()}
    path.write_text(json.dumps(dumped, indent=2) + "\n")
