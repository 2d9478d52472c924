"""A client's process dies in a masked round: the survivors' sum is what it should be."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
import torch

from securefg.runs import runner
from securefg.runs.folder import RunFolder
from tests.small import config

HALVES = "pseudo_labels: false, pseudo_graph: false"
DEADLY = f"method={{name: tests.contract.failing, deadly: true, {HALVES}}}"
SHARES = "partition.shares=[0.5, 0.6, 0.7, 0.8, 0.9]"


def weights(folder: RunFolder) -> torch.Tensor:
    return safetensors.torch.load_file(folder.path / "model.safetensors")["weights"]


def test_survivors_of_a_killed_process_are_summed_under_masks(tmp_path: Path) -> None:
    """One client raises in round 2, another's process dies in round 3, after it shared its keys."""
    masked = "privacy.secure_aggregation={min_holders: 1}"
    # By nodes, one that is away counts as unchanged under masks: its size left once, in a census.
    both = (DEADLY, SHARES, "method.weighting=equal", "engine.name=processes")
    plain = runner.start(config(tmp_path / "plain", *both))
    under_masks = runner.start(config(tmp_path / "masked", *both, masked))
    assert plain.summary is not None
    assert under_masks.summary is not None
    assert under_masks.summary.aborted_rounds == 0
    assert under_masks.summary.rounds == 4
    assert under_masks.summary.recovered_by_algebra.smallest_cohort == 4
    assert under_masks.summary.recovered_by_algebra.contributions_recoverable == 0
    assert torch.allclose(weights(plain.folder), weights(under_masks.folder), atol=2e-3)
