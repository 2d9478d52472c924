"""Clipping keeps the bound per unit and touches nothing that lies within it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from securefg.privacy.stages import clip_l2, sensitivity_l2
from securefg.protocol.arrays import num_rows

BOUND = 1.5


def batch(*size: int, scale: float = 10.0, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(*size, generator=torch.Generator().manual_seed(1)) * scale).to(dtype)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.floats(1e-3, 1e3),
    st.floats(1e-20, 1e20),
    st.integers(0, 2**32 - 1),
)
def test_no_message_passes_the_bound(
    size: list[int], bound: float, scale: float, seed: int
) -> None:
    values = torch.randn(*size, generator=torch.Generator().manual_seed(seed)) * scale
    clipped = clip_l2(values, bound, "message").reshape(size[0], -1)
    assert float(clipped.norm(dim=1).max()) <= bound * (1 + 1e-14)


@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=4),
    st.floats(1e-3, 1e3),
    st.integers(0, 2**32 - 1),
)
def test_no_row_passes_the_bound(size: list[int], bound: float, seed: int) -> None:
    values = torch.randn(*size, generator=torch.Generator().manual_seed(seed)) * 10 * bound
    assert float(clip_l2(values, bound, "row").norm(dim=-1).max()) <= bound * (1 + 1e-14)


@pytest.mark.parametrize("per", ["row", "message"])
def test_what_lies_within_the_bound_is_untouched(per: str) -> None:
    values = batch(3, 4, 5, scale=0.01)
    assert torch.equal(clip_l2(values, BOUND, per), values.double())  # type: ignore[arg-type]


@pytest.mark.parametrize("per", ["row", "message"])
def test_zero_stays_zero(per: str) -> None:
    assert not bool(clip_l2(torch.zeros(3, 4, 5), BOUND, per).any())  # type: ignore[arg-type]


def test_clipping_a_message_keeps_its_direction() -> None:
    values = batch(3, 4, 5)
    clipped = clip_l2(values, BOUND, "message").flatten(1)
    cosine = torch.cosine_similarity(clipped, values.double().flatten(1), dim=1)
    assert torch.allclose(cosine, torch.ones(3, dtype=torch.float64))
    assert torch.allclose(clipped.norm(dim=1), torch.full((3,), BOUND, dtype=torch.float64))


def test_clients_are_clipped_apart() -> None:
    values = batch(3, 4, 5)
    alone = torch.cat([clip_l2(values[i : i + 1], BOUND, "message") for i in range(3)])
    assert torch.equal(clip_l2(values, BOUND, "message"), alone)
    moved = values.clone()
    moved[0] *= 1000
    assert torch.equal(clip_l2(moved, BOUND, "message")[1:], alone[1:])


def test_rows_are_clipped_apart() -> None:
    values = batch(2, 3, 4)
    moved = values.clone()
    moved[0, 0] *= 1000
    assert torch.equal(clip_l2(moved, BOUND, "row")[0, 1:], clip_l2(values, BOUND, "row")[0, 1:])
    assert torch.equal(clip_l2(moved, BOUND, "row")[1], clip_l2(values, BOUND, "row")[1])


def test_one_number_per_client_is_clipped_to_the_bound() -> None:
    clipped = clip_l2(torch.tensor([-9.0, 0.5, 9.0]), BOUND, "message")
    assert clipped.tolist() == [-BOUND, 0.5, BOUND]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int64])
def test_clipping_works_in_double(dtype: torch.dtype) -> None:
    assert clip_l2(batch(2, 3, dtype=dtype), BOUND, "message").dtype == torch.float64


def test_clipping_leaves_its_input_alone() -> None:
    values = batch(2, 3, dtype=torch.float64)
    before = values.clone()
    clip_l2(values, BOUND, "message").zero_()
    assert torch.equal(values, before)


def test_sensitivity_is_twice_the_bound_where_a_value_is_replaced() -> None:
    assert sensitivity_l2(BOUND, "replace_one") == 2 * BOUND
    assert sensitivity_l2(BOUND, "zero_out") == BOUND


@pytest.mark.parametrize(
    ("size", "rows"), [((2, 7, 4), 7), ((2, 4), 1), ((2, 3, 5, 4), 15), ((2,), 1)]
)
def test_rows_of_one_client_are_counted(size: tuple[int, ...], rows: int) -> None:
    assert num_rows(torch.zeros(size)) == rows
