"""Masks hide every upload and vanish from the sum to the bit."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.secagg import masks as masks_module
from securefg.secagg.masks import Mask, RowMask, Sign, apply_masks, apply_row_masks
from securefg.secagg.prg import CHUNK_BYTES, Keystream
from securefg.secagg.ring import Ring
from securefg.secagg.secret import Secret


def key(*parts: int) -> Secret:
    return Secret(bytes(parts).ljust(32, b"\x00"))


def batch(bits: int, num_rows: int, dim: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2**bits, (num_rows, dim), dtype=Ring(bits).dtype.type)


def pair_masks(num_rows: int) -> list[RowMask]:
    return [RowMask(key(i, j), i, j) for i, j in combinations(range(num_rows), 2)]


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([32, 64]),
    st.integers(2, 6),
    st.integers(0, 70),
    st.integers(0, 2**32 - 1),
)
def test_masked_sum_equals_plain_sum(bits: int, num_rows: int, dim: int, seed: int) -> None:
    plain = batch(bits, num_rows, dim, seed)
    masked = plain.copy()
    apply_row_masks(masked, pair_masks(num_rows))
    assert np.array_equal(masked.sum(0, dtype=plain.dtype), plain.sum(0, dtype=plain.dtype))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([32, 64]), st.integers(1, 70), st.lists(st.sampled_from(Sign), max_size=5))
def test_opposite_masks_take_each_other_off(bits: int, dim: int, signs: list[Sign]) -> None:
    plain = batch(bits, 1, dim)[0]
    masked = plain.copy()
    apply_masks(masked, [Mask(key(i), sign) for i, sign in enumerate(signs)])
    apply_masks(masked, [Mask(key(i), sign.opposite_sign()) for i, sign in enumerate(signs)])
    assert np.array_equal(masked, plain)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_mask_is_the_little_endian_keystream_across_chunk_borders(bits: int, extra: int) -> None:
    dtype = Ring(bits).dtype
    vector = np.zeros(2 * CHUNK_BYTES // dtype.itemsize + extra, dtype)
    apply_masks(vector, [Mask(key(7), Sign.ADD)])
    assert vector.tobytes() == Keystream(key(7)).read(vector.nbytes)


def test_a_host_of_many_clients_masks_as_each_would_alone() -> None:
    plain = batch(32, 4, 50_000)
    together = plain.copy()
    own = [RowMask(key(100 + i), i, None) for i in range(4)]
    apply_row_masks(together, pair_masks(4) + own)
    for i in range(4):
        alone = plain[i].copy()
        pairs = [Mask(key(min(i, j), max(i, j)), Sign.of(i, j)) for j in range(4) if j != i]
        apply_masks(alone, [*pairs, Mask(key(100 + i), Sign.ADD)])
        assert np.array_equal(together[i], alone)


def test_a_pair_within_one_host_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Secret] = []

    def counted(mask_key: Secret) -> Keystream:
        made.append(mask_key)
        return Keystream(mask_key)

    monkeypatch.setattr(masks_module, "Keystream", counted)
    apply_row_masks(batch(32, 5, 10), pair_masks(5))
    assert len(made) == 10


def test_every_row_of_a_host_is_truly_masked() -> None:
    rows = np.zeros((5, 40_000), np.uint32)
    apply_row_masks(rows, pair_masks(5))
    # Uniform words have mean 2^31 and standard deviation 2^32 / sqrt(12).
    assert np.all(np.abs(rows.mean(1) - 2**31) < 5 * 2**32 / np.sqrt(12 * 40_000))
    assert len(np.unique(rows)) > 0.99 * rows.size


def test_a_mask_that_would_cancel_on_its_own_row_is_refused() -> None:
    for row in (None, 3):
        with pytest.raises(ValueError, match="must change something"):
            RowMask(key(1), row, row)


def test_a_party_has_no_mask_with_itself() -> None:
    assert (Sign.of(1, 2), Sign.of(2, 1)) == (Sign.ADD, Sign.SUBTRACT)
    with pytest.raises(ValueError, match="with itself"):
        Sign.of(2, 2)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(4, np.int32),
        np.zeros(4, np.float32),
        np.zeros(4, ">u4"),
        np.zeros((2, 2), np.uint32),
        np.zeros(8, np.uint32)[::2],
    ],
)
def test_what_is_no_ring_vector_is_refused(array: Any) -> None:
    with pytest.raises(TypeError, match="masks go on"):
        apply_masks(array, [Mask(key(1), Sign.ADD)])


@pytest.mark.parametrize("row", [-1, 2])
def test_a_mask_on_a_row_that_is_not_there_is_refused_before_any_is_put_on(row: int) -> None:
    rows = np.zeros((2, 4), np.uint32)
    with pytest.raises(IndexError, match=f"row {row}"):
        apply_row_masks(rows, [RowMask(key(1), 0, 1), RowMask(key(2), row, None)])
    assert not rows.any()
