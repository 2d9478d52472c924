"""The data of a curve's page, as one value: the page is drawn from it and from nothing else.

It holds no time and no path of a machine, so the same seeds give the same data. Figures that differ
from run to run (`Timing`) are kept apart.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from securefg.foundation.interval import Interval
from securefg.foundation.settings import Settings
from securefg.runs.summary import ClaimedEpsilon
from securefg.settings.privacy import Unit

SCHEMA = 2


class RunRef(Settings):
    """A run that made a number: its folder's name within the curve's root."""

    folder: str
    seed: int
    config_hash: str


class Leak(Settings):
    """One attack from one adversary's place, over all seeds of a point.

    gain      over the prior, mean over seeds; the interval is over seeds and targets
    verdict   of all seeds together, by that interval; `because` in words
    sound     the verdict is not INCONCLUSIVE, and is that of an attack that works with the defence
              off, where the gain is measured
    leaking   the places of the seeds, among the point's, whose run alone is a LEAK
    basis     how the gain is known: computed, bounded or measured
    most_exposed  the largest gain of a single target, where the noise gives it
    null      where a guess that knows nothing would lie, as a gain: the band around zero
    """

    attack: str
    adversary: str
    metric: str
    unit: str
    verdict: str
    because: str
    sound: bool = False
    leaking: tuple[int, ...] = ()
    basis: str = ""
    value: Interval | None = None
    prior: float | None = None
    gain: Interval | None = None
    most_exposed: float | None = None
    null: Interval | None = None


class CurvePoint(Settings):
    """One setting of one defence. `epsilon` None is infinity: nothing is promised.

    score       what `accuracy` and `accuracies` (by seed) are: the score that the runs monitor
    no_skill    the same score of always naming the most frequent class, by seed
    alone_accuracies  the same score of training alone on the very same data, by seed
    made_by     the versions of this software that made the runs and their audits
    not_asked   attacks that fit the runs and that the curve did not ask for
    default_leaks  what leaks in an audit by every attack that fits the runs, in words; None where
                this audit was not made in every seed
    claims      by unit, what the runs claim and what it is about: the largest over the seeds
    """

    key: str
    series: str
    defence: str
    epsilon: float | None = None
    unit: str = ""
    accuracy: Interval | None = None
    accuracies: tuple[float, ...] = ()
    score: str = "accuracy"
    no_skill: tuple[float, ...] = ()
    alone_accuracies: tuple[float, ...] = ()
    made_by: tuple[str, ...] = ()
    leaks: tuple[Leak, ...] = ()
    not_asked: tuple[str, ...] = ()
    default_leaks: tuple[str, ...] | None = None
    claims: dict[Unit, ClaimedEpsilon] = Field(default_factory=dict)
    epsilon_claimed: float | None = None
    epsilon_lower: float | None = None
    violations: tuple[str, ...] = ()
    bytes_up: int | None = None
    bytes_down: int | None = None
    runs: tuple[RunRef, ...] = ()
    failed: str = Field("", description="why the point is missing, where it is")


class Series(Settings):
    """A method on a dataset, with the levels to compare with and the runs that made those.

    excluded  reasons by attack: what these attacks could not measure does not count
    """

    name: str
    method: str
    dataset: str
    clients: int
    centralised: Interval | None = None
    alone: Interval | None = None
    centralised_runs: tuple[RunRef, ...] = ()
    alone_runs: tuple[RunRef, ...] = ()
    excluded: dict[str, str] = Field(default_factory=dict)


class Limits(Settings):
    """What the user can accept. Not set: no limit of that kind."""

    epsilon: float | None = Field(None, gt=0)
    unit: Unit | None = Field(
        None, description="of limits.epsilon; not set: of each setting, which must not be a row"
    )
    leak_gain: float | None = Field(None, ge=0)
    accuracy: float | None = Field(None, ge=0, le=1, description="lowest acceptable score")

    @property
    def any(self) -> bool:
        """Return whether any limit is set."""
        return any(value is not None for value in (self.epsilon, self.leak_gain, self.accuracy))


class Choice(Settings):
    """The verdict on a series: the best recommended point, a reason against every point, or what is
    missing and what makes it.

    concluded  a point is recommended, or the measurements speak against every point
    """

    series: str
    point: str | None
    words: str
    concluded: bool = False
    missing: tuple[str, ...] = ()


class CurveData(Settings):
    """A finished sweep. `command` is the one that runs what is missing."""

    schema_: int = Field(SCHEMA, alias="schema")
    name: str
    seeds: int
    limits: Limits
    series: tuple[Series, ...]
    points: tuple[CurvePoint, ...]
    choices: tuple[Choice, ...]
    settings: str
    versions: dict[str, Any]
    command: str = "securefg curve"


class Timing(Settings):
    """Seconds per point, by its key, and the machine: differs from run to run."""

    seconds: dict[str, float]
    hardware: dict[str, str]
