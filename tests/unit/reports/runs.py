"""Small runs that the tests of the reports are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from securefg.runs.folder import RunFolder
from securefg.runs.runner import start
from securefg.settings.config import parse_config

MakeRun = Callable[..., RunFolder]

NOISE = (
    "privacy.mechanism=local_gaussian",
    "privacy.noise_multiplier=2",
    "method.weighting=equal",
)


def run(root: Path, *overrides: str) -> RunFolder:
    """FedGL on a small block model; overrides as on the command line."""
    tree = {
        "method": {"name": "fedgl", "num_neighbors": 3, "hidden": 4},
        "data": {"name": "csbm", "csbm": {"num_nodes": 40, "num_features": 5}},
        "partition": {"name": "shares", "shares": [0.5, 0.6, 0.7]},
        "training": {"rounds": 3, "local_epochs": 1},
        "output": {"root": str(root), "transcript_every": 2},
        "device": "cpu",
    }
    return start(parse_config(tree, overrides)).folder
