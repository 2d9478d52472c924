"""The forecast of a curve before its first run: why it cannot end green, minutes and disk."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from audits.curves.plan import CurvePlan, Setting
from audits.curves.recommend import LEAST_SEEDS
from securefg.foundation.json_text import read_json
from securefg.foundation.units import bytes_text, plural
from securefg.runs.assembly import Setup
from securefg.runs.epsilons import planned_epsilons
from securefg.runs.forecast import forecast_bytes, round_size
from securefg.settings.forecast import SECONDS_PER_AUDIT, forecast_seconds, round_duration
from securefg.sweep import Point, find_run

TRAINED_ALONE: Final = "alone"
"""The level of a sweep that shows what each client reaches by itself."""


def warn_of_red(plan: CurvePlan, setups: Mapping[str, Setup]) -> Iterator[str]:
    """Yield every reason, known from the config, why no setting can be recommended.

    setups  by a setting's key, as far as they were put together
    """
    curve = plan.curve
    if curve.seeds < LEAST_SEEDS:
        yield (
            f"seeds: found {curve.seeds}; a recommendation needs {LEAST_SEEDS}: "
            f"add --seeds {LEAST_SEEDS}"
        )
    compared = {(level.series, level.kind) for level in plan.levels}
    for series in dict.fromkeys(setting.series for setting in plan.settings):
        own = [setting for setting in plan.settings if setting.series == series]
        if reason := _explain_epsilons(plan, own, setups):
            yield f"{series}: {reason}"
        if (series, TRAINED_ALONE) not in compared:
            yield f"{series}: found no `alone`; a recommendation compares with training alone"


def _explain_epsilons(
    plan: CurvePlan, series_settings: list[Setting], setups: Mapping[str, Setup]
) -> str:
    limits = plan.curve.limits
    if limits.epsilon is None:
        return ""
    promised = [s for s in series_settings if s.epsilon is not None]
    if not promised:
        return f"no setting promises an epsilon; limits.epsilon asks for {limits.epsilon:g}"
    known = [
        value for s in promised if (value := _find_epsilon(s, limits.unit, setups)) is not None
    ]
    if len(known) < len(promised) and not any(s.key in setups for s in promised):
        return ""
    smallest = min(known, default=None)
    if smallest is not None and smallest <= limits.epsilon:
        return ""
    unit = limits.unit or promised[0].unit
    found = "no finite one" if smallest is None else f"{smallest:.3g}"
    return f"the smallest epsilon per {unit} is {found}; limits.epsilon asks for {limits.epsilon:g}"


def _find_epsilon(setting: Setting, unit: str | None, setups: Mapping[str, Setup]) -> float | None:
    """Return the epsilon per this unit that a setting will promise, as far as it is known."""
    if unit in (None, setting.unit):
        return setting.epsilon
    if setting.key not in setups:
        return None
    return {str(u): c.epsilon for u, c in planned_epsilons(setups[setting.key]).items()}.get(unit)


def describe_work(plan: CurvePlan, home: Path, jobs: int, setups: Mapping[str, Setup]) -> str:
    """Return how many runs are missing and what they will roughly take."""
    missing = [point for point in plan.points if not _is_done(point, home)]
    if not missing:
        return f"{plural(len(plan.points), 'run')}: all stored"
    measured = _measured_seconds(home)
    each = measured or _guess_seconds(setups)
    lasts = "" if each is None else f"roughly {round_duration(each * len(missing) / jobs)} and "
    sizes = [forecast_bytes(setup) for setup in setups.values()]
    disk = bytes_text(round_size(max(sizes, default=0) * len(missing)))
    basis = "runs stored here" if measured else "public sizes"
    return (
        f"{plural(len(missing), 'run')} with audits, {plural(jobs, 'job')} at a time: "
        f"{lasts}{disk} of disk (from {basis})"
    )


def _is_done(point: Point, home: Path) -> bool:
    found = find_run(home / "runs", point.config.hash)
    return found is not None and found.finished


def _measured_seconds(home: Path) -> float | None:
    """Return the mean seconds of the points that an earlier command finished here."""
    path = home / "timing.json"
    stored = read_json(path).get("seconds", {}) if path.is_file() else {}
    return statistics.fmean(stored.values()) if stored else None


def _guess_seconds(setups: Mapping[str, Setup]) -> float | None:
    guesses = [
        forecast_seconds(one.config, one.public.num_nodes, one.public.num_clients)
        for one in setups.values()
    ]
    known = [guess + SECONDS_PER_AUDIT for guess in guesses if guess is not None]
    return statistics.fmean(known) if known else None
