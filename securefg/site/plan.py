"""The plan in a party's kit, and whether a job is the planned one. Nothing heavy is imported here.

A site reviews the plan before it takes part. A job differs from it in its submission number alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from securefg.foundation.errors import DataError, PrivacyError
from securefg.foundation.json_text import read_json

PLAN_FILE = "federation_plan.json"
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+.-]{0,199}")


class OtherJob(PrivacyError):
    """A job that is not the one in the plan."""


def plan_path(kit: Path) -> Path:
    """Return where a kit keeps its plan."""
    return kit / "local" / "securefg" / PLAN_FILE


def read_plan(kit: Path) -> dict[str, Any]:
    """Return the plan in a kit as JSON has it. Raise `DataError` where there is none."""
    path = plan_path(kit)
    try:
        plan: dict[str, Any] = read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: no plan: {error}") from error
    return plan


def check_planned(plan: dict[str, Any], job: dict[str, Any]) -> None:
    """Raise unless the job is the plan's, but for the number of the submission."""
    differ = [key for key in {**plan, **job} if plan.get(key) != job.get(key)]
    if set(differ) - {"submission"}:
        raise OtherJob(
            f"the job is not the one in this kit's plan: {', '.join(sorted(differ))} differ"
        )
