"""The size of the noise in arrays of the planned shape, which the other games cut short."""

from __future__ import annotations

import math

from audits.empirical_epsilon import LARGEST_MU, EpsilonBound, epsilon_of_mu
from audits.laws import chi2_quantile
from audits.mechanisms.effort import trials_in_full_shape
from audits.mechanisms.message import AuditedMessage, Floats
from audits.mechanisms.results import MechanismResult


def measure_shape(message: AuditedMessage) -> list[MechanismResult]:
    """At the planned shape every number of a field's noise is a draw of the same law: the standard
    deviation of Gaussian noise says mu = S / sd for the unit's canary. Of other noise it says no
    epsilon, and `play_whole` tests its size."""
    if not message.is_gaussian:
        return []
    host = message.host(rows=None)
    seen, _ = host.emit({}, host.enrol(trials_in_full_shape(host)), 1)
    results = []
    for release in message.claimed:
        distance = message.distance(release)
        bound = _noise_bound(seen[release.field], distance, message.policy.delta, 1 - message.level)
        results.append(message.result("shape", release, host, gdp=bound))
    return results


def _noise_bound(noise: Floats, distance: float, delta: float, confidence: float) -> EpsilonBound:
    """mu >= distance / (the upper end of the noise's standard deviation)."""
    count = noise.size
    upper = float(noise.std()) * math.sqrt(count / chi2_quantile(1 - confidence, count - 1))
    mu = min(LARGEST_MU, distance / upper) if upper > 0 else LARGEST_MU
    ceiling = epsilon_of_mu(LARGEST_MU, delta)
    return EpsilonBound(epsilon_of_mu(mu, delta), delta, confidence, "gdp", ceiling, count)
