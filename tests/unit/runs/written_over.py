"""Findings and results that are changed and noted in the history, as if they had been so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from audits.findings.history import FINDINGS, file_digest, note_the_end, read_history, write_history
from securefg.runs.summary import read_summary


def end_so(folder: Path) -> None:
    """Take the results that are there, changed by a test, for those that the run ended with."""
    summary = folder / "summary.json"
    note_the_end(folder, read_summary(summary).transcript_chain, summary.read_bytes())


def write_over(path: Path, tree: Any) -> None:
    path.write_text(json.dumps(tree))
    *past, last = read_history(path.parent.parent) or ()
    files = {**last.files, FINDINGS: file_digest(path)}
    write_history(path.parent.parent, (*past, last.model_copy(update={"files": files})))
