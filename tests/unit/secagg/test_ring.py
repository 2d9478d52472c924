"""Rows of ring elements are taken from tensors of the ring's own width alone."""

from __future__ import annotations

import pytest
import torch

from securefg.foundation.errors import ProtocolError
from securefg.secagg.ring import Ring, from_ring, to_ring

WIDTHS = {32: torch.int32, 64: torch.int64}


@pytest.mark.parametrize(("bits", "dtype"), WIDTHS.items())
def test_to_ring_of_its_width_keeps_the_bits(bits: int, dtype: torch.dtype) -> None:
    values = torch.tensor([[-1, 5], [7, -(2 ** (bits - 1))]], dtype=dtype)
    rows = to_ring(values, Ring(bits))
    assert rows.tolist() == [[2**bits - 1, 5], [7, 2 ** (bits - 1)]]
    assert torch.equal(from_ring(rows), values)


@pytest.mark.parametrize(("bits", "other"), [(32, torch.int64), (64, torch.int32)])
def test_to_ring_of_another_width_is_refused(bits: int, other: torch.dtype) -> None:
    with pytest.raises(ProtocolError, match=f"wanted elements of {bits} bits"):
        to_ring(torch.zeros(1, 2, dtype=other), Ring(bits))
