"""Which setting a curve recommends, and what is missing where it recommends none.

A setting is recommended (green) only where all of this holds; what is not known does not hold:

- at least `LEAST_SEEDS` seeds;
- every attack that was asked for was run in every seed, and its measurement held: each seed alone
  is LEAK or NOT_DETECTED, not INCONCLUSIVE, and one that leaks is not under the attack's floor with
  the defence off;
- the same holds for every attack that fits the runs, unless the config excludes it with a reason;
- no attack is LEAK in the default audit of any seed, excluded or not;
- the upper end of every attack's gain, over seeds and targets, is within `limits.leak_gain`; where
  other limits are set and this is not, no attack leaks;
- the promised epsilon is within `limits.epsilon`, per `limits.unit` or else per the setting's unit,
  which is not a row; the runs came to no more, it is private, and no promise was broken or could
  not be checked;
- the score, at the lower end of its interval, is at least `limits.accuracy`;
- its runs and audits are of one version of this software;
- the score is above that of always naming the most frequent class, and above training alone: the
  differences are paired by seed, and the lower ends of their intervals are above zero.

Seeds are combined into one verdict by the interval that is drawn: LEAK where its lower end is above
zero, NOT_DETECTED where every seed says so and its upper end is below the smallest gain that
matters, INCONCLUSIVE otherwise, and where the measurement of any seed did not hold.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import cast

from attacks import attack_names
from audits.plan import PROMISES
from audits.verdicts import SMALLEST_GAIN
from securefg.foundation.interval import Interval, interval
from securefg.reports.curve.data import Choice, CurvePoint, Leak, Limits, Series
from securefg.run.findings import COVERAGE, Finding, Verdict
from securefg.settings.privacy import Unit

LEAST_SEEDS = 3
TOLERANCE = 1e-3


def over_seeds_and_targets(figures: Sequence[Interval | None]) -> Interval:
    """The mean over seeds; its reach is Student's over the seeds, and never less than what the
    targets of the seeds allow together. Of one seed, the finding's interval."""
    known = [figure for figure in figures if figure is not None]
    if len(known) == 1:
        return Interval(value=known[0].value, low=known[0].low, high=known[0].high)
    spread, root = interval([figure.value for figure in known]), len(known) ** 0.5
    below = statistics.fmean(f.value - f.low for f in known) / root
    above = statistics.fmean(f.high - f.value for f in known) / root
    return Interval(
        value=spread.value,
        low=min(spread.low, spread.value - below),
        high=max(spread.high, spread.value + above),
    )


def combined(
    found: Sequence[Finding], gain: Interval | None, smallest: float = SMALLEST_GAIN
) -> tuple[Verdict, str]:
    """One verdict for all seeds, by the rule above, and why."""
    if len(found) == 1:
        return found[0].verdict, found[0].because
    for finding in found:
        unsound = finding.gain is not None and finding.null_at_chance is False
        if finding.verdict is Verdict.VIOLATION or unsound:
            return finding.verdict, finding.because
    if gain is None:
        return _without_gains(found)
    seeds = f"over {len(found)} seeds {gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
    if gain.low > 0:
        return Verdict.LEAK, seeds
    verdicts = {finding.verdict for finding in found}
    if verdicts == {Verdict.NOT_DETECTED} and gain.high < smallest:
        return Verdict.NOT_DETECTED, seeds
    if verdicts == {Verdict.NOT_DETECTED}:
        return Verdict.INCONCLUSIVE, f"{seeds}: a gain that matters could hide"
    unsure = next(f for f in found if f.verdict is not Verdict.NOT_DETECTED)
    if unsure.verdict is Verdict.LEAK:
        return Verdict.INCONCLUSIVE, f"{seeds}, and some seeds alone show a leak"
    return Verdict.INCONCLUSIVE, f"{seeds}; {unsure.because}"


def _without_gains(found: Sequence[Finding]) -> tuple[Verdict, str]:
    """Checks that have no gain: the worst of the seeds; unknown in one seed is unknown."""
    for verdict in (Verdict.LEAK, Verdict.INCONCLUSIVE):
        for finding in found:
            if finding.verdict is verdict:
                return verdict, finding.because
    return found[0].verdict, found[0].because


def choose(series: Series, points: Sequence[CurvePoint], limits: Limits, command: str) -> Choice:
    """The best point without an objection; where there is none, what the nearest one lacks."""
    own = [p for p in points if p.series == series.name and p.accuracy is not None]
    if not own:
        again = f"`{command}` runs what is missing"
        return Choice(
            series=series.name,
            point=None,
            words=f"no setting was run to its end; {again}",
            missing=(again,),
        )
    fitting = [p for p in own if not objections(p, limits)]
    if fitting:
        best = max(fitting, key=_reached)
        words = f"{called(best)}: {_scored(best)}, attacked by {_attackers(best)} alone"
        return Choice(series=series.name, point=best.key, words=words)
    nearest = min(own, key=lambda p: _distance(p, limits))
    against = objections(nearest, limits)
    return Choice(
        series=series.name,
        point=None,
        words=f"no setting is recommended; {called(nearest)} comes nearest: "
        + "; ".join(against[:3]),
        missing=(*_not_run(series, points, command), *missing(own, limits, command)),
    )


def _not_run(series: Series, points: Sequence[CurvePoint], command: str) -> list[str]:
    """Settings that failed, or have not all their seeds."""
    absent = [p for p in points if p.series == series.name and p.accuracy is None]
    names = ", ".join(called(point) for point in absent)
    return [f"{names}: not run to the end; `{command}` does it"] if absent else []


def _distance(point: CurvePoint, limits: Limits) -> tuple[bool, int, float]:
    """A setting without a promise within the limit is never nearer than one that has it."""
    promised = not _epsilon_objection(point, limits)
    return not promised, len(objections(point, limits)), -_reached(point)


def objections(point: CurvePoint, limits: Limits) -> list[str]:
    """Why a point is not recommended; whether it is worth having comes before what it leaks."""
    found = [*point.violations, *_worth_objections(point)]
    if len(point.accuracies) < LEAST_SEEDS:
        found.append(f"{_seeds(point)} of at least {LEAST_SEEDS}")
    if len(point.made_by) != 1:
        found.append(f"runs and audits of different versions ({', '.join(point.made_by)})")
    if all(leak.gain is None for leak in point.leaks):
        found.append("no attack was run")
    found += _claim_objection(point)
    found += _epsilon_objection(point, limits)
    if limits.accuracy is not None and _least(point) < limits.accuracy:
        found.append(f"{point.score} is {_reached(point):.3f}, and may be {_least(point):.3f}")
    for leak in point.leaks:
        found += _leak_objection(leak, limits)
    return found + (_default_audit_objection(point) if limits.any else [])


def _default_audit_objection(point: CurvePoint) -> list[str]:
    """A LEAK in the default audit of any run, whatever was asked for and whatever is excluded."""
    if point.default_leaks is None:
        return ["not every attack that fits the runs was run"]
    return list(point.default_leaks)


def awaiting_default_audit(
    series: Sequence[Series], points: Sequence[CurvePoint], limits: Limits
) -> list[str]:
    """Keys of the points that would be recommended if the default audit found no leak."""
    if not limits.any:
        return []
    hoped = [p if p.default_leaks is not None else _if_nothing_leaks(p) for p in points]
    chosen = {choose(one, hoped, limits, "").point for one in series}
    return [p.key for p in points if p.key in chosen and p.default_leaks is None]


def _if_nothing_leaks(point: CurvePoint) -> CurvePoint:
    """The point as a default audit would leave it that reads every field and finds nothing."""
    leaks = tuple(leak for leak in point.leaks if leak.attack not in COVERAGE)
    return point.model_copy(update={"default_leaks": (), "leaks": leaks})


def _epsilon_objection(point: CurvePoint, limits: Limits) -> list[str]:
    """An epsilon per row speaks of no person: it is held to a limit that asks for rows alone."""
    if limits.epsilon is None:
        return []
    if point.epsilon is None:
        return ["no epsilon is promised"]
    unit = limits.unit or cast(Unit, point.unit)
    if unit == "row" and limits.unit is None:
        return ["epsilon is promised per row, which is no person (limits.unit)"]
    claim = point.claims.get(unit)
    found = point.epsilon if unit == point.unit else claim.epsilon if claim else None
    if found is None:
        return [f"no epsilon is promised per {unit}"]
    return [] if found <= limits.epsilon else [f"epsilon is too large ({found:.4g} per {unit})"]


def _claim_objection(point: CurvePoint) -> list[str]:
    """The epsilon that was asked for against the one that the runs came to."""
    if point.epsilon is None or not point.unit:
        return []
    claim = point.claims.get(cast(Unit, point.unit))
    if claim is None:
        return [f"the runs claim no epsilon per {point.unit}"]
    if not claim.private or claim.epsilon is None:
        return [f"the epsilon per {point.unit} is not private"]
    if claim.epsilon > point.epsilon * (1 + TOLERANCE):
        return [f"the runs came to epsilon {claim.epsilon:.4g} per {point.unit}"]
    return []


def _leak_objection(leak: Leak, limits: Limits) -> list[str]:
    if _did_not_hold(leak):
        whose = "" if leak.adversary == "-" else f" by {leak.adversary}"
        return [f"{leak.attack}{whose}: the measurement did not hold{_unheld(leak)}"]
    unlimited = limits.any and limits.leak_gain is None
    if leak.gain is None or (unlimited and leak.verdict == Verdict.LEAK):
        return [] if leak.verdict == Verdict.NOT_DETECTED else [f"{leak.attack} leaks"]
    if limits.leak_gain is not None and leak.gain.high > limits.leak_gain:
        return [f"{leak.attack} may gain up to {leak.gain.high:+.3f}"]
    return []


def _unheld(leak: Leak) -> str:
    """Where, and why, with the gain over the seeds."""
    found, gain, seeds = leak.why or leak.because, leak.gain, len(leak.unheld)
    if gain is None:
        return f" ({found})"
    over = f"gain {gain.value:+.3f}, {gain.low:+.3f} to {gain.high:+.3f} over the seeds"
    if not seeds:
        return f" ({'; '.join(filter(None, (leak.because, over)))})"
    return f" in {seeds} seed{'s' if seeds > 1 else ''} alone ({found}; {over})"


def _did_not_hold(leak: Leak) -> bool:
    """Figures hold where those of every seed do; checks without any, where they found something."""
    return not leak.sound if leak.gain else leak.verdict == Verdict.INCONCLUSIVE


def _worth_objections(point: CurvePoint) -> list[str]:
    """Against those who send nothing: the majority class, and training alone."""
    levels = {
        "the majority class": point.no_skill,
        "training alone": point.alone_accuracies,
    }
    found = []
    for name, level in levels.items():
        if len(level) < len(point.accuracies) or not level:
            found.append(f"{name} was not measured in every seed on the same data")
            continue
        gain = paired(point.accuracies, level)
        if gain.low <= 0:
            found.append(
                f"{point.score} is not above {name} by more than the interval "
                f"({gain.value:+.3f}, {gain.low:+.3f} to {gain.high:+.3f})"
            )
    return found


def paired(values: Sequence[float], others: Sequence[float]) -> Interval:
    """The mean difference, seed by seed, with its interval."""
    return interval([a - b for a, b in zip(values, others, strict=False)])


def missing(own: Sequence[CurvePoint], limits: Limits, command: str) -> list[str]:
    """Which measurements are not there, and what would make them; of what cannot be recommended for
    want of a promise, only where nothing has one."""
    found = []
    seeds = min(len(point.accuracies) for point in own)
    if seeds < LEAST_SEEDS:
        found.append(f"{LEAST_SEEDS} seeds, found {seeds}: `{command} --seeds {LEAST_SEEDS}`")
    if not all(point.alone_accuracies for point in own):
        found.append(f"training alone: add `alone:` to the sweep, then `{command}`")
    elif any(len(point.alone_accuracies) < len(point.accuracies) for point in own):
        found.append(f"training alone in every seed, on the same data: `{command}`")
    if any(len(point.made_by) > 1 for point in own):
        found.append(f"runs and audits of one version: `{command} --root` with another folder")
    if all(leak.gain is None for point in own for leak in point.leaks):
        found.append(f"an attack: add `attacks:` to the sweep, then `{command}`")
    promised = [point for point in own if not _epsilon_objection(point, limits)] or list(own)
    unknown: dict[str, tuple[CurvePoint, Leak]] = {}
    for point in sorted(promised, key=lambda p: _distance(p, limits)):
        for leak in filter(_did_not_hold, point.leaks):
            unknown.setdefault(leak.attack, (point, leak))
    for name in sorted(unknown.keys() - COVERAGE):
        found.append(_again(*unknown[name]))
    if unknown.keys() & COVERAGE:
        found.append(
            "an attack on what none reads yet: `securefg list attacks`, or one of your own "
            f"(`--attack MODULE`), then `{command}`"
        )
    return found


def _again(point: CurvePoint, leak: Leak) -> str:
    """The command that shows why, on the run of the first seed that did not hold. Checks of
    promises go by one name."""
    seed = leak.unheld[0] if leak.unheld else 0
    folder = point.runs[seed].folder if 0 <= seed < len(point.runs) else "RUN"
    is_check = leak.gain is None and leak.attack not in attack_names()
    only = PROMISES if is_check else leak.attack
    again = f"`securefg audit runs/{folder} --only {only}`, from the page's folder,"
    return f"{leak.attack}, whose measurement did not hold: {again} shows why"


def called(point: CurvePoint) -> str:
    name = "no defence" if point.defence == "none" else point.defence
    return name + ("" if point.epsilon is None else f" at epsilon {point.epsilon:g}")


def _attackers(point: CurvePoint) -> str:
    kinds = {leak.adversary.partition(":")[0] for leak in point.leaks if leak.gain}
    return " and ".join(sorted(kinds)) or "nobody"


def _reached(point: CurvePoint) -> float:
    return point.accuracy.value if point.accuracy else 0.0


def _least(point: CurvePoint) -> float:
    return point.accuracy.low if point.accuracy else 0.0


def _scored(point: CurvePoint) -> str:
    return f"{point.score} {_reached(point):.3f}"


def _seeds(point: CurvePoint) -> str:
    count = len(point.accuracies)
    return "1 seed" if count == 1 else f"{count} seeds"
