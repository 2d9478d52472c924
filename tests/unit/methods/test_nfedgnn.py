"""nFedGNN: sparse rows are the dense computation, and users can be spread over hosts at will."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from securefg import runner
from securefg.errors import MaskingRefused
from securefg.models.user_rows import UserRows
from tests.small import config

METHOD = "method={name: nfedgnn}"
USERS = "partition={name: one_node}"


def test_sparse_rows_are_the_dense_computation_over_20_adam_steps() -> None:
    stream = torch.Generator().manual_seed(0)
    features = (torch.rand(30, 12, generator=stream) < 0.3).float() * 0.7
    features[4] = 0  # a user without any word
    dense = [torch.rand(12, 5, generator=stream, requires_grad=True) for _ in features]
    user, feature = features.nonzero(as_tuple=True)
    start = torch.stack([dense[u][f].detach() for u, f in zip(user, feature, strict=True)])
    rows = UserRows(features, start.clone(), lr=0.05, weight_decay=5e-4)
    adam = torch.optim.Adam(dense, lr=0.05, weight_decay=5e-4)
    for _ in range(20):
        latents = torch.stack([x @ w for x, w in zip(features, dense, strict=True)])
        assert torch.allclose(rows.latents(), latents, atol=1e-5)
        loss = (latents - 1).pow(2).sum()
        (gradient,) = torch.autograd.grad(loss, latents, retain_graph=True)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rows.step(torch.arange(30), gradient)
    kept = torch.stack([dense[u][f].detach() for u, f in zip(user, feature, strict=True)])
    assert torch.allclose(rows.weights, kept, atol=1e-5)


def test_a_user_that_sits_out_counts_no_step() -> None:
    features = torch.eye(3)
    rows = UserRows(features, torch.ones(3, 2), lr=0.1, weight_decay=0.0)
    for users in ([0, 1, 2], [0], [0, 2]):
        rows.step(torch.tensor(users), torch.ones(len(users), 2))
    assert rows.steps.tolist() == [3, 1, 2]
    # Adam moves by the learning rate whatever the gradient's size: a step counts as one.
    assert torch.allclose(rows.weights[:, 0], torch.tensor([0.7, 0.9, 0.8]), atol=1e-6)


@pytest.mark.parametrize("init", ["shared", "private"])
def test_the_layout_of_the_hosts_changes_nothing(init: str, tmp_path: Path) -> None:
    models = []
    for hosts in (1, 4):
        root, method = tmp_path / str(hosts), f"method={{name: nfedgnn, init: {init}}}"
        run = runner.start(config(root, method, USERS, f"engine.hosts={hosts}"))
        models.append((run.folder.path / "model.safetensors").read_bytes())
    assert models[0] == models[1]


def test_the_uplink_is_sixteen_floats_per_user_and_round(tmp_path: Path) -> None:
    summary = runner.start(config(tmp_path, METHOD, USERS)).summary
    assert summary is not None
    assert summary["bytes"]["up"]["payload"] == 4 * 120 * 16 * 4


def test_masking_is_refused_since_the_server_needs_every_latent(tmp_path: Path) -> None:
    with pytest.raises(MaskingRefused, match="noise is the defence"):
        runner.start(config(tmp_path, METHOD, USERS, "privacy.secure_aggregation={}"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["keep", "zero"])
def test_some_users_can_sit_out_a_round(missing: str, tmp_path: Path) -> None:
    method = f"method={{name: nfedgnn, missing: {missing}}}"
    run = runner.start(config(tmp_path, method, USERS, "training.participation=0.5"))
    assert run.summary is not None
    assert run.summary["bytes"]["up"]["payload"] == 4 * 60 * 16 * 4


def test_noise_on_the_latents_is_accounted_per_user(tmp_path: Path) -> None:
    noise = "privacy={mechanism: local_gaussian, noise_multiplier: 2}"
    summary = runner.start(config(tmp_path, METHOD, USERS, noise)).summary
    assert summary is not None
    assert summary["epsilon"]["client"]["epsilon"] == pytest.approx(4.37718, abs=1e-4)
