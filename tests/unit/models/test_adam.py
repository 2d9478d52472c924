"""This Adam walks the same way as PyTorch's, and goes on from a stored state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from securefg.models.optimizers import Adam, Sgd, SteppedAdam

SIZES = ((4, 3), (3, 2))


def parameters(dtype: torch.dtype) -> list[Tensor]:
    stream = torch.Generator().manual_seed(0)
    return [torch.randn(*size, generator=stream).to(dtype).requires_grad_() for size in SIZES]


def gradients(step: int, dtype: torch.dtype) -> list[Tensor]:
    stream = torch.Generator().manual_seed(100 + step)
    return [torch.randn(*size, generator=stream).to(dtype) for size in SIZES]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-6)], ids=["f64", "f32"]
)
@pytest.mark.parametrize("decays", [(0.0, 0.0), (5e-2, 0.0), (5e-2, 0.3)])
def test_fifty_steps_equal_those_of_pytorch(
    dtype: torch.dtype, tolerance: float, decays: tuple[float, float]
) -> None:
    own_parameters, theirs = parameters(dtype), parameters(dtype)
    adam = Adam(own_parameters, decays, lr=0.01)
    groups = [{"params": [p], "weight_decay": d} for p, d in zip(theirs, decays, strict=True)]
    reference = torch.optim.Adam(groups, lr=0.01)
    for step in range(50):
        adam.step(gradients(step, dtype))
        for parameter, gradient in zip(theirs, gradients(step, dtype), strict=True):
            parameter.grad = gradient
        reference.step()
        for one, other in zip(own_parameters, theirs, strict=True):
            assert torch.allclose(one, other, rtol=tolerance, atol=tolerance)


def test_a_restored_state_goes_on_to_the_bit() -> None:
    whole, broken = parameters(torch.float32), parameters(torch.float32)
    adam, before = (Adam(p, (0.1, 0.0), lr=0.01) for p in (whole, broken))
    for step in range(20):
        adam.step(gradients(step, torch.float32))
    for step in range(8):
        before.step(gradients(step, torch.float32))
    stored = {name: value.clone() for name, value in before.state().items()}
    after = Adam(broken, (0.1, 0.0), lr=0.01)
    after.restore(stored)
    for step in range(8, 20):
        after.step(gradients(step, torch.float32))
    assert all(torch.equal(one, other) for one, other in zip(whole, broken, strict=True))


def test_the_state_holds_both_moments_and_the_count() -> None:
    adam = Adam(parameters(torch.float32), (0.0, 0.0), lr=0.01)
    adam.step(gradients(0, torch.float32))
    state = adam.state()
    assert sorted(state) == ["first.0", "first.1", "second.0", "second.1", "step_count"]
    assert int(state["step_count"]) == 1


def test_a_gradient_for_every_parameter_is_wanted() -> None:
    adam = Adam(parameters(torch.float32), (0.0, 0.0), lr=0.01)
    with pytest.raises(ValueError, match="zip"):
        adam.step(gradients(0, torch.float32)[:1])


def test_at_once_and_in_parts_are_one_step() -> None:
    at_once, in_parts = parameters(torch.float64), parameters(torch.float64)
    for parameter in in_parts:  # columns first: the kernel would read it in the wrong order
        parameter.data = parameter.data.T.contiguous().T
    adams = [Adam(own, (0.1, 0.0), lr=0.01) for own in (at_once, in_parts)]
    for step in range(5):
        turned = [g.T.contiguous().T for g in gradients(step, torch.float64)]
        for adam in adams:
            adam.step(turned)
    for one, other in zip(at_once, in_parts, strict=True):
        assert torch.allclose(one, other, rtol=1e-13, atol=1e-13)


def test_a_gradient_of_another_size_is_refused() -> None:
    adam = Adam(parameters(torch.float32), (0.0, 0.0), lr=0.01)
    with pytest.raises(RuntimeError):
        adam.step([torch.ones(2, 2), torch.ones(3, 2)])


@pytest.mark.parametrize("decay", [0.0, 5e-2])
@pytest.mark.parametrize(
    ("own_kind", "reference_kind"),
    [(SteppedAdam, torch.optim.Adam), (Sgd, torch.optim.SGD)],
    ids=["adam", "sgd"],
)
def test_stepped_optimizer_fifty_steps_equal_pytorch_to_the_bit(
    own_kind: Any, reference_kind: Any, decay: float
) -> None:
    own_parameters, theirs = parameters(torch.float32), parameters(torch.float32)
    optimizer = own_kind(own_parameters, (decay, decay), 0.01)
    reference = reference_kind(theirs, lr=0.01, weight_decay=decay)
    for step in range(50):
        optimizer.step(gradients(step, torch.float32))
        for parameter, gradient in zip(theirs, gradients(step, torch.float32), strict=True):
            parameter.grad = gradient
        reference.step()
    assert all(torch.equal(one, other) for one, other in zip(own_parameters, theirs, strict=True))
