"""Findings of several seeds pooled into one verdict.

Every seed has targets of its own, each with its prior, so that a seed's gain is paired already.
The pooled gain is the mean over the seeds. Its interval is hierarchical: targets vary within a
seed, and seeds vary among each other. No seed must be conclusive alone. The pooled gain is judged
by the rules for a single run (`audits.verdicts`), beside the pooled gain with the defence off.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from audits.closed_form import ClosedForm
from audits.findings.record import Finding, Verdict
from audits.verdicts import Evidence, judge_computed, judge_gain, smallest_gain
from securefg.foundation.interval import Interval, interval


def over_seeds_and_targets(figures: Sequence[Interval]) -> Interval:
    """Return the mean over seeds, with a hierarchical interval.

    The values of the seeds vary by their targets and by the seed, and Student's interval over the
    seeds covers both. Few seeds may lie close together by luck, so the interval is never narrower
    than the targets of all seeds together allow. For one seed, return its interval.
    """
    if len(figures) == 1:
        return Interval(value=figures[0].value, low=figures[0].low, high=figures[0].high)
    spread, count = interval([figure.value for figure in figures]), len(figures)
    below = math.sqrt(sum((f.value - f.low) ** 2 for f in figures)) / count
    above = math.sqrt(sum((f.high - f.value) ** 2 for f in figures)) / count
    return Interval(
        value=spread.value,
        low=min(spread.low, spread.value - below),
        high=max(spread.high, spread.value + above),
    )


def pooled_verdict(seed_findings: Sequence[Finding], smallest: float | None) -> tuple[Verdict, str]:
    """Return one verdict for all seeds, and why.

    smallest  the smallest gain that matters, or None for the default of the metric
    """
    if len(seed_findings) == 1:
        return seed_findings[0].verdict, seed_findings[0].because
    for finding in seed_findings:
        if finding.verdict is Verdict.VIOLATION:
            return finding.verdict, finding.because
    gains = [finding.gain for finding in seed_findings if finding.gain is not None]
    if len(gains) < len(seed_findings):
        return _without_gains(seed_findings)
    gain, least = over_seeds_and_targets(gains), smallest_gain(seed_findings[0].metric, smallest)
    if all(finding.basis != "measured" for finding in seed_findings):
        form = ClosedForm(gain, most_exposed(seed_findings) or gain.high, seed_findings[0].basis)
        verdict, why = judge_computed(form, least)
    else:
        verdict, why = judge_gain(_pool_evidence(seed_findings, gain, least))
    return verdict, f"over {len(seed_findings)} seeds: {why}"


def most_exposed(found: Sequence[Finding]) -> float | None:
    """Return the largest gain of a single target that follows from the noise, over all seeds."""
    known = [f.details["most_exposed"] for f in found if "most_exposed" in f.details]
    return max(known, default=None)


def pooled_control(found: Sequence[Finding]) -> Interval | None:
    """Return the gain with the defence off, or None if a seed has no control."""
    controls = [finding.positive for finding in found if finding.positive is not None]
    return over_seeds_and_targets(controls) if len(controls) == len(found) else None


def has_power(seed_findings: Sequence[Finding]) -> bool:
    """Return whether the attack reaches its floor with the defence off, over the seeds: a small
    gain of an attack that never works says little. A run without a defence is its own control."""
    if all(finding.basis != "measured" for finding in seed_findings):
        return True
    floors = [finding.floor for finding in seed_findings if finding.floor is not None]
    gains = [finding.gain for finding in seed_findings if finding.gain is not None]
    power = pooled_control(seed_findings) or (over_seeds_and_targets(gains) if gains else None)
    if power is None or not floors:
        return True
    return power.low > 0 and power.value >= max(floors)


def _pool_evidence(seed_findings: Sequence[Finding], gain: Interval, smallest: float) -> Evidence:
    values = [finding.value for finding in seed_findings if finding.value is not None]
    tails = [f.details["tail_chance"] for f in seed_findings if "tail_chance" in f.details]
    failed = [f.because for f in seed_findings if f.details.get("null_failed")]
    left = {str(f.because) for f in seed_findings if f.details.get("noise_left")}
    return Evidence(
        value=over_seeds_and_targets(values) if values else gain,
        gain=gain,
        null_at_chance=all(finding.null_at_chance is not False for finding in seed_findings),
        control=pooled_control(seed_findings),
        own=False,
        floor=max((finding.floor or 0.0) for finding in seed_findings),
        smallest=smallest,
        noise_left=tuple(sorted(left)),
        null_failed="; ".join(dict.fromkeys(failed)),
        tail=min(1.0, len(seed_findings) * min(tails)) if tails else None,
    )


def _without_gains(seed_findings: Sequence[Finding]) -> tuple[Verdict, str]:
    """Return the worst verdict of the seeds, for checks without a gain. Unknown in one seed is
    unknown."""
    for verdict in (Verdict.LEAK, Verdict.INCONCLUSIVE, Verdict.TRACE):
        for finding in seed_findings:
            if finding.verdict is verdict:
                return verdict, finding.because
    return seed_findings[0].verdict, seed_findings[0].because


def pooled_prior(found: Sequence[Finding]) -> float:
    """Return the mean of the seeds' priors."""
    return statistics.fmean(finding.prior.value for finding in found if finding.prior)
