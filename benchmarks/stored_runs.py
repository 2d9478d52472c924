"""Figures of runs, kept in one file, so that a table can be stopped and continued.

Run folders are deleted after they were read: some hold data about people, and users' transcripts
take 300 MiB each. A row of the file has the hash of its config and the commit of the code.
"""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from securefg.runs import runner
from securefg.runs.summary import Summary
from securefg.settings.config import load_config

CONFIGS = Path(__file__).parent.parent / "configs"
Row = dict[str, Any]


def code_version() -> str:
    """Return the last commit that changed package or configs, "-dirty" with open changes."""
    about = ["--", str(CONFIGS.parent / "securefg"), str(CONFIGS)]

    def ask_git(*words: str) -> str:
        asked = ["git", "-C", str(CONFIGS), *words, *about]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    changed = ask_git("status", "--porcelain", "--untracked-files=no")
    return ask_git("log", "-1", "--format=%h") + ("-dirty" if changed else "")


class Store:
    """A file with one JSON object per finished run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._rows: dict[str, Row] = {row["hash"]: row for row in map(json.loads, lines)}

    def find(self, name: str, changes: Sequence[str]) -> Row | None:
        """Return the stored figures of a shipped config with these changes, or None."""
        return self._rows.get(load_config(CONFIGS / f"{name}.yaml", list(changes)).hash)

    def figures(self, name: str, changes: Sequence[str]) -> Row:
        """Return the figures of a shipped config with these changes. Run it if they are missing."""
        config = load_config(CONFIGS / f"{name}.yaml", list(changes))
        if config.hash not in self._rows:
            with tempfile.TemporaryDirectory() as root:
                before = _cpu_seconds()
                here = load_config(CONFIGS / f"{name}.yaml", [*changes, f"output.root={root}"])
                summary = runner.start(here, fresh=True).folder.summary()
                row = _row(summary, _cpu_seconds() - before)
            self.keep(config.hash, {**row, "config": name, "changes": list(changes)})
        return self._rows[config.hash]

    def kept(self, key: str) -> Row | None:
        """Return the row of a key, or None."""
        return self._rows.get(key)

    def keep(self, key: str, row: Row) -> None:
        """Append a row under a key: a config's hash, or the name of a baseline without a config."""
        self._rows[key] = {**row, "hash": key}
        with self._path.open("a") as file:
            file.write(json.dumps(self._rows[key]) + "\n")


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _row(summary: Summary, seconds: float) -> Row:
    scores = summary.test_scores.figures() if summary.test_scores else {}
    local = summary.local_test_accuracy
    return {
        "seed": summary.seed,
        "test": summary.test_accuracy,
        "home": local.pooled if local else summary.test_accuracy,
        "val": summary.val_accuracy,
        "scores": scores,
        "epsilon": {unit: claim.epsilon for unit, claim in summary.epsilon.items()},
        "chosen": summary.chosen,
        "cpu": round(seconds, 1),
        "code": code_version(),
    }
