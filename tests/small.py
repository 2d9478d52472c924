"""Small configs that run in a fraction of a second, for tests of whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from securefg.settings.config import RunConfig, parse_config

CSBM = {
    "task": "dnc",
    "num_nodes": 120,
    "degree": 8,
    "graph_signal": 2,
    "mu": 2,
    "num_features": 30,
}


def tree(root: Path, method: str = "fedgl") -> dict[str, Any]:
    return {
        "method": {"name": method},
        "data": {"name": "csbm", "csbm": dict(CSBM)},
        "partition": {"name": "shares", "shares": [0.5, 0.6, 0.7]},
        "training": {"rounds": 4, "local_epochs": 2, "patience": None},
        "output": {"root": str(root), "checkpoint_every": 2, "transcript_every": 1},
    }


def config(root: Path, *overrides: str, method: str = "fedgl") -> RunConfig:
    return parse_config(tree(root, method), overrides)
