"""Non-negative least squares: exact where the equations are, an answer where they are noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from attacks.rows import non_negative


def test_a_sparse_non_negative_row_is_recovered() -> None:
    rng = np.random.default_rng(0)
    design, truth = rng.standard_normal((60, 200)), np.zeros(200)
    truth[[3, 50, 120]] = [0.5, 1.0, 0.2]
    assert non_negative(design, design @ truth) == pytest.approx(truth, abs=1e-8)


def test_a_search_that_wanders_still_answers() -> None:
    rng = np.random.default_rng(0)
    design, right = rng.standard_normal((40, 80)), rng.standard_normal(40)
    with pytest.raises(RuntimeError, match="iterations"):
        nnls(design, right, maxiter=1)
    found = non_negative(design, right, patience=0)
    assert found.shape == (80,)
    assert (found >= 0).all()
    assert np.isfinite(found).all()
