"""What a bound means for an attacker: how surely two candidates for a unit can be told apart."""

from __future__ import annotations

import math

from scipy.special import ndtr

from securefg.privacy.accountants import steps_for
from securefg.reports.bookings import Booked
from securefg.settings.privacy import Unit


def chance_to_distinguish(
    booked: tuple[Booked, ...], unit: Unit, epsilon: float, delta: float
) -> float:
    """The largest probability with which anyone who sees all uploads is right about which of two
    equally likely neighbours they came from.

    Gaussian releases compose to mu = sqrt(sum 1/z^2), which bounds it by Phi(mu / 2) (Dong et al.
    2019); any (epsilon, delta) bounds it by (e^epsilon + delta) / (e^epsilon + 1) (Kairouz et al.
    2015). Each field counts as often as for the client that released it most.
    """
    shrunk = math.exp(-epsilon)
    general = (1 + delta * shrunk) / (1 + shrunk)
    steps, unbounded = steps_for({b.mechanism: b.most for b in booked}, unit)
    gaussian = all(b.mechanism.rule == "local_gaussian" for b in booked)
    if unbounded or not gaussian or any(step.sampling < 1 for step in steps):
        return general
    mu = math.sqrt(sum(step.count / step.noise_multiplier**2 for step in steps))
    return min(general, float(ndtr(mu / 2)))
