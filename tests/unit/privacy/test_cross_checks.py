"""Other libraries' accountants agree with the claim: bounds lie above it, numbers near it."""

from __future__ import annotations

import pytest
from opacus.accountants import GaussianAccountant

from securefg.privacy.accountants import Step, tightest
from securefg.privacy.cross_checks import CROSS_CHECKS, opacus_prv, opacus_rdp

COMPOSITIONS = [
    ((Step(1.0, 1),), 1e-5),
    ((Step(5.0, 100),), 1e-5),
    ((Step(1.0, 1000, 0.01),), 1e-5),
    ((Step(1.5, 2250, 0.04),), 1e-5),
    ((Step(2.0, 10, 0.1), Step(6.0, 5)), 1e-5),
]
# Opacus' PRV numbers are upper ends: its own error of 0.01, plus what it moves into delta.
PRV_ERROR = 0.012


@pytest.mark.parametrize(("steps", "delta"), COMPOSITIONS)
def test_opacus_agrees_with_the_claim(steps: tuple[Step, ...], delta: float) -> None:
    """Its Renyi bound is never below the claim; its PRV number is within its error above it."""
    claimed = tightest(steps, delta)
    assert claimed - 1e-6 <= opacus_rdp(steps, delta) < 1.5 * claimed
    assert -1e-4 < opacus_prv(steps, delta) - claimed < PRV_ERROR


@pytest.mark.parametrize("name", CROSS_CHECKS)
def test_no_accountant_is_below_the_claim(name: str) -> None:
    steps = (Step(4.0, 10), Step(6.0, 3))
    assert CROSS_CHECKS[name](steps, 1e-5) >= tightest(steps, 1e-5) - 1e-4


def test_the_central_limit_accountant_under_reports_and_is_not_used() -> None:
    with pytest.warns(UserWarning, match="can underestimate privacy expenditure"):
        accountant = GaussianAccountant()
    accountant.history = [(1.0, 0.01, 1000)]
    found = accountant.get_epsilon(1e-5)
    assert found == pytest.approx(1.618, abs=1e-3)
    assert found < tightest((Step(1.0, 1000, 0.01),), 1e-5) - 0.2
    assert not any("GDP" in name for name in CROSS_CHECKS)


@pytest.mark.parametrize("accountant", [opacus_rdp, opacus_prv])
def test_more_releases_cost_more_in_every_library(accountant: object) -> None:
    assert callable(accountant)
    assert accountant((Step(4.0, 20),), 1e-5) < accountant((Step(4.0, 40),), 1e-5)
