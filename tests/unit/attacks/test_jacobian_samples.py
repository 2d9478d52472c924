"""Samples come back exactly from Jacobians: one of any kind, several of 0 and 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attacks.samples import samples_of_mixture
from securefg.models.two_layer_mlp import compact_jacobian, mean_hidden


def mixture(samples: torch.Tensor, seed: int, hidden: int = 64) -> np.ndarray:
    """M of one client's upload, by the method's own code."""
    first = torch.randn(hidden, samples.shape[1], generator=torch.Generator().manual_seed(seed))
    gates, mean = mean_hidden(first, samples[None])
    return compact_jacobian(gates, mean, samples[None])[0, :, :-1].double().numpy()


def binary(count: int, seed: int, width: int = 200) -> torch.Tensor:
    stream = torch.Generator().manual_seed(seed)
    return (torch.rand(count, width, generator=stream) < 0.05).float()


@pytest.mark.parametrize("seed", range(10))
def test_one_continuous_sample_is_recovered_exactly(seed: int) -> None:
    sample = torch.randn(1, 50, generator=torch.Generator().manual_seed(seed))
    assert samples_of_mixture(mixture(sample, seed), 1) == pytest.approx(sample.numpy(), abs=1e-6)


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("seed", range(3))
def test_every_one_of_several_binary_samples_is_recovered(count: int, seed: int) -> None:
    samples = binary(count, seed)
    found = {tuple(row) for row in samples_of_mixture(mixture(samples, seed), count)}
    assert found >= {tuple(row) for row in samples.double().tolist()}


def test_the_span_of_continuous_samples_is_recovered() -> None:
    samples = torch.randn(6, 50, generator=torch.Generator().manual_seed(0))
    basis = samples_of_mixture(mixture(samples, 0), 6)
    outside = samples.double().numpy() @ (np.eye(50) - basis.T @ basis)
    assert np.abs(outside).max() < 1e-3


def test_noise_of_the_size_of_the_rows_leaves_no_exact_sample() -> None:
    sample = binary(1, 0)
    rng = np.random.default_rng(0)
    noised = mixture(sample, 0) + 3 * rng.standard_normal((64, 200))
    found = samples_of_mixture(noised, 1)[0]
    cosine = found @ sample[0].numpy() / np.linalg.norm(found) / float(sample.norm())
    assert cosine < 0.9
