"""Findings: what an audit found, in one versioned schema, and the verdict each figure earns.

VIOLATION     what was measured contradicts what was promised
LEAK          the attack gains over what is known without the run, and the interval excludes zero
NOT_DETECTED  no gain was measured by an attack that works where the defence is off
INCONCLUSIVE  the attack could not run, or its controls say that its silence means nothing
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field

from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import write_json
from securefg.foundation.settings import Settings

SCHEMA = 1


class Verdict(StrEnum):
    VIOLATION = "VIOLATION"
    LEAK = "LEAK"
    NOT_DETECTED = "NOT_DETECTED"
    INCONCLUSIVE = "INCONCLUSIVE"


class Figure(Settings):
    """A measured value with its interval, at 95 % unless the finding says otherwise."""

    value: float
    low: float
    high: float


class Finding(Settings):
    """One attack or one check, against one adversary's view of one run.

    value         what the attack reached, in the unit of `metric`
    prior         what is reached without the run: the headline is `gain`, the value above it
    null          the same guess against permuted truth; `null_at_chance` says that it is at chance
    positive      the gain of the same attack with the defence off, and the `floor` it had to reach
    epsilon_*     for checks of a promised epsilon: claimed, and the measured lower bound
    because       why the verdict is what it is, in words
    """

    adversary: str
    attack: str
    method: str
    metric: str
    unit: str
    verdict: Verdict
    because: str
    value: Figure | None = None
    prior: Figure | None = None
    gain: Figure | None = None
    null: Figure | None = None
    null_at_chance: bool | None = None
    positive: Figure | None = None
    floor: float | None = None
    epsilon_claimed: float | None = None
    epsilon_lower: float | None = None
    epsilon_ceiling: float | None = None
    confidence: float = 0.95
    estimator: str = ""
    targets: int = 0
    details: dict[str, float] = Field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    seconds: float = 0.0


def judge(
    value: Figure, gain: Figure, null_at_chance: bool, positive: Figure | None, floor: float
) -> tuple[Verdict, str]:
    """The verdict on an attack, and why. Silence counts only where the attack is known to speak."""
    if not null_at_chance:
        return Verdict.INCONCLUSIVE, "the null control is off chance: the measurement is not sound"
    if gain.low > 0:
        return (
            Verdict.LEAK,
            f"{value.value:.3f}, {gain.value:+.3f} over the prior "
            f"({gain.low:+.3f} to {gain.high:+.3f})",
        )
    if positive is None:
        return Verdict.INCONCLUSIVE, "no positive control: the attack was not shown to work here"
    if positive.value < floor:
        return (
            Verdict.INCONCLUSIVE,
            f"with the defence off the attack gained {positive.value:+.3f} over the prior, under "
            f"its floor {floor:g}",
        )
    return (
        Verdict.NOT_DETECTED,
        f"no gain over the prior ({gain.low:+.3f} to {gain.high:+.3f}); with the defence off "
        f"{positive.value:+.3f}",
    )


def write_findings(path: Path, run: dict[str, Any], findings: list[Finding]) -> None:
    tree = {"schema": SCHEMA, "run": run, "findings": [f.model_dump(mode="json") for f in findings]}
    write_json(path, tree)


def read_findings(path: Path) -> list[Finding]:
    """The findings of an audit; refuses a file of another schema."""
    try:
        tree = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: no findings here ({error})") from error
    if tree.get("schema") != SCHEMA:
        raise RunFolderError(f"{path}: findings of schema {tree.get('schema')}; wanted {SCHEMA}")
    return [Finding.model_validate(entry) for entry in tree["findings"]]
