"""Results of the games against mechanisms: the measured epsilon beside the claimed epsilon.

VIOLATION: the measured lower bound is above the claim. INCONCLUSIVE: no outcome could have been.

The checks of an audit are one family: a violation is a violation at the family's level, found
twice. Thirteen checks at 95 % each would accuse one honest run in two. An audit accuses one in a
thousand. All games are played: against messages, private training and masks. If any shows more than
is claimed, all are played again on fresh trials, with half of the level shared among them. A
violation that is not found again does not count. Checks of a run's canaries and of its recorded
uploads, which cannot be drawn again, have the other half, each at a level so small that once is
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from audits.empirical_epsilon import EpsilonBound
from audits.noise_law import LawTest, worst_test
from securefg.settings.privacy import Unit

Check = Literal[
    "canary",
    "loud",
    "linked",
    "seed",
    "redraw",
    "birthday",
    "shape",
    "mask",
    "whole",
    "training",
    "recorded",
    "moved",
]
Verdict = Literal["VIOLATION", "NOT_DETECTED", "INCONCLUSIVE"]


@dataclass(frozen=True, kw_only=True)
class MechanismResult:
    """A result of one game against one field (or a whole message), beside the claim.

    rounds     how many rounds were played, of `planned`
    claimed    the accountant's epsilon: for all planned rounds in the game `canary`, whose gdp
               takes the others for like those played, mu_T = mu sqrt(T / t); else for those played
    gdp, cp    lower bounds, one of them at least: for a Gaussian trade-off, and without any
               assumption (if there are both, each has half of the level)
    """

    field: str
    check: Check
    unit: Unit
    rule: str
    rounds: int
    planned: int
    claimed: float
    gdp: EpsilonBound | None = None
    cp: EpsilonBound | None = None

    @property
    def _bounds(self) -> list[EpsilonBound]:
        return [bound for bound in (self.gdp, self.cp) if bound is not None]

    @property
    def best(self) -> EpsilonBound:
        """Return the bound that shows more."""
        return max(self._bounds, key=lambda bound: bound.epsilon)

    @property
    def lower(self) -> float:
        """Return the largest epsilon that was shown."""
        return self.best.epsilon

    @property
    def ceiling(self) -> float:
        """Return the largest epsilon that so many trials could have shown."""
        return max(bound.ceiling for bound in self._bounds)

    @property
    def suspected(self) -> bool:
        """Return whether fresh trials have to confirm it."""
        return self.verdict == "VIOLATION"

    @property
    def verdict(self) -> Verdict:
        """Return the verdict by what was shown, and by what could have been."""
        if self.lower > self.claimed:
            return "VIOLATION"
        return "INCONCLUSIVE" if self.ceiling <= self.claimed else "NOT_DETECTED"

    @property
    def because(self) -> str:
        """Return the reason in words, with the figures."""
        best, claimed = self.best, f"{self.claimed:.4g}"
        shown = f"epsilon {best.epsilon:.4g} was shown at {best.confidence:.1%} over {best.trials}"
        match self.verdict:
            case "VIOLATION":
                return f"{shown}, above the claimed {claimed}"
            case "INCONCLUSIVE":
                return f"at most {self.ceiling:.4g} could be shown, claimed are {claimed}"
        return f"{shown}; claimed are {claimed}"


@dataclass(frozen=True, kw_only=True)
class LawResult:
    """A result of tests of all numbers of a field at once. It is a VIOLATION if a unit meets less
    noise than is claimed, and INCONCLUSIVE if the law is another than the claimed one.

    level  of all tests of the audit together, before a field's tests share it
    """

    field: str
    check: Check
    unit: Unit
    rule: str
    rounds: int
    planned: int
    claimed: float
    tests: tuple[LawTest, ...]
    numbers: int
    level: float

    @property
    def failed(self) -> LawTest | None:
        """Return the worst test that failed, if any did."""
        return worst_test(self.tests, self.level)

    @property
    def suspected(self) -> bool:
        """Return whether fresh draws have to confirm it."""
        return self.failed is not None

    @property
    def verdict(self) -> Verdict:
        """Return the verdict: a severe failure is a violation."""
        if self.failed is None:
            return "NOT_DETECTED"
        return "VIOLATION" if self.failed.severe else "INCONCLUSIVE"

    @property
    def because(self) -> str:
        """Return the reason in words, with the figures."""
        if self.failed is None:
            return f"{len(self.tests)} tests of {self.numbers} numbers find the claimed noise"
        return f"{self.failed.words} ({self.failed.name}, p = {self.failed.p:.1e})"


Result = MechanismResult | LawResult


def law_level(confidence: float) -> float:
    """Return the level for tests of the noise's law. It is far below that of a game, since these
    tests are never sharp."""
    return (1 - confidence) / 50


def failed_checks(results: Sequence[Result]) -> Mapping[str, list[Check]]:
    """Return the checks that failed, by field."""
    checks_by_field: dict[str, list[Check]] = {}
    for result in results:
        if result.verdict == "VIOLATION":
            checks_by_field.setdefault(result.field, []).append(result.check)
    return checks_by_field


FAMILY_LEVEL: Final = 1e-3
PLAYED_AGAIN: Final = FAMILY_LEVEL / 2
CANARIES: Final = FAMILY_LEVEL / 4
RECORDED: Final = 1e-6
"""Of one field's uploads; a quarter of the family's level is enough for 250 fields."""

Play = Callable[[int, float], list[Result]]
"""All games, by the seed of their trials and the confidence of each."""


def play_family(play: Play, seed: int, confidence: float = 0.95) -> list[Result]:
    """Play the checks, and again on fresh trials those that suspect a violation."""
    first = play(seed, confidence)
    if not any(result.suspected for result in first):
        return first
    again = play(seed + 1_000_003, 1 - PLAYED_AGAIN / len(first))
    if len(again) != len(first):  # a mechanism that changes from play to play is not sound either
        return first
    return [new if old.suspected else old for old, new in zip(first, again, strict=True)]
