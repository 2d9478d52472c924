"""The tails of laws are scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2
from scipy.stats import t as student

from audits.laws import (
    binomial_at_least,
    chi2_log_cdf,
    chi2_log_sf,
    chi2_quantile,
    student_sf,
)


@pytest.mark.parametrize("degrees", [1, 7, 1000])
def test_chi_squares_are_scipys(degrees: int) -> None:
    x = degrees * np.array([1e-3, 0.5, 1.0, 2.0])
    assert np.allclose(chi2_log_cdf(x, degrees), chi2.logcdf(x, degrees), rtol=1e-9)
    assert np.allclose(chi2_log_sf(x, degrees), chi2.logsf(x, degrees), rtol=1e-9)
    for p in (1e-12, 0.5, 0.999):
        assert chi2_quantile(p, degrees) == pytest.approx(chi2.ppf(p, degrees), rel=1e-9)


@pytest.mark.parametrize(("trials", "p"), [(1, 0.5), (66, 0.9), (1510, 0.01)])
def test_binomial_tails_are_scipys_at_both_ends(trials: int, p: float) -> None:
    least = np.arange(-1, trials + 2)
    found = binomial_at_least(least, trials, p)
    assert np.allclose(found, binom.sf(least - 1, trials, p), rtol=1e-8, atol=1e-300)


def test_students_tail_is_scipys() -> None:
    for x in (0.0, 2.0, 40.0):
        assert student_sf(x, 9) == pytest.approx(student.sf(x, 9), rel=1e-9)
