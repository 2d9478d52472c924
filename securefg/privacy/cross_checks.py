"""The same compositions through other libraries' accountants, to check the claimed epsilon.

Opacus' GDP accountant is missing on purpose: it under-reports (1.618 against 1.828 at noise
multiplier 1, sampling .01, 1000 steps, delta 1e-5).
"""

from __future__ import annotations

import warnings

from opacus.accountants import PRVAccountant, RDPAccountant

from securefg.privacy.accountants import Accountant, Composition
from securefg.privacy.dp_accounting_library import (
    pld_accountant,
    rdp_accountant,
    refuse_discrete,
)


def opacus_rdp(steps: Composition, delta: float) -> float:
    """Return the epsilon of a composition by Opacus' RDP accountant."""
    return _opacus_epsilon(RDPAccountant(), steps, delta)


def opacus_prv(steps: Composition, delta: float) -> float:
    """Return the epsilon of a composition by Opacus' PRV accountant. Raise ValueError for discrete
    noise."""
    refuse_discrete(steps)
    return _opacus_epsilon(PRVAccountant(), steps, delta)


def _opacus_epsilon(
    accountant: RDPAccountant | PRVAccountant, steps: Composition, delta: float
) -> float:
    accountant.history = [(s.noise_multiplier, s.sampling, s.count) for s in steps]
    with warnings.catch_warnings():
        # Opacus warns where its grid of orders ends; the bound is sound, only less tight.
        warnings.simplefilter("ignore")
        return max(0.0, float(accountant.get_epsilon(delta)))


CROSS_CHECKS: dict[str, Accountant] = {
    "dp-accounting PLD": pld_accountant,
    "dp-accounting RDP": rdp_accountant,
    "Opacus RDP": opacus_rdp,
    "Opacus PRV": opacus_prv,
}
