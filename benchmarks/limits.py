"""A figure and the limit that it is held to, as every benchmark with a limit gives it: `rows()`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
