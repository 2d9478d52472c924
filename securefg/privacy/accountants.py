"""Accountants: from a ledger's facts to an epsilon, by several independent routes.

Every accountant reads the same composition, a list of (noise multiplier, sampling rate, count).
The claim is the tightest sound one: the exact trade-off for plain Gaussians, `dp-accounting`'s
privacy loss distributions where a hidden sample amplifies. `cross_checks.py` holds the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from scipy.optimize import brentq
from scipy.special import log_ndtr

from securefg.foundation.errors import ConfigError
from securefg.privacy.ledger import Ledger, Mechanism
from securefg.settings.privacy import Unit

# Past this, discretised loss distributions take gigabytes; the exact and RDP routes do not.
MAX_DISCRETISED_EPSILON = 60.0


@dataclass(frozen=True)
class Step:
    """`count` Gaussian releases of one unit, each drawn with probability `sampling`.

    A discrete step has the zCDP of a Gaussian with this multiplier, but not its exact trade-off.
    """

    noise_multiplier: float
    count: int
    sampling: float = 1.0
    discrete: bool = False


Composition = tuple[Step, ...]


class Accountant(Protocol):
    def __call__(self, steps: Composition, delta: float) -> float: ...


@dataclass(frozen=True)
class Claim:
    """What the ledger lets us promise for one unit. `because` names what makes it infinite."""

    unit: Unit
    epsilon: float
    delta: float
    because: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        return math.isfinite(self.epsilon)


def exact_gaussian(steps: Composition, delta: float) -> float:
    """n Gaussian releases are one with mu = sqrt(sum 1/z^2) (Dong et al. 2019); its epsilon solves
    delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2) (Balle and Wang 2018)."""
    if any(step.sampling < 1 or step.discrete for step in steps):
        raise ValueError("the exact Gaussian accountant knows no sampling and no discrete noise")
    mu = math.sqrt(sum(step.count / step.noise_multiplier**2 for step in steps))
    if mu == 0 or _gaussian_log_delta(0.0, mu) <= math.log(delta):
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    root = brentq(lambda eps: _gaussian_log_delta(eps, mu) - math.log(delta), 0.0, high, xtol=1e-12)
    return float(root)


def _gaussian_log_delta(epsilon: float, mu: float) -> float:
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return first + math.log(-math.expm1(min(second - first, -1e-300)))


@lru_cache(maxsize=4096)
def tightest(steps: Composition, delta: float) -> float:
    """The claimed epsilon: exact for plain Gaussians, PLD for sampled ones, RDP for zCDP."""
    if not steps:
        return 0.0
    if all(step.sampling == 1 and not step.discrete for step in steps):
        return exact_gaussian(steps, delta)
    # Loading the library takes most of a second, which runs without sampling need not pay.
    from securefg.privacy.dp_accounting_library import pld_accountant, rdp_accountant

    upper = rdp_accountant(steps, delta)
    if upper > MAX_DISCRETISED_EPSILON or any(step.discrete for step in steps):
        return upper
    return pld_accountant(steps, delta)


def steps_for(profile: dict[Mechanism, int], unit: Unit) -> tuple[Composition, tuple[str, ...]]:
    """The releases that touch one unit, and the fields that leave it without a bound.

    A whole message bounds each of its rows too. n rows with noise multiplier z each bound the
    client's whole message with z / sqrt(n).
    """
    merged: dict[tuple[float, float, bool], int] = {}
    unbounded = []
    for mechanism, count in profile.items():
        if count == 0:
            continue
        if mechanism.noise_multiplier is None or mechanism.noise_multiplier <= 0:
            unbounded.append(mechanism.field)
            continue
        multiplier, sampling = _for_unit(mechanism, mechanism.noise_multiplier, unit)
        key = (multiplier, sampling, mechanism.rule == "distributed_discrete")
        merged[key] = merged.get(key, 0) + count * mechanism.steps
    steps = tuple(Step(z, count, q, d) for (z, q, d), count in sorted(merged.items()))
    return steps, tuple(sorted(set(unbounded)))


def _for_unit(mechanism: Mechanism, multiplier: float, unit: Unit) -> tuple[float, float]:
    """Noise multiplier and sampling rate as they protect the unit.

    Rows that lie side by side move a message by sqrt(n) of one row's bound. The samples of DP-SGD
    add up in one vector, so n of them move it by n, and sampling hides no whole client.
    """
    if unit == "row" or mechanism.per == "message":
        return multiplier, mechanism.sampling
    if mechanism.rule == "dp_sgd":
        return multiplier / mechanism.num_rows, 1.0
    return multiplier / math.sqrt(mechanism.num_rows), mechanism.sampling


def claim(
    profiles: Iterable[dict[Mechanism, int]],
    unit: Unit,
    delta: float,
    accountant: Accountant = tightest,
) -> Claim:
    """The worst client's epsilon. One un-noised field beside noised ones makes it infinite."""
    epsilon, because = 0.0, set[str]()
    for profile in profiles:
        steps, unbounded = steps_for(profile, unit)
        because.update(unbounded)
        if not unbounded:
            epsilon = max(epsilon, accountant(steps, delta) if steps else 0.0)
    return Claim(unit, math.inf if because else epsilon, delta, tuple(sorted(because)))


def claims(ledger: Ledger, delta: float, accountant: Accountant = tightest) -> list[Claim]:
    """One claim per unit that occurs: the client always, the row where a field has rows."""
    profiles = ledger.profiles()
    has_rows = any(mechanism.per == "row" for mechanism in ledger.mechanisms)
    units: list[Unit] = ["client", "row"] if has_rows else ["client"]
    return [claim(profiles, unit, delta, accountant) for unit in units]


def calibrate(planned: dict[Mechanism, int], unit: Unit, delta: float, target: float) -> float:
    """The common noise multiplier with which the planned releases cost `target` epsilon.

    `planned` gives the releases at noise multiplier 1.
    """

    def excess(log_multiplier: float) -> float:
        scale = math.exp(log_multiplier)
        steps, _ = steps_for(planned, unit)
        scaled = tuple(replace(s, noise_multiplier=s.noise_multiplier * scale) for s in steps)
        return tightest(scaled, delta) - target

    low, high = math.log(1e-4), math.log(1e7)
    if excess(low) < 0 or excess(high) > 0:
        raise ConfigError(
            f"privacy.target_epsilon: no noise multiplier between 1e-4 and 1e7 gives {target:g} "
            "for the planned releases"
        )
    return math.exp(float(brentq(excess, low, high, xtol=1e-10)))
