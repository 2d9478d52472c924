"""Average ranks are scipy's, ties and NaN included."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from securefg.foundation.ranks import average_ranks, row_ranks


@given(st.lists(st.floats() | st.integers(-3, 3)))
def test_ranks_are_scipys(values: list[float]) -> None:
    assert np.array_equal(average_ranks(values), rankdata(values), equal_nan=True)


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[st.integers(-3, 3)] * n))))
def test_ranks_of_rows_are_those_of_every_row(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, np.float64).reshape(len(rows), -1 if rows else 1)
    assert np.array_equal(row_ranks(table), rankdata(table, axis=1))
