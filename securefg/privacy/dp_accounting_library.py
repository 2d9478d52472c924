"""Compositions through Google's dp-accounting: loss distributions, and Renyi divergences."""

from __future__ import annotations

import dp_accounting
from dp_accounting import pld, rdp

from securefg.privacy.accountants import Composition


def pld_accountant(steps: Composition, delta: float) -> float:
    """Tight up to discretisation; gigabytes of memory past an epsilon of some hundreds."""
    refuse_discrete(steps)
    accountant = pld.PLDAccountant()
    accountant.compose(_event(steps))
    return max(0.0, float(accountant.get_epsilon(delta)))


def rdp_accountant(steps: Composition, delta: float) -> float:
    """An upper bound, at any epsilon."""
    accountant = rdp.RdpAccountant()
    accountant.compose(_event(steps))
    return max(0.0, float(accountant.get_epsilon(delta)))


def refuse_discrete(steps: Composition) -> None:
    """A discrete step has a Gaussian's zCDP, not its loss distribution."""
    if any(step.discrete for step in steps):
        raise ValueError("discrete noise is accounted by zCDP alone")


def _event(steps: Composition) -> dp_accounting.DpEvent:
    events = []
    for step in steps:
        event = dp_accounting.GaussianDpEvent(step.noise_multiplier)
        if step.sampling < 1:
            event = dp_accounting.PoissonSampledDpEvent(step.sampling, event)
        events.append(dp_accounting.SelfComposedDpEvent(event, step.count))
    return dp_accounting.ComposedDpEvent(events)
