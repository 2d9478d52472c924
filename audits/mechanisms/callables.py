"""Anybody's defence: games against a callable that takes and returns an array.

The adversary knows the two candidates for the unit's value and sees what comes out. A pilot chooses
the pair of candidates and the way to read the output that show most. The bound then comes from
fresh trials of that one choice, without any assumption about the noise.

    # my_package/my_filter.py
    CLAIM = Claim(epsilon=8.0, delta=1e-5, unit="client", norm=1.0, size=64)

    def release(values):                   # (size,) -> (size,), afresh at every call
        ...
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.empirical_epsilon import EpsilonBound, gaussian_bound, several_trainings
from securefg.foundation.errors import ConfigError

Floats = NDArray[np.float64]
Release = Callable[[Floats], Floats]

LOUD = 1e4
PILOT = 0.2


@dataclass(frozen=True)
class Claim:
    """A defence's claim about itself.

    unit      whose value the array is: client, row, node, ...
    norm      the L2 norm up to which values are meant to count (louder ones must be clipped to it)
    size      how many numbers the array has
    relation  removed: a value against zeros, replaced: a value against its opposite
    rounds    how many releases of the same value the epsilon is for
    noise     any: what is shown assumes nothing, gaussian: it says that its noise is Gaussian, and
              is held to the trade-off of such noise
    """

    epsilon: float
    delta: float
    unit: str = "client"
    norm: float = 1.0
    size: int = 64
    relation: str = "removed"
    rounds: int = 1
    noise: str = "any"

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or not 0 < self.delta < 1 or self.norm <= 0 or self.size < 1:
            raise ConfigError(
                f"claim: found epsilon {self.epsilon}, delta {self.delta}, norm {self.norm}, size "
                f"{self.size}; wanted epsilon, norm and size above 0, and 0 < delta < 1"
            )
        if self.relation not in ("removed", "replaced") or self.rounds < 1:
            raise ConfigError(
                f"claim: found relation {self.relation!r}, rounds {self.rounds}; allowed: removed, "
                "replaced; 1 round or more"
            )
        if self.noise not in ("any", "gaussian"):
            raise ConfigError(f"claim: found noise {self.noise!r}; allowed: any, gaussian")


@dataclass(frozen=True)
class Measured:
    """A pair of bounds, one without any assumption and one for a Gaussian trade-off. The claim says
    before the game which of them counts: noise of another law may pass the Gaussian bound and be
    sound."""

    claim: Claim
    bound: EpsilonBound
    gaussian: EpsilonBound
    game: str
    seconds: float

    @property
    def counted(self) -> EpsilonBound:
        """Return the bound that counts for the claimed noise."""
        return self.gaussian if self.claim.noise == "gaussian" else self.bound

    @property
    def verdict(self) -> str:
        """Return the verdict: more was shown than was claimed, or not."""
        if self.counted.epsilon > self.claim.epsilon:
            return "VIOLATION"
        return "INCONCLUSIVE" if self.counted.ceiling <= self.claim.epsilon else "NOT_DETECTED"


@dataclass(frozen=True)
class Game:
    """A pair of candidates, and a number read from the outputs of all rounds."""

    name: str
    one: Floats
    other: Floats
    read: Callable[[Floats], float]

    def score_trials(self, release: Release, value: Floats, trials: int, rounds: int) -> Floats:
        """Return (trials,) scores of the released value, summed over the rounds."""
        trial_scores = np.empty(trials)
        for trial in range(trials):
            outputs = [np.asarray(release(value.copy()), np.float64) for _ in range(rounds)]
            trial_scores[trial] = self.read(np.stack([np.reshape(out, -1) for out in outputs]))
        return trial_scores


def measure_release(
    release: Release, claim: Claim, trials: int, seed: int, confidence: float = 0.999
) -> Measured:
    """Return the lower bound from `trials` of the game that a pilot found best."""
    started = time.process_time()
    _check_release(release, claim)
    games = _make_games(claim, np.random.default_rng(seed))
    pilot = max(40, int(trials * PILOT / len(games)))

    def scores(game: Game, count: int) -> tuple[Floats, Floats]:
        first_scores, other = (
            game.score_trials(release, value, count // 2, claim.rounds)
            for value in (game.one, game.other)
        )
        return first_scores, other

    def shown(game: Game) -> float:
        return several_trainings(*scores(game, pilot), claim.delta, 0.5).epsilon

    best = max(games, key=shown)
    inside, outside = scores(best, trials)
    bound = several_trainings(inside, outside, claim.delta, confidence)
    gaussian = _gaussian_bound(inside, outside, claim.delta, confidence)
    return Measured(claim, bound, gaussian, best.name, time.process_time() - started)


def _gaussian_bound(
    inside: Floats, outside: Floats, delta: float, confidence: float
) -> EpsilonBound:
    """Return the bound for a Gaussian trade-off. The first half sets the threshold, and the second
    is counted."""
    threshold = (float(np.median(inside[::2])) + float(np.median(outside[::2]))) / 2
    kept_in, kept_out = inside[1::2], outside[1::2]
    return gaussian_bound(
        int((kept_out >= threshold).sum()),
        kept_out.size,
        int((kept_in < threshold).sum()),
        kept_in.size,
        delta,
        confidence,
    ).gdp


def _check_release(release: Release, claim: Claim) -> None:
    found = np.asarray(release(np.zeros(claim.size)))
    if found.size != claim.size or not np.isfinite(found).all():
        raise ConfigError(
            f"the callable gave {found.size} numbers for {claim.size}, or numbers that are not "
            "finite; wanted an array of the same size"
        )


def _make_games(claim: Claim, rng: np.random.Generator) -> list[Game]:
    """Return games with canaries in one number, over all numbers and far above the bound, each read
    in three ways."""
    spike = np.zeros(claim.size)
    spike[int(rng.integers(claim.size))] = 1.0
    spread = rng.choice([-1.0, 1.0], claim.size) / math.sqrt(claim.size)
    games = []
    for shape, direction in (("one number", spike), ("all numbers", spread)):
        for loudness, norm in (("", claim.norm), (", far above the bound", claim.norm * LOUD)):
            canary_value = direction * norm
            other = -canary_value if claim.relation == "replaced" else np.zeros(claim.size)
            readings: dict[str, Callable[[Floats], float]] = {
                "read along it": lambda out, d=direction: float((out @ d).sum()),  # type: ignore[misc]
                "by its length": lambda out: float(np.abs(out).sum()),
                "by what is zero": lambda out, d=direction: float((out[:, d != 0] != 0).sum()),  # type: ignore[misc]
            }
            games += [
                Game(f"{shape}{loudness}, {how}", canary_value, other, read)
                for how, read in readings.items()
            ]
    return games


_MISSING = "audit mechanism {}: found nothing ({}); expected a module that imports from here"


def found_callable(path: str) -> tuple[Release, Claim | None]:
    """Return the function and its claim, from `package.module` with `release` and `CLAIM` in it, or
    from `package.module.function`."""
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        parent, _, name = path.rpartition(".")
        if not parent or not path.startswith(str(error.name)):
            raise ConfigError(_MISSING.format(path, error)) from error
        try:
            module = importlib.import_module(parent)
        except ModuleNotFoundError as missing:
            raise ConfigError(_MISSING.format(path, missing)) from missing
        release = getattr(module, name, None)
    else:
        release = getattr(module, "release", None)
    if not callable(release):
        raise ConfigError(
            f"audit mechanism {path}: found no callable; expected a module with a function "
            "`release`, or the path of a function"
        )
    claim = getattr(release, "CLAIM", getattr(module, "CLAIM", None))
    return release, claim if isinstance(claim, Claim) else None
