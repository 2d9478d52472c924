"""A rule does what it says: plain nothing, the local Gaussian a clip and then its noise."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.defences.plain import Plain
from securefg.privacy.noise import SeededNoise
from securefg.privacy.stages import clip_l2
from securefg.protocol.codec import Clients

CLIENTS = Clients(((2, 5),))
NAME = ("m.Update", "weights", 1, 1)


class Ones:
    """Noise of which every number is one, so that the sum can be read."""

    protects = True

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        assert (clients, name) == (CLIENTS, NAME)
        return torch.ones(shape, dtype=torch.float64)


def values(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(3)) * 20


def test_plain_gives_the_value_back() -> None:
    given = values(3, 4)
    assert Plain().apply(given, Ones(), CLIENTS, NAME) is given
    assert Plain().stddev(given.shape) == 0.0
    assert Plain().words() == "sent as it is"


@pytest.mark.parametrize(("adjacency", "stddev"), [("replace_one", 12.0), ("zero_out", 6.0)])
def test_the_standard_deviation_is_multiplier_times_sensitivity(
    adjacency: str, stddev: float
) -> None:
    rule = LocalGaussian(2.0, 3.0, "message", adjacency)  # type: ignore[arg-type]
    assert rule.sigma == stddev


@pytest.mark.parametrize("per", ["row", "message"])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_a_release_is_the_clipped_value_plus_the_noise(per: str, adjacency: str) -> None:
    rule = LocalGaussian(2.0, 3.0, per, adjacency)  # type: ignore[arg-type]
    given = values(3, 4, 5).double()
    found = rule.apply(given, Ones(), CLIENTS, NAME)
    wanted = clip_l2(given, 2.0, per) + rule.sigma  # type: ignore[arg-type]
    assert torch.allclose(found, wanted, rtol=0, atol=rule.grid_step / 2 + 1e-12)
    assert torch.equal(found, torch.round(found / rule.grid_step) * rule.grid_step)


@pytest.mark.parametrize("stddev", [1e-4, 0.3, 1.0, 17.0, 1e5])
def test_local_gaussian_rounds_to_a_power_of_two_below_its_noise(stddev: float) -> None:
    """A grid of sigma / 2^10 or finer: the low bits of an upload tell nothing of the value."""
    rule = LocalGaussian(1.0, stddev, "message", "zero_out")
    assert stddev / 2048 < rule.grid_step <= stddev / 1024
    assert math.log2(rule.grid_step).is_integer()
    given = values(3, 4, 5).float()
    steps = rule.apply(given, Ones(), CLIENTS, NAME).double() / rule.grid_step
    assert torch.equal(steps, steps.round())


def test_by_default_a_unit_is_replaced_and_not_removed() -> None:
    assert LocalGaussian(2.0, 3.0, "message").adjacency == "replace_one"


def test_the_noise_is_the_one_of_the_clients_and_the_stream() -> None:
    rule = LocalGaussian(1.0, 1.0, "message", "zero_out")
    zero = torch.zeros(3, 4, dtype=torch.float64)
    found = rule.apply(zero, SeededNoise(1), CLIENTS, NAME)
    assert torch.equal(found, SeededNoise(1).normal(zero.shape, CLIENTS, NAME))


def test_the_value_that_was_given_stays_as_it_was() -> None:
    given = values(3, 4).double()
    before = given.clone()
    LocalGaussian(1.0, 1.0, "row").apply(given, Ones(), CLIENTS, NAME)
    assert torch.equal(given, before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_release_keeps_the_type_of_its_field(dtype: torch.dtype) -> None:
    given = values(3, 4).to(dtype)
    assert LocalGaussian(1.0, 1.0, "row").apply(given, Ones(), CLIENTS, NAME).dtype == dtype


def test_words_name_unit_bound_and_noise() -> None:
    words = LocalGaussian(1.5, 2.0, "row").words()
    assert words == "each row clipped to L2 norm 1.5, Gaussian noise of standard deviation 6 added"
