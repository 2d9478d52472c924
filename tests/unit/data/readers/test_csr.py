"""Wrong indices never reach scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from securefg.data.readers.folder import dense_csr

GOOD: dict[str, Any] = {
    "data": np.array([1.0, 2.0, 3.0]),
    "indices": np.array([0, 3, 1]),
    "indptr": np.array([0, 2, 3]),
    "shape": (2, 4),
    "stored": 100,
}


def test_a_good_matrix_is_scipys() -> None:
    parts = (GOOD["data"], GOOD["indices"], GOOD["indptr"])
    assert np.array_equal(dense_csr(**GOOD), csr_matrix(parts, shape=(2, 4)).toarray())


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": np.array([0, 4, 1])},
        {"indices": np.array([0, -1, 1])},
        {"indices": np.array([0, 2**62, 1])},
        {"indices": np.array([0.0, 3.0, 1.0])},
        {"indices": np.array([0, 3])},
        {"indptr": np.array([0, 2, 9])},
        {"indptr": np.array([0, 9, 3])},
        {"indptr": np.array([-5, 2, 3])},
        {"indptr": np.array([0, 2**40, 3])},
        {"indptr": np.array([0, 3])},
        {"data": np.array([[1.0, 2.0, 3.0]])},
        {"data": np.array(["a", "b", "c"])},
        {"shape": (2, 2**40)},
        {"shape": (2, -4)},
        {"shape": (2, 4, 1)},
        {"shape": (2.0, 4)},
    ],
)
def test_indices_that_do_not_fit_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="matrix of shape"):
        dense_csr(**{**GOOD, **changed})
