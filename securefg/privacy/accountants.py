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
from typing import Literal, Protocol

from securefg.foundation.errors import ConfigError
from securefg.foundation.roots import root_between
from securefg.privacy.influence import Population
from securefg.privacy.ledger import Ledger, Mechanism, Reach
from securefg.settings.privacy import GRAPH_UNITS, Unit

# Past this, discretised loss distributions take gigabytes; the exact and RDP routes do not.
MAX_DISCRETISED_EPSILON = 60.0


@dataclass(frozen=True)
class Step:
    """A step of `count` Gaussian releases of one unit, each drawn with probability `sampling`.

    A discrete step has the zCDP of a Gaussian with this multiplier, but not its exact trade-off.
    """

    noise_multiplier: float
    count: int
    sampling: float = 1.0
    discrete: bool = False


Composition = tuple[Step, ...]


class Accountant(Protocol):
    """A function from a composition and a delta to an epsilon."""

    def __call__(self, steps: Composition, delta: float) -> float: ...


Relation = Literal["replaced", "zeroed out", "removed or added", "removed, added or changed"]


@dataclass(frozen=True)
class Claim:
    """A promise that the ledger allows for one unit. `because` names what makes it infinite.

    relation   how neighbouring data differ in the unit
    holders    the largest number of clients that one unit is with
    num_units  how many units there are, where that is known; delta is to be seen beside it
    given      what the server was given of such units without noise, which makes it infinite too
    """

    unit: Unit
    epsilon: float
    delta: float
    because: tuple[str, ...] = ()
    relation: Relation = "replaced"
    holders: int = 1
    num_units: int | None = None
    given: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        """Return whether the epsilon is finite."""
        return math.isfinite(self.epsilon)


def exact_gaussian(steps: Composition, delta: float) -> float:
    """Return the exact epsilon of Gaussian releases.

    n Gaussian releases are one with mu = sqrt(sum 1/z^2) (Dong et al. 2019). Its epsilon solves
    delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2) (Balle and Wang 2018).
    """
    if any(step.sampling < 1 or step.discrete for step in steps):
        raise ValueError("the exact Gaussian accountant knows no sampling and no discrete noise")
    mu = math.sqrt(sum(step.count / step.noise_multiplier**2 for step in steps))
    if mu == 0 or _gaussian_log_delta(0.0, mu) <= math.log(delta):
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    target = math.log(delta)
    return root_between(lambda eps: _gaussian_log_delta(eps, mu) - target, 0.0, high, xtol=1e-12)


def _gaussian_log_delta(epsilon: float, mu: float) -> float:
    from scipy.special import log_ndtr  # half a second that runs without noise need not pay

    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return first + math.log(-math.expm1(min(second - first, -1e-300)))


@lru_cache(maxsize=4096)
def tightest(steps: Composition, delta: float) -> float:
    """Return the claimed epsilon: exact for plain Gaussians, PLD for sampled ones, RDP for zCDP."""
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
    """Return the releases that touch one unit, and the fields that leave it without a bound.

    A whole message's bound holds for its rows too. n rows with noise multiplier z each bound the
    client's whole message with z / sqrt(n). A node, or an edge, meets what was booked for it.
    """
    merged: dict[tuple[float, float, bool], int] = {}
    unbounded = []
    for mechanism, count in profile.items():
        met = _met_by(mechanism, unit)
        if count == 0 or met.times == 0:
            continue
        if met.noise_multiplier is None or met.noise_multiplier <= 0:
            unbounded.append(mechanism.field)
            continue
        key = (met.noise_multiplier, met.sampling, mechanism.accounting == "zcdp")
        merged[key] = merged.get(key, 0) + count * mechanism.steps * met.times
    steps = tuple(Step(z, count, q, d) for (z, q, d), count in sorted(merged.items()))
    return steps, tuple(sorted(set(unbounded)))


def _met_by(mechanism: Mechanism, unit: Unit) -> Reach:
    """Return the noise that a unit meets in one release.

    Rows that lie side by side move a message by sqrt(n) of one row's bound. The samples of a
    training add up in one vector, so n of them move it by n, and sampling hides no whole client. If
    the whole message is clipped, a row that is zeroed out lets the others grow: both messages lie
    in the ball of radius C, at no more than a right angle, so sqrt(2) C apart and not C.
    """
    if unit in ("node", "features"):
        return mechanism.node
    if unit == "edge":
        return mechanism.edge
    multiplier = mechanism.noise_multiplier
    whole = mechanism.per == "message"
    if unit == "row" and whole and mechanism.adjacency == "zero_out" and multiplier is not None:
        return Reach(multiplier / math.sqrt(2), sampling=mechanism.sampling)
    if multiplier is None or unit == "row" or whole:
        return Reach(multiplier, sampling=mechanism.sampling)
    if mechanism.accounting == "gaussian_steps":
        return Reach(multiplier / mechanism.num_rows)
    return Reach(multiplier / math.sqrt(mechanism.num_rows), sampling=mechanism.sampling)


def claim(
    profiles: Iterable[dict[Mechanism, int]],
    unit: Unit,
    delta: float,
    accountant: Accountant = tightest,
    population: Population | None = None,
) -> Claim:
    """Return the worst unit's epsilon. One un-noised field beside noised ones makes it infinite.

    A client's epsilon is that of its own releases. A node may be with clients that released
    different things: each field counts as often as at the client that released it most.
    """
    profiles = list(profiles)
    if unit in GRAPH_UNITS and profiles:
        profiles = [_most_of_each(profiles)]
    epsilon, because = 0.0, set[str]()
    for profile in profiles:
        steps, unbounded = steps_for(profile, unit)
        because.update(unbounded)
        if not unbounded:
            epsilon = max(epsilon, accountant(steps, delta) if steps else 0.0)
    given = population.given if population is not None and unit in ("node", "edge") else ()
    return Claim(
        unit=unit,
        epsilon=math.inf if because or given else epsilon,
        delta=delta,
        because=tuple(sorted(because)),
        relation=_narrowest_relation(
            [m for p in profiles for m, count in p.items() if count], unit
        ),
        holders=1 if population is None else population.holders(unit),
        num_units=None if population is None else population.count(unit),
        given=given,
    )


def _most_of_each(profiles: list[dict[Mechanism, int]]) -> dict[Mechanism, int]:
    most: dict[Mechanism, int] = {}
    for profile in profiles:
        for mechanism, count in profile.items():
            most[mechanism] = max(count, most.get(mechanism, 0))
    return most


def _narrowest_relation(mechanisms: list[Mechanism], unit: Unit) -> Relation:
    """Return the narrowest relation of all releases, because no claim may say more than each of
    them."""
    if unit in GRAPH_UNITS:
        by_removal = any(_met_by(m, unit).removal and _met_by(m, unit).times for m in mechanisms)
        return "removed or added" if by_removal else "removed, added or changed"
    noisy = [m for m in mechanisms if m.noise_multiplier is not None]
    return "zeroed out" if any(m.adjacency == "zero_out" for m in noisy) else "replaced"


def claim_units(
    ledger: Ledger,
    delta: float,
    accountant: Accountant = tightest,
    population: Population | None = None,
) -> list[Claim]:
    """Return one claim per unit: the client, the row if a field has rows, the node and the edge,
    and a node's features if the server is given other data of it."""
    profiles = ledger.profiles()
    has_rows = any(mechanism.per == "row" for mechanism in ledger.mechanisms)
    is_given = population is not None and bool(population.given)
    rows: tuple[Unit, ...] = ("row",) if has_rows else ()
    features: tuple[Unit, ...] = ("features",) if is_given else ()
    units: tuple[Unit, ...] = ("client", *rows, "node", "edge", *features)
    return [claim(profiles, unit, delta, accountant, population) for unit in units]


def calibrate_noise(
    planned: dict[Mechanism, int], unit: Unit, delta: float, target: float
) -> float:
    """Return the common noise multiplier with which the planned releases cost `target` epsilon.

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
    return math.exp(root_between(excess, low, high, xtol=1e-10))
