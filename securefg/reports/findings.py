"""Where a finding stands on its run's page, and the findings of a folder."""

from __future__ import annotations

import re
from pathlib import Path

from securefg.run.findings import Finding, read_findings


def stored_findings(path: Path) -> tuple[Finding, ...] | None:
    """None where there was no audit. Refuses what is damaged or of another schema."""
    return tuple(read_findings(path)) if path.is_file() else None


def finding_anchor(attack: str, adversary: str) -> str:
    """Where a finding stands on its run's page."""
    return "finding-" + re.sub(r"[^a-z0-9]+", "-", f"{attack} {adversary}".lower()).strip("-")
