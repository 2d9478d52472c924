"""`metrics.jsonl`: a line per round, read back as strictly as it was written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from securefg.foundation.errors import RunFolderError
from securefg.foundation.settings import Settings, explain_fault

Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[float, Field(gt=-1e300, lt=1e300)]
"""The difference of two is finite, so an axis can be drawn."""


class _Line(Settings):
    """A line with the fields of `RoundReport`. The order of rounds is checked beside it."""

    model_config = ConfigDict(strict=True)

    round: Annotated[int, Field(ge=1, lt=2**31)]
    train_loss: Number
    val_loss: Number
    val_accuracy: Number
    test_accuracy: Number
    epsilon: dict[str, Annotated[Number, Field(ge=0)] | None]
    bytes_up: Count
    bytes_down: Count
    dropped: Count
    seconds: Number
    aborted: str = ""
    extra: dict[str, Number] = Field(default_factory=dict)
    quality: dict[str, dict[str, Number]] = Field(default_factory=dict)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return all whole lines, the rounds ascending. Raise RunFolderError for a line that no run
    writes."""
    text = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(text, 1):
        try:
            round_metrics = _Line.model_validate_json(line).model_dump()
        except ValidationError as error:
            why = explain_fault(error)
            raise RunFolderError(f"{path}:{number}: not a round's metrics: {why}") from error
        if lines and round_metrics["round"] <= lines[-1]["round"]:
            raise RunFolderError(
                f"{path}:{number}: not a round's metrics here: round {round_metrics['round']} "
                f"after round {lines[-1]['round']}"
            )
        lines.append(round_metrics)
    return lines


def most_told(rounds: Iterable[Mapping[str, float | None]]) -> dict[str, float]:
    """Return the largest epsilon that any round told, by unit. None is infinite."""
    most: dict[str, Number] = {}
    for epsilons in rounds:
        for unit, told in epsilons.items():
            most[unit] = max(most.get(unit, 0.0), math.inf if told is None else told)
    return most
