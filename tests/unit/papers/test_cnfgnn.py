"""CNFGNN with shared rows learns what a whole matrix per user learns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from papers.cnfgnn import AlikeUsers, finish, fits, run_cnfgnn
from securefg.models.user_init import shared_weights
from securefg.models.user_weights import SparseFeatures, UserMatrices
from securefg.runs import runner
from securefg.settings.execution import TrainingSettings
from tests.small import config

CNFGNN = "method={name: nfedgnn, average: true, smoothness: 0}"
USERS = "partition={name: one_node}"


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_shared_rows_step_as_whole_matrices(decay: float) -> None:
    stream = torch.Generator().manual_seed(0)
    features = torch.rand(40, 25, generator=stream)
    features[features < 0.8] = 0
    start = shared_weights(25, 3, 0)
    training = TrainingSettings(rounds=1, lr=0.1, weight_decay=decay)
    alike = AlikeUsers(SparseFeatures.of(features), start.clone(), training)
    whole = UserMatrices(features, start.repeat(40, 1, 1), 0.1, decay)
    everyone = torch.arange(40)
    for _ in range(5):
        gradients = torch.randn(40, 3, generator=stream)
        assert torch.allclose(alike.latents(), whole.latents(), atol=1e-5)
        whole.step(everyone, gradients)
        mean = whole.weights.mean(0)
        assert torch.allclose(alike.sum_after_step(gradients) / 40, mean, atol=1e-5)
        whole.take(everyone, mean.expand(40, -1, -1))
        alike.weights = mean


@pytest.mark.parametrize("network", ["gcn", "gat"])
def test_a_run_agrees_with_the_engine(network: str, tmp_path: Path) -> None:
    chosen = config(tmp_path, CNFGNN, USERS, f"method.network={network}", "method.hidden=4")
    summary = runner.start(chosen).summary
    assert summary is not None
    found = finish(chosen)
    assert found.val_loss == pytest.approx(summary.val_loss, abs=1e-4)
    assert found.test_accuracy == pytest.approx(summary.test_accuracy, abs=1e-6)


def test_only_runs_of_cnfgnn_with_all_users_fit(tmp_path: Path) -> None:
    plain = config(tmp_path, "method={name: nfedgnn}", USERS)
    half = config(tmp_path, CNFGNN, USERS, "training.participation=0.5")
    assert not fits(plain)
    assert not fits(half)
    assert run_cnfgnn([plain, half]) == {}
