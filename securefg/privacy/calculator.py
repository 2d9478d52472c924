"""The calculator: what clip and noise promise over so many rounds, per unit, with assumptions.

Two ways of adding noise are known. Noise on the upload: every round a client clips its whole upload
to `clip_l2` and adds N(0, noise_sd^2) to every number. Noise in the training (DP-SGD, `batch`):
every step clips each sample's gradient and adds N(0, noise_sd^2) to every number of their sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from securefg.foundation.errors import ConfigError
from securefg.foundation.roots import root_between
from securefg.foundation.units import plural
from securefg.privacy.accountants import Composition, Step, tightest

Neighbours = Literal["replace", "remove"]
CalculatedUnit = Literal["client", "record", "node"]
UNITS: Final[tuple[CalculatedUnit, ...]] = ("client", "record", "node")
DELTA: Final = 1e-5
LEAST_NOISE, MOST_NOISE = 1e-4, 1e7
DIGITS: Final = 4
GAUSSIAN = "noise is Gaussian, independent for every number and release, and nobody can guess it"
ALL_LEAVES = "nothing else about the data leaves: no metrics, no counts, no failures"


@dataclass(frozen=True)
class NoisePlan:
    """What is clipped and noised, and how often.

    nodes       records (nodes, samples) that one client holds
    clip_l2     largest L2 norm of an upload; with `batch`, of one sample's gradient
    noise_sd    standard deviation of the noise on every number
    batch       expected samples per step of DP-SGD; None for noise on the upload
    steps       steps of DP-SGD in one round
    holders     the largest number of clients that hold one node
    neighbours  whether a client's data is replaced, or removed; DP-SGD removes or adds a sample
    """

    nodes: int
    rounds: int
    clip_l2: float
    noise_sd: float
    delta: float = DELTA
    batch: int | None = None
    steps: int = 1
    holders: int = 1
    neighbours: Neighbours = "replace"

    def __post_init__(self) -> None:
        for name in ("nodes", "rounds", "steps", "holders"):
            _require_whole(name, getattr(self, name))
        for name in ("clip_l2", "noise_sd"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 < value < math.inf):
                raise ConfigError(f"{name}: found {value!r}; expected a positive number")
        if not 0 < self.delta < 1:
            raise ConfigError(f"delta: found {self.delta!r}; expected a number between 0 and 1")
        if self.batch is not None:
            _require_whole("batch", self.batch)
            if self.batch > self.nodes:
                raise ConfigError(f"batch: found {self.batch}; expected at most {self.nodes} nodes")
        if self.steps > 1 and self.batch is None:
            raise ConfigError("steps: found no batch; expected batch, since noise is in training")
        if self.neighbours not in ("replace", "remove"):
            raise ConfigError(f"neighbours: found {self.neighbours!r}; expected replace or remove")


@dataclass(frozen=True)
class UnitEpsilon:
    """The epsilon of one unit, with the relation between neighbours and what it assumes."""

    unit: CalculatedUnit
    epsilon: float
    delta: float
    relation: str
    assumptions: tuple[str, ...]


def compute_epsilon(
    *,
    nodes: int,
    rounds: int,
    clip: float,
    noise: float,
    delta: float = DELTA,
    batch: int | None = None,
    steps: int = 1,
    holders: int = 1,
    neighbours: Neighbours = "replace",
) -> tuple[UnitEpsilon, ...]:
    """Return the epsilon of a client, of one record at a client, and of a node at all its holders.

    `noise` is the standard deviation on every number. The arguments are those of `NoisePlan`.
    """
    plan = NoisePlan(nodes, rounds, clip, noise, delta, batch, steps, holders, neighbours)
    return tuple(unit_epsilon(plan, unit) for unit in UNITS)


def find_noise(
    target: float,
    *,
    unit: CalculatedUnit | None = None,
    nodes: int,
    rounds: int,
    clip: float,
    delta: float = DELTA,
    batch: int | None = None,
    steps: int = 1,
    holders: int = 1,
    neighbours: Neighbours = "replace",
) -> float:
    """Return the least noise that keeps a unit's epsilon at `target`, rounded up to four digits.

    unit  by default a record with `batch` (DP-SGD), else a client
    """
    unit = unit or ("client" if batch is None else "record")
    if not (isinstance(target, int | float) and 0 < target < math.inf):
        raise ConfigError(f"target: found {target!r}; expected a positive number")
    if unit not in UNITS:
        raise ConfigError(f"unit: found {unit!r}; expected {', '.join(UNITS)}")
    plan = NoisePlan(nodes, rounds, clip, clip, delta, batch, steps, holders, neighbours)

    def excess(log_noise: float) -> float:
        noisy = replace(plan, noise_sd=clip * math.exp(log_noise))
        return tightest(_gaussian_releases(noisy, unit), delta) - target

    low, high = math.log(LEAST_NOISE), math.log(MOST_NOISE)
    if excess(low) < 0 or excess(high) > 0:
        raise ConfigError(
            f"target: found {target:g}; expected an epsilon that noise between {LEAST_NOISE:g} and "
            f"{MOST_NOISE:g} times the clip gives"
        )
    noise = round_up(clip * math.exp(root_between(excess, low, high, xtol=1e-6)))
    while excess(math.log(noise / clip)) > 0:  # rounding of the search, and of discretised losses
        noise = round_up(noise * (1 + 10.0**-DIGITS))
    return noise


def unit_epsilon(plan: NoisePlan, unit: CalculatedUnit) -> UnitEpsilon:
    """Return one unit's epsilon under a plan."""
    return UnitEpsilon(
        unit,
        tightest(_gaussian_releases(plan, unit), plan.delta),
        plan.delta,
        _unit_relation(plan, unit),
        _list_assumptions(plan, unit),
    )


def round_up(value: float) -> float:
    """Return the least number of four digits that is not smaller."""
    unit = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.{DIGITS}g}")


def _gaussian_releases(plan: NoisePlan, unit: CalculatedUnit) -> Composition:
    """Return the Gaussian releases that meet one unit."""
    times = plan.holders if unit == "node" else 1
    if plan.batch is not None:
        return _training_steps(plan, plan.batch, unit, times)
    # A record's own removal lets the training end anywhere in the ball: two radii apart.
    is_removed_client = unit == "client" and plan.neighbours == "remove"
    sensitivity = plan.clip_l2 * (1 if is_removed_client else 2)
    return (Step(plan.noise_sd / sensitivity, plan.rounds * times),)


def _training_steps(plan: NoisePlan, batch: int, unit: CalculatedUnit, times: int) -> Composition:
    multiplier, count = plan.noise_sd / plan.clip_l2, plan.rounds * plan.steps
    if unit == "client":  # all its samples together; whichever are drawn, they move it no further
        return (Step(multiplier / plan.nodes, count),)
    return (Step(multiplier, count * times, batch / plan.nodes),)


def _unit_relation(plan: NoisePlan, unit: CalculatedUnit) -> str:
    if plan.batch is not None:
        return "all its samples removed or added" if unit == "client" else "removed or added"
    return "removed" if unit == "client" and plan.neighbours == "remove" else "replaced or removed"


def _list_assumptions(plan: NoisePlan, unit: CalculatedUnit) -> tuple[str, ...]:
    assumptions = [GAUSSIAN, ALL_LEAVES]
    if plan.batch is not None and unit != "client":
        assumptions += [
            "every step draws each sample by itself with probability batch / nodes (Poisson), and "
            "nobody sees who was drawn",
            "a sample is read alone: a network that mixes neighbours uses a node in many samples",
        ]
    if unit == "node":
        held = plural(plan.holders, "client")
        assumptions.append(f"the node is with {held} at most, each with noise of its own")
    if plan.delta * plan.nodes >= 1:
        assumptions.append(
            f"WARNING: delta {plan.delta:g} is not below 1 / {plan.nodes} nodes, so a mechanism "
            "that publishes one node in full would pass"
        )
    return tuple(assumptions)


def _require_whole(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name}: found {value!r}; expected a whole number of at least 1")
