"""From finished runs and audits to what a curve's page shows."""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from audits.curves.plan import Asked, CurvePlan, Level, Setting
from audits.curves.pooled import (
    has_power,
    most_exposed,
    over_seeds_and_targets,
    pooled_prior,
    pooled_verdict,
)
from audits.curves.recommend import choose_point
from audits.findings.file import is_whole
from audits.findings.history import read_history
from audits.findings.record import COVERAGE, NOT_ASKED, Finding, Verdict
from audits.findings.stored import last_audit, read_findings
from audits.plan import PROMISES, Plan
from audits.settings import audit_settings
from securefg.data.partition import Partition
from securefg.foundation.interval import Interval, interval
from securefg.foundation.versions import list_versions
from securefg.reports.curve_data import (
    SCHEMA,
    CurveData,
    CurvePoint,
    Leak,
    RunRef,
    Series,
    Timing,
)
from securefg.runs.folder import RunFolder
from securefg.runs.scores import monitored_name, no_skill, score_of
from securefg.runs.summary import ClaimedEpsilon, Summary
from securefg.settings.privacy import Unit
from securefg.sweep import Failure, Point, fault_of, find_runs

PROMISE_CHECKS = frozenset({"books", "mechanisms", "recorded"})
"""Every run that promises an epsilon has findings of these checks."""
NOT_AUDITED = "run, and not audited on the curve's terms"


def collect_curve(
    plan: CurvePlan, root: Path, failed: Sequence[Failure], command: str = "securefg curve"
) -> tuple[CurveData, Timing]:
    """Return the data and the timing of a curve. A point without all its seeds is shown as failed,
    with the reason, and never left out."""
    wanted = {point.config.hash for point in plan.points}
    there = {found: folder for found, folder in find_runs(root).items() if found in wanted}
    faults = {found: fault_of(folder, found) for found, folder in there.items()}
    runs = {
        found: folder
        for found, folder in there.items()
        if not faults[found]
        and (found not in plan.audits or is_audited(folder, plan.audits[found]))
    }
    reasons = {found: fault or NOT_AUDITED for found, fault in faults.items() if found not in runs}
    reasons |= {failure.config_hash: failure.reason for failure in failed}
    points = tuple(_make_point(plan, setting, runs, reasons) for setting in plan.settings)
    series = tuple(
        _make_series(plan, name, runs) for name in dict.fromkeys(p.series for p in points)
    )
    limits = plan.curve.limits
    data = CurveData(
        schema=SCHEMA,
        name=plan.curve.name,
        seeds=plan.curve.seeds,
        limits=limits,
        series=series,
        points=points,
        choices=tuple(choose_point(s, points, limits, command) for s in series),
        settings=yaml.safe_dump(plan.curve.model_dump(mode="json"), sort_keys=False),
        versions=list_versions(),
        command=command,
    )
    return data, Timing(seconds=_run_seconds(plan, runs), hardware=_describe_hardware())


def findings_of(folder: RunFolder) -> Path:
    """Return the path of a run's findings."""
    return folder.path / "audit" / "findings.json"


def is_audited(folder: RunFolder, plan: Plan) -> bool:
    """Return whether exactly this audit of exactly this record ended, on the curve's own terms."""
    wanted = plan.ended_note(audit_settings(folder.config().audit, plan.overrides))
    return is_whole(findings_of(folder), folder.summary().transcript_chain, wanted)


def _make_point(
    plan: CurvePlan, setting: Setting, runs: dict[str, RunFolder], reasons: dict[str, str]
) -> CurvePoint:
    point_runs = [(p, runs[p.config.hash]) for p in setting.runs if p.config.hash in runs]
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
    if not point_runs or missing:
        return CurvePoint(**common)
    summaries = [folder.summary() for _, folder in point_runs]
    score = monitored_name(point_runs[0][0].config, summaries[0])
    reached = [score_of(summary, score) for summary in summaries]
    accuracies = tuple(value for value in reached if value is not None)
    if len(accuracies) < len(reached):
        stopped = summaries[reached.index(None)].stopped
        return CurvePoint(**{**common, "failed": f"a run has no {score} ({stopped})"})
    audits = [
        read_findings(findings_of(folder), summary.transcript_chain)
        for (_, folder), summary in zip(point_runs, summaries, strict=True)
    ]
    chance = [no_skill(summary.test_scores, score) for summary in summaries]
    claimed, lower, violations = _measured_epsilons(audits)
    return CurvePoint(
        **common,
        accuracy=interval(accuracies),
        accuracies=accuracies,
        score=score.replace("_", " "),
        no_skill=() if None in chance else tuple(value for value in chance if value is not None),
        alone_accuracies=_scores_alone(plan, setting, runs, score),
        made_by=_made_by([folder for _, folder in point_runs]),
        leaks=_pool_leaks(audits, plan.asked(setting)) + _unchecked_leaks(setting.epsilon, audits),
        not_asked=_not_asked(audits),
        default_leaks=_default_leaks(plan, point_runs, audits),
        claims=_largest_claims(summaries),
        epsilon_claimed=claimed,
        epsilon_lower=lower,
        violations=violations,
        bytes_up=_mean_bytes(summaries, "up"),
        bytes_down=_mean_bytes(summaries, "down"),
        runs=tuple(_run_ref(point, folder) for point, folder in point_runs),
    )


def _largest_claims(summaries: Sequence[Summary]) -> dict[Unit, ClaimedEpsilon]:
    """Return every unit's claim of the seed with the largest epsilon. Partitions differ by seed."""
    claims_by_unit: dict[Unit, ClaimedEpsilon] = {}
    for summary in summaries:
        for unit, claim in summary.epsilon.items():
            if unit not in claims_by_unit or _claim_size(claim) > _claim_size(claims_by_unit[unit]):
                claims_by_unit[unit] = claim
    return claims_by_unit


def _claim_size(claim: ClaimedEpsilon) -> float:
    return math.inf if claim.epsilon is None else claim.epsilon


def _pool_leaks(audits: Sequence[Sequence[Finding]], asked: Asked) -> tuple[Leak, ...]:
    """Return the findings of the same attack and adversary, pooled over the seeds. An attack that
    was asked for and has no finding in some seed counts as not run."""
    groups: dict[tuple[str, str], list[tuple[int, Finding]]] = {}
    for seed, findings in enumerate(audits):
        for finding in findings:
            if _is_about(finding, asked.adversaries) and _counts_as_leak(finding, asked):
                groups.setdefault((finding.attack, finding.adversary), []).append((seed, finding))
    found = [_pool_leak(group, len(audits), asked.smallest) for group in groups.values()]
    there = {leak.attack for leak in found}
    return tuple(found + [_not_run(name) for name in asked.attacks if name not in there])


def _unchecked_leaks(
    epsilon: float | None, audits: Sequence[Sequence[Finding]]
) -> tuple[Leak, ...]:
    """Return a leak entry if a promised epsilon was not checked: some seed has no finding of its
    checks."""
    if epsilon is None:
        return ()
    made = [{finding.check for finding in findings} for findings in audits]
    absent = sorted({name for checks in made for name in PROMISE_CHECKS - checks})
    because = f"an epsilon is promised and not every seed has a finding of: {', '.join(absent)}"
    found = _not_run(PROMISES).model_copy(update={"because": because})
    return (found,) if absent else ()


def _is_about(finding: Finding, adversaries: Sequence[str]) -> bool:
    """Return whether a finding counts for the adversaries that were asked for.

    Promises are judged apart, unless a check could not tell whether its promise is kept. A finding
    about an unread field or an untaken place counts if its adversary was asked for. Without any
    name, every adversary is asked for.
    """
    if finding.attack == "integrity" or finding.attack.startswith("mechanism_"):
        return finding.verdict is Verdict.INCONCLUSIVE
    if not adversaries:
        return True
    kinds = {text.partition(":")[0] for text in adversaries}
    return finding.attack not in COVERAGE or finding.adversary in kinds


def _counts_as_leak(finding: Finding, asked: Asked) -> bool:
    """Return whether a finding counts with the leaks.

    A finding does not count if its attack is excluded and did not break off, or if the run gives
    the attack nothing and nobody asked for it by name. Checks of promises cannot be excluded.
    """
    if finding.attack in asked.excluded and not finding.check:
        return finding.failed
    return finding.measured or finding.attack in COVERAGE or finding.attack in asked.attacks


def _default_leaks(
    plan: CurvePlan,
    point_runs: Sequence[tuple[Point, RunFolder]],
    audits: Sequence[Sequence[Finding]],
) -> tuple[str, ...] | None:
    """Return every LEAK that the runs' audits report, excluded or not, within any limit or not.
    Return None if some seed was not audited with every attack."""
    asked = [(plan.audits[point.config.hash], folder) for point, folder in point_runs]
    if not all(
        own.has_default_attacks or is_audited(folder, own.default_attacks) for own, folder in asked
    ):
        return None
    seeds: dict[tuple[str, str], list[int]] = {}
    for (point, _), findings in zip(point_runs, audits, strict=True):
        for finding in findings:
            if finding.verdict is Verdict.LEAK:
                by = seeds.setdefault((finding.attack, finding.adversary), [])
                by.append(point.config.seed)
    return tuple(
        f"{attack} by {adversary} is LEAK in the audit of seed {', '.join(map(str, own))}"
        for (attack, adversary), own in sorted(seeds.items())
    )


def _not_asked(audits: Sequence[Sequence[Finding]]) -> tuple[str, ...]:
    found = [f.metric for findings in audits for f in findings if f.attack == NOT_ASKED]
    return tuple(sorted({name for names in found for name in names.split(", ")}))


def _not_run(attack: str) -> Leak:
    return Leak(
        attack=attack,
        adversary="-",
        metric="-",
        unit="-",
        verdict=Verdict.INCONCLUSIVE.value,
        because="it was asked for and has no finding",
    )


def _pool_leak(by_seed: Sequence[tuple[int, Finding]], seeds: int, smallest: float | None) -> Leak:
    """Return the pooled leak of one attack and adversary. Each field or place may have a finding of
    its own, so a seed may have several findings."""
    seed_findings = [finding for _, finding in by_seed]
    first, measured = seed_findings[0], len({seed for seed, _ in by_seed})
    gains, values = (
        [one for one in ones if one] for ones in zip(*_gain_figures(seed_findings), strict=True)
    )
    whole = len(gains) == len(values) == len(seed_findings) and all(f.prior for f in seed_findings)
    verdict, because = pooled_verdict(seed_findings, smallest)
    powerless = whole and not has_power(seed_findings)
    if measured < seeds and verdict not in (Verdict.VIOLATION, Verdict.INCONCLUSIVE):
        verdict, because = Verdict.INCONCLUSIVE, f"measured in {measured} of {seeds} seeds"
    elif powerless and verdict in (Verdict.LEAK, Verdict.TRACE):
        because = f"{because}; with the defence off it does not reach its floor of {first.floor:+g}"
    return Leak(
        attack=first.attack,
        adversary=first.adversary,
        metric=first.metric,
        unit=first.unit,
        verdict=verdict.value,
        because=because,
        sound=verdict is not Verdict.INCONCLUSIVE and not powerless,
        leaking=tuple(dict.fromkeys(s for s, f in by_seed if f.verdict is Verdict.LEAK)),
        basis=_gain_basis(seed_findings) if whole else "",
        value=over_seeds_and_targets(values) if whole else None,
        prior=pooled_prior(seed_findings) if whole else None,
        gain=over_seeds_and_targets(gains) if whole else None,
        most_exposed=most_exposed(seed_findings),
        null=_null_band([f.null for f in seed_findings]) if whole else None,
    )


def _gain_figures(found: Sequence[Finding]) -> list[tuple[Interval | None, Interval | None]]:
    return [(finding.gain, finding.value) for finding in found]


def _gain_basis(found: Sequence[Finding]) -> str:
    """Return how the gain is known. A gain that is measured in one seed counts as measured."""
    bases = {finding.basis for finding in found}
    return bases.pop() if len(bases) == 1 else "measured"


def _null_band(figures: Sequence[Interval | None]) -> Interval | None:
    known = [figure for figure in figures if figure is not None]
    if not known:
        return None
    low = statistics.fmean(f.low - f.value for f in known)
    high = statistics.fmean(f.high - f.value for f in known)
    return Interval(value=0.0, low=low, high=high)


def _measured_epsilons(
    audits: Sequence[Sequence[Finding]],
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Return the mechanism finding that comes closest to its claim, and all violations in words."""
    every = [finding for findings in audits for finding in findings]
    violations = [f.because for f in every if f.verdict is Verdict.VIOLATION]
    known = [f for f in every if f.epsilon_claimed and f.epsilon_lower is not None]
    if not known:
        return None, None, tuple(dict.fromkeys(violations))
    games = [f for f in known if f.attack in ("mechanism_canary", "mechanism_moved")] or known
    closest = max(games, key=lambda f: (f.epsilon_lower or 0.0) / (f.epsilon_claimed or 1.0))
    return closest.epsilon_claimed, closest.epsilon_lower, tuple(dict.fromkeys(violations))


def _make_series(plan: CurvePlan, name: str, runs: dict[str, RunFolder]) -> Series:
    first = next(setting for setting in plan.settings if setting.series == name)
    config = first.runs[0].config
    folder = next((runs[p.config.hash] for p in first.runs if p.config.hash in runs), None)
    own = [level for level in plan.levels if level.series == name]
    score = monitored_name(config, None if folder is None else folder.summary())
    levels = {level.kind: _reference_level(level, runs, score) for level in own}
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
        excluded=plan.excluded.get(name, {}),
    )


def _num_clients(folder: RunFolder | None) -> int:
    if folder is None:
        return 0
    return Partition.load(folder.path / "partition.safetensors").num_clients


def _reference_level(level: Level, runs: dict[str, RunFolder], score: str) -> Interval | None:
    """Return the interval over the seeds that were run, by the score that the series is compared
    by."""
    found = [runs[p.config.hash] for p in level.runs if p.config.hash in runs]
    values = [score_of(folder.summary(), score) for folder in found]
    known = [value for value in values if value is not None]
    return interval(known) if known else None


def _made_by(folders: Sequence[RunFolder]) -> tuple[str, ...]:
    """Return the versions of this software that made the runs, and those that audited them last."""
    runs = {folder.summary().versions.get("securefg", "unknown") for folder in folders}
    audits = [
        last_audit(read_history(folder.path), folder.summary().transcript_chain)
        for folder in folders
    ]
    return tuple(sorted(runs | {audit.version for audit in audits if audit is not None}))


def _scores_alone(
    plan: CurvePlan, setting: Setting, runs: dict[str, RunFolder], score: str
) -> tuple[float, ...]:
    """Return the scores of training alone, seed by seed, for seeds with exactly the same data as
    the setting."""
    scores_alone: list[float] = []
    levels = [o for o in plan.levels if (o.series, o.kind) == (setting.series, "alone")]
    pairs = [pair for o in levels for pair in zip(o.runs, setting.runs, strict=True)]
    for own, other in pairs:
        if own.config.hash in runs and other.config.hash in runs:
            summaries = [runs[p.config.hash].summary() for p in (own, other)]
            value = score_of(summaries[0], score)
            if value is not None and summaries[0].fingerprints == summaries[1].fingerprints:
                scores_alone.append(value)
    return tuple(scores_alone)


def _level_runs(level: Level, runs: dict[str, RunFolder]) -> tuple[RunRef, ...]:
    return tuple(_run_ref(p, runs[p.config.hash]) for p in level.runs if p.config.hash in runs)


def _run_ref(point: Point, folder: RunFolder) -> RunRef:
    config = point.config
    return RunRef(folder=folder.path.name, seed=config.seed, config_hash=config.hash)


def _mean_bytes(summaries: Sequence[Summary], way: str) -> int:
    """Return the mean of the bytes over the seeds. Early stopping ends some runs before others."""
    sizes = [getattr(summary.bytes, way).total for summary in summaries]
    return round(statistics.fmean(sizes))


def _run_seconds(plan: CurvePlan, runs: dict[str, RunFolder]) -> dict[str, float]:
    seconds_by_setting = {}
    for setting in plan.settings:
        own = [runs[p.config.hash].summary().seconds for p in setting.runs if p.config.hash in runs]
        if own:
            seconds_by_setting[setting.key] = round(statistics.fmean(own), 3)
    return seconds_by_setting


def _describe_hardware() -> dict[str, str]:
    return {
        "processor": platform.machine(),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
    }
