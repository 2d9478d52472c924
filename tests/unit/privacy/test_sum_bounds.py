"""A sum that honest clients could not have made is not used."""

from __future__ import annotations

import numpy as np
import pytest

from securefg.foundation.errors import RoundAborted
from securefg.privacy.defence import finest_scale
from securefg.privacy.defences.plain import Plain
from securefg.privacy.masking_plan import MaskedField
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import Ring

FIELD = MaskedField(Plain(), Grid(6, 16.0, finest_scale(Ring(32), 6 * 16.0), dim=1000))


def honest(rng: np.random.Generator) -> np.ndarray:
    rows = FIELD.grid.quantise_values(rng.uniform(-16, 16, (6, 1000)))
    return np.asarray(rows.sum(0, dtype=np.uint32))


def test_honest_sums_pass() -> None:
    FIELD.require_bound(honest(np.random.default_rng(0)), 6, "Upload.x")
    full = FIELD.grid.quantise_values(np.full((6, 1000), 99.0)).sum(0, dtype=np.uint32)
    FIELD.require_bound(full, 6, "Upload.x")


def test_raw_words_of_the_ring_are_seen() -> None:
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 2**32, 1000, np.uint64).astype(np.uint32)
    with pytest.raises(RoundAborted, match="outside the bound"):
        FIELD.require_bound(honest(rng) + raw, 6, "Upload.x")


def test_one_number_four_times_the_bound_of_all_is_seen() -> None:
    total = FIELD.grid.quantise_values(np.zeros((1, 1000)))[0]
    total[3] = np.uint32(int(4 * 6 * 16 * FIELD.grid.scale) - 1)
    with pytest.raises(RoundAborted, match="outside the bound"):
        FIELD.require_bound(total, 6, "Upload.x")
