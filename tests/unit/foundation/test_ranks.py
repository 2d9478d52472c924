"""Average ranks are scipy's, ties and NaN included."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from securefg.foundation.ranks import average_ranks


@given(st.lists(st.floats() | st.integers(-3, 3)))
def test_ranks_are_scipys(values: list[float]) -> None:
    assert np.array_equal(average_ranks(values), rankdata(values), equal_nan=True)
