"""An exact inversion is a leak for every audit seed: one recorded run, played again and again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from attacks import get_attack
from audits.findings.record import Verdict
from audits.plan import Task
from audits.player import Player
from audits.truth import Truth
from securefg.runs import runner
from securefg.settings.config import parse_config


@pytest.mark.parametrize("seeds", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_exact_inversion_of_gat_latents_leaks_for_every_seed(seeds: int, tmp_path: Path) -> None:
    """The prior is the same for everybody, and fits the chosen targets badly now and then."""
    tree = {
        "method": {"name": "nfedgnn", "network": "gat", "heads": 8, "hidden": 16, "dropout": 0.6},
        "data": {
            "name": "csbm",
            "csbm": {
                "num_nodes": 300,
                "degree": 6,
                "graph_signal": 2,
                "mu": 2,
                "num_features": 40,
            },
        },
        "partition": {"name": "one_node"},
        "training": {"rounds": 1, "patience": None, "lr": 0.01},
        "output": {"root": str(tmp_path), "transcript_every": 1},
    }
    truth = Truth.of(runner.start(parse_config(tree)).folder)
    task, verdict_counts = Task(get_attack("latent_inversion"), "server"), Counter[Verdict]()
    view = Player(truth, 0, None, defended=False).view(truth, "server")
    for seed in range(seeds):
        player = Player(truth, seed, None, defended=False)
        player._views[True, "server"] = view
        finding, _ = player.play(task)
        assert finding.details["exact_rows"] == 1
        verdict_counts[finding.verdict] += 1
    assert verdict_counts == {Verdict.LEAK: seeds}
