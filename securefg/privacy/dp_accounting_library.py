"""Compositions through Google's dp-accounting: loss distributions, and Renyi divergences."""

from __future__ import annotations

from typing import Final

import dp_accounting
from dp_accounting import pld, rdp

from securefg.privacy.accountants import Composition

ORDERS: Final = (*range(2, 64), 80, 96, 128, 192, 256, 512, 1024)


def pld_accountant(steps: Composition, delta: float) -> float:
    """Return the epsilon by loss distributions, tight up to discretisation. It takes gigabytes of
    memory past an epsilon of some hundreds."""
    refuse_discrete(steps)
    accountant = pld.PLDAccountant()
    accountant.compose(_compose_event(steps))
    return max(0.0, float(accountant.get_epsilon(delta)))


def rdp_accountant(steps: Composition, delta: float) -> float:
    """Return an upper bound on epsilon, at any epsilon.

    With sampling, only integer orders count: for fractional ones the library's series need not
    converge, which it tells on the terminal every time. Fewer orders bound less tightly, not less.
    """
    sampled = any(step.sampling < 1 for step in steps)
    accountant = rdp.RdpAccountant(ORDERS if sampled else None)
    accountant.compose(_compose_event(steps))
    return max(0.0, float(accountant.get_epsilon(delta)))


def refuse_discrete(steps: Composition) -> None:
    """Raise ValueError for a discrete step. It has a Gaussian's zCDP, not its loss distribution."""
    if any(step.discrete for step in steps):
        raise ValueError("discrete noise is accounted by zCDP alone")


def _compose_event(steps: Composition) -> dp_accounting.DpEvent:
    events = []
    for step in steps:
        event = dp_accounting.GaussianDpEvent(step.noise_multiplier)
        if step.sampling < 1:
            event = dp_accounting.PoissonSampledDpEvent(step.sampling, event)
        events.append(dp_accounting.SelfComposedDpEvent(event, step.count))
    return dp_accounting.ComposedDpEvent(events)
