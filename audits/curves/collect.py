"""From finished runs and audits to what a curve's page shows."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from scipy.stats import t as student

from audits.curves.plan import CurvePlan, Level, Setting
from securefg.data.partition import Partition
from securefg.foundation.interval import Interval
from securefg.foundation.versions import versions
from securefg.reports.curve.data import (
    Choice,
    CurveData,
    CurvePoint,
    Leak,
    Limits,
    RunRef,
    Series,
    Timing,
)
from securefg.run.findings import Finding, Verdict, read_findings
from securefg.run.folder import RunFolder
from securefg.run.summary import Summary
from securefg.sweep import Failure, Point, find_runs

WORST = [Verdict.VIOLATION, Verdict.LEAK, Verdict.INCONCLUSIVE, Verdict.NOT_DETECTED]


def collect(plan: CurvePlan, root: Path, failed: Sequence[Failure]) -> tuple[CurveData, Timing]:
    """A point without all its seeds is shown as failed, with the reason, never left out."""
    runs = {
        found: folder
        for found, folder in find_runs(root).items()
        if found not in plan.audits or findings_of(folder).is_file()
    }
    reasons = {failure.config_hash: failure.reason for failure in failed}
    points = tuple(_point(setting, runs, reasons) for setting in plan.settings)
    series = tuple(_series(plan, name, runs) for name in dict.fromkeys(p.series for p in points))
    limits = plan.curve.limits
    data = CurveData(
        schema=1,
        name=plan.curve.name,
        seeds=plan.curve.seeds,
        limits=limits,
        series=series,
        points=points,
        choices=tuple(choose(s.name, points, limits) for s in series),
        settings=yaml.safe_dump(plan.curve.model_dump(mode="json"), sort_keys=False),
        versions=versions(),
    )
    return data, Timing(seconds=_seconds(plan, runs), hardware=_hardware())


def findings_of(folder: RunFolder) -> Path:
    return folder.path / "audit" / "findings.json"


def _point(setting: Setting, runs: dict[str, RunFolder], reasons: dict[str, str]) -> CurvePoint:
    found = [(p, runs[p.config.hash]) for p in setting.runs if p.config.hash in runs]
    missing = [p for p in setting.runs if p.config.hash not in runs or p.config.hash in reasons]
    why = "; ".join(reasons.get(p.config.hash, "not run yet") for p in missing)
    common: dict[str, Any] = {
        "key": setting.key,
        "series": setting.series,
        "defence": setting.defence,
        "epsilon": setting.epsilon,
        "unit": setting.unit,
        "failed": why,
    }
    if not found or missing:
        return CurvePoint(**common)
    summaries = [folder.summary() for _, folder in found]
    audits = [read_findings(findings_of(folder)) for _, folder in found]
    accuracies = tuple(summary.test_accuracy or 0.0 for summary in summaries)
    claimed, lower, violations = _epsilons(audits)
    return CurvePoint(
        **common,
        accuracy=interval(accuracies),
        accuracies=accuracies,
        leaks=_leaks(audits),
        epsilon_claimed=claimed,
        epsilon_lower=lower,
        violations=violations,
        bytes_up=_bytes(summaries, "up"),
        bytes_down=_bytes(summaries, "down"),
        runs=tuple(_ref(point, folder) for point, folder in found),
    )


def interval(values: Sequence[float]) -> Interval:
    """The mean with Student's 95 % interval; of one value, the value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(value=mean, low=mean, high=mean)
    reach = float(student.ppf(0.975, len(values) - 1)) * statistics.stdev(values)
    reach /= len(values) ** 0.5
    return Interval(value=mean, low=mean - reach, high=mean + reach)


def _leaks(audits: Sequence[Sequence[Finding]]) -> tuple[Leak, ...]:
    """Findings of the same attack and adversary, over the seeds."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for findings in audits:
        for finding in findings:
            if finding.attack != "integrity" and not finding.attack.startswith("mechanism_"):
                groups.setdefault((finding.attack, finding.adversary), []).append(finding)
    return tuple(_leak(found) for found in groups.values())


def _leak(found: Sequence[Finding]) -> Leak:
    worst = min(found, key=lambda finding: WORST.index(finding.verdict))
    whole = all(finding.gain is not None for finding in found)
    return Leak(
        attack=worst.attack,
        adversary=worst.adversary,
        metric=worst.metric,
        unit=worst.unit,
        verdict=worst.verdict.value,
        because=worst.because,
        value=_over_seeds([f.value for f in found]) if whole else None,
        prior=statistics.fmean(f.prior.value for f in found if f.prior) if whole else None,
        gain=_over_seeds([f.gain for f in found]) if whole else None,
        null=_null_band([f.null for f in found]) if whole else None,
    )


def _over_seeds(figures: Sequence[Interval | None]) -> Interval:
    """Over several seeds their own spread; of one seed the finding's interval."""
    known = [figure for figure in figures if figure is not None]
    if len(known) == 1:
        return Interval(value=known[0].value, low=known[0].low, high=known[0].high)
    return interval([figure.value for figure in known])


def _null_band(figures: Sequence[Interval | None]) -> Interval:
    known = [figure for figure in figures if figure is not None]
    low = statistics.fmean(f.low - f.value for f in known)
    high = statistics.fmean(f.high - f.value for f in known)
    return Interval(value=0.0, low=low, high=high)


def _epsilons(
    audits: Sequence[Sequence[Finding]],
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """The mechanism finding that comes closest to its claim, and all violations in words."""
    every = [finding for findings in audits for finding in findings]
    violations = [f.because for f in every if f.verdict is Verdict.VIOLATION]
    known = [f for f in every if f.epsilon_claimed and f.epsilon_lower is not None]
    if not known:
        return None, None, tuple(dict.fromkeys(violations))
    games = [f for f in known if f.attack == "mechanism_canary"] or known
    closest = max(games, key=lambda f: (f.epsilon_lower or 0.0) / (f.epsilon_claimed or 1.0))
    return closest.epsilon_claimed, closest.epsilon_lower, tuple(dict.fromkeys(violations))


def choose(series: str, points: Sequence[CurvePoint], limits: Limits) -> Choice:
    """The most accurate point that meets the limits; what could not be measured does not."""
    own = [p for p in points if p.series == series and p.accuracy is not None]
    fitting = [p for p in own if not objections(p, limits)]
    if not fitting:
        return Choice(series=series, point=None, words=_nobody(own, limits))
    best = max(fitting, key=lambda p: p.accuracy.value if p.accuracy else 0.0)
    assert best.accuracy is not None
    return Choice(
        series=series,
        point=best.key,
        words=f"{best.defence}{_strength(best)}: accuracy {best.accuracy.value:.3f}",
    )


def objections(point: CurvePoint, limits: Limits) -> list[str]:
    """Why a point does not meet the limits."""
    found = list(point.violations)
    if limits.epsilon is not None and (point.epsilon is None or point.epsilon > limits.epsilon):
        found.append("no epsilon is promised" if point.epsilon is None else "epsilon is too large")
    if limits.accuracy is not None:
        reached = point.accuracy.value if point.accuracy else 0.0
        if reached < limits.accuracy:
            found.append(f"accuracy is {reached:.3f}")
    if limits.leak_gain is not None:
        for leak in point.leaks:
            if leak.gain is None and leak.verdict != Verdict.NOT_DETECTED:
                known = leak.verdict == Verdict.INCONCLUSIVE
                found.append(f"{leak.attack} {'could not be measured' if known else 'leaks'}")
            elif leak.gain is None:
                continue
            elif leak.gain.value > limits.leak_gain:
                found.append(f"{leak.attack} gains {leak.gain.value:+.3f}")
    return found


def _nobody(own: Sequence[CurvePoint], limits: Limits) -> str:
    if not own:
        return "no point was run to its end"
    nearest = min(own, key=lambda p: len(objections(p, limits)))
    return f"no setting meets the limits; {nearest.defence}{_strength(nearest)} comes nearest: " + (
        "; ".join(objections(nearest, limits)[:3])
    )


def _strength(point: CurvePoint) -> str:
    return "" if point.epsilon is None else f" at epsilon {point.epsilon:g}"


def _series(plan: CurvePlan, name: str, runs: dict[str, RunFolder]) -> Series:
    first = next(setting for setting in plan.settings if setting.series == name)
    config = first.runs[0].config
    folder = next((runs[p.config.hash] for p in first.runs if p.config.hash in runs), None)
    own = [level for level in plan.levels if level.series == name]
    levels = {level.kind: _level(level, runs) for level in own}
    made_by = {level.kind: _level_runs(level, runs) for level in own}
    return Series(
        name=name,
        method=config.method.name,
        dataset=config.data.name,
        clients=_num_clients(folder),
        centralised=levels.get("centralised"),
        alone=levels.get("alone"),
        centralised_runs=made_by.get("centralised", ()),
        alone_runs=made_by.get("alone", ()),
    )


def _num_clients(folder: RunFolder | None) -> int:
    if folder is None:
        return 0
    return Partition.load(folder.path / "partition.safetensors").num_clients


def _level(level: Level, runs: dict[str, RunFolder]) -> Interval | None:
    found = [runs[p.config.hash].summary() for p in level.runs if p.config.hash in runs]
    values = [_accuracy(summary) for summary in found]
    known = [value for value in values if value is not None]
    return interval(known) if known else None


def _level_runs(level: Level, runs: dict[str, RunFolder]) -> tuple[RunRef, ...]:
    return tuple(_ref(p, runs[p.config.hash]) for p in level.runs if p.config.hash in runs)


def _accuracy(summary: Summary) -> float | None:
    value = summary.test_accuracy
    return None if value is None else float(value)


def _ref(point: Point, folder: RunFolder) -> RunRef:
    config = point.config
    return RunRef(folder=folder.path.name, seed=config.seed, config_hash=config.hash)


def _bytes(summaries: Sequence[Summary], way: str) -> int:
    """Mean over the seeds: early stopping ends some runs before others."""
    sizes = [getattr(summary.bytes, way).total for summary in summaries]
    return round(statistics.fmean(sizes))


def _seconds(plan: CurvePlan, runs: dict[str, RunFolder]) -> dict[str, float]:
    found = {}
    for setting in plan.settings:
        own = [runs[p.config.hash].summary().seconds for p in setting.runs if p.config.hash in runs]
        if own:
            found[setting.key] = round(statistics.fmean(own), 3)
    return found


def _hardware() -> dict[str, str]:
    return {
        "processor": platform.machine(),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
    }
