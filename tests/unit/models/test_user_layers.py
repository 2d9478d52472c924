"""A layer per user: sparse rows are the dense computation, and users are independent."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from securefg.models import user_weights
from securefg.models.user_weights import SparseFeatures, UserMatrices, UserRows


def some_features() -> Tensor:
    stream = torch.Generator().manual_seed(0)
    features = (torch.rand(30, 12, generator=stream) < 0.3).float() * 0.7
    features[4] = 0  # a user without any word
    return features


@pytest.mark.parametrize("rows_at_once", [7, 8192])
def test_sparse_rows_are_the_dense_computation_over_20_adam_steps(
    rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_weights, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(user_weights, "NUMBERS_AT_ONCE", 60 * rows_at_once)
    features, stream = some_features(), torch.Generator().manual_seed(1)
    dense = [torch.rand(12, 5, generator=stream, requires_grad=True) for _ in features]
    whole = torch.stack([w.detach().clone() for w in dense])
    user, feature = features.nonzero(as_tuple=True)
    rows = UserRows(SparseFeatures.of(features), whole[user, feature], 0.05, 5e-4)
    matrices = UserMatrices(features, whole, 0.05, 5e-4)
    adam = torch.optim.Adam(dense, lr=0.05, weight_decay=5e-4)
    for _ in range(20):
        latents = torch.stack([x @ w for x, w in zip(features, dense, strict=True)])
        assert torch.allclose(rows.latents(), latents, atol=1e-5)
        assert torch.allclose(matrices.latents(), latents, atol=1e-5)
        loss = (latents - 1).pow(2).sum()
        (gradient,) = torch.autograd.grad(loss, latents, retain_graph=True)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rows.step(torch.arange(30), gradient)
        matrices.step(torch.arange(30), gradient)
    kept = torch.stack([w.detach() for w in dense])
    assert torch.allclose(rows.weights, kept[user, feature], atol=1e-5)
    assert torch.allclose(matrices.weights, kept, atol=1e-5)


@pytest.mark.parametrize("layer", ["rows", "matrices"])
def test_a_user_that_sits_out_counts_no_step(layer: str) -> None:
    features = torch.eye(3)
    users: UserRows | UserMatrices
    if layer == "rows":
        users = UserRows(SparseFeatures.of(features), torch.ones(3, 2), 0.1, 0.0)
    else:
        users = UserMatrices(features, torch.ones(3, 3, 2), 0.1, 0.0)
    for asked in ([0, 1, 2], [0], [0, 2]):
        users.step(torch.tensor(asked), torch.ones(len(asked), 2))
    assert users.steps.tolist() == [3, 1, 2]
    # Adam moves by the learning rate whatever the gradient's size: a step counts as one.
    assert torch.allclose(users.latents()[:, 0], torch.tensor([0.7, 0.9, 0.8]), atol=1e-6)


def test_some_users_rows_move_as_if_they_were_alone() -> None:
    features, gradient = some_features(), torch.ones(30, 5)
    sparse = SparseFeatures.of(features)
    start = torch.ones(len(sparse.values), 5)
    all_of_them, some = (UserRows(sparse, start.clone(), 0.05, 5e-4) for _ in range(2))
    all_of_them.step(torch.arange(30), gradient)
    chosen = torch.tensor([1, 7, 20])
    some.step(chosen, gradient[chosen])
    moved = torch.isin(sparse.owners, chosen)
    assert torch.equal(some.weights[moved], all_of_them.weights[moved])
    assert torch.equal(some.weights[~moved], start[~moved])


def test_sparse_features_keep_every_entry_and_empty_users() -> None:
    features = some_features()
    sparse = SparseFeatures.of(features)
    again = torch.zeros_like(features)
    again[sparse.owners.long(), sparse.columns.long()] = sparse.values
    assert torch.equal(again, features)
    assert (sparse.num_users, sparse.num_columns) == (30, 12)


def test_averaged_users_go_on_from_one_matrix() -> None:
    matrices = UserMatrices(torch.eye(3), torch.zeros(3, 3, 2), 0.1, 0.0)
    matrices.take(torch.tensor([0, 2]), torch.ones(3, 2))
    assert matrices.latents()[:, 0].tolist() == [1, 0, 1]
