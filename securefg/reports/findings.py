"""What an audit found on a run, read from its folder; without one, there is nothing to show.

The file is the audit's (`audits/findings.py` writes it); a page reads what it shows, by its schema.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from securefg.foundation.errors import RunFolderError

SCHEMA = 1


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True)


class StoredFigure(_Stored):
    value: float
    low: float
    high: float


class StoredFinding(_Stored):
    """The parts of a finding that pages show."""

    adversary: str
    attack: str
    metric: str
    unit: str
    verdict: str
    because: str
    value: StoredFigure | None = None
    prior: StoredFigure | None = None
    gain: StoredFigure | None = None
    null: StoredFigure | None = None
    positive: StoredFigure | None = None
    epsilon_claimed: float | None = None
    epsilon_lower: float | None = None
    confidence: float = 0.95
    estimator: str = ""
    targets: int = 0
    assumptions: tuple[str, ...] = ()


def read_stored_findings(path: Path) -> tuple[StoredFinding, ...] | None:
    """None where there was no audit. Refuses what is damaged or of another schema."""
    try:
        tree = json.loads(path.read_text())
        if tree["schema"] != SCHEMA:
            raise RunFolderError(f"{path}: findings of schema {tree['schema']}; wanted {SCHEMA}")
        return tuple(StoredFinding.model_validate(entry) for entry in tree["findings"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise RunFolderError(f"{path}: no findings can be read here: {error}") from error


def finding_anchor(attack: str, adversary: str) -> str:
    """Where a finding stands on its run's page."""
    return "finding-" + re.sub(r"[^a-z0-9]+", "-", f"{attack} {adversary}".lower()).strip("-")
