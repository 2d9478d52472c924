"""The setting that a curve recommends, the reason against all settings, or what is missing.

A setting is recommended (green) only if all of this holds. A figure that was not measured counts as
failed:

- at least `LEAST_SEEDS` seeds,
- every attack that fits the runs was run in every seed, and the pooled verdict (`pooled`) is not
  INCONCLUSIVE, unless the config excludes the attack with a reason. An attack whose gain is
  measured reaches its floor with the defence off.
- no attack is LEAK in the default audit of any seed, excluded or not,
- the upper end of every attack's pooled gain, and the gain of the most exposed target where the
  noise gives it, are within `limits.leak_gain`,
- the promised epsilon is within `limits.epsilon`, per `limits.unit` or else per the setting's unit,
  which is not a row. The runs came to no more, it is private, and no promise was broken or could
  not be checked,
- the score, at the lower end of its interval, is at least `limits.accuracy`,
- its runs and audits are of one version of this software,
- the score is above that of always naming the most frequent class, and above training alone: the
  differences are paired by seed, and the lower ends of their intervals are above zero.

If no setting is recommended, the second half looks for a reason against each that more measurements
would not change. A setting is ruled out if it promises no epsilon within the limits, if a promise
was broken, if its score is less than `WORTH` above those who send nothing, or if an attack gains
more than the limit. With fewer seeds than a recommendation needs, the score itself is judged. With
more seeds, the upper end of its difference is judged.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import cast

from attacks import attack_names
from audits.answer.sentences import join_words
from audits.findings.record import COVERAGE, Verdict
from audits.plan import PROMISES
from securefg.foundation.interval import Interval, interval
from securefg.reports.curve_data import Choice, CurvePoint, Leak, Limits, Series
from securefg.settings.privacy import Unit

LEAST_SEEDS = 3
TOLERANCE = 1e-3


def choose_point(
    series: Series, points: Sequence[CurvePoint], limits: Limits, command: str
) -> Choice:
    """Return the best point without an objection or, if there is none, what the nearest point
    lacks."""
    series_points = [p for p in points if p.series == series.name and p.accuracy is not None]
    if not series_points:
        again = f"`{command}` runs what is missing"
        return Choice(
            series=series.name,
            point=None,
            words=f"no setting was run to its end; {again}",
            missing=(again,),
        )
    fitting = [p for p in series_points if not list_objections(p, limits)]
    if fitting:
        best = max(fitting, key=reached_score)
        words = f"{point_name(best)}: {_score_words(best)}, attacked by {_attacker_words(best)}"
        return Choice(series=series.name, point=best.key, words=words, concluded=True)
    absent = _not_run(series, points, command)
    against = "" if absent else reason_against(series_points, limits)
    if against:
        words = f"no setting is recommended: {against}"
        return Choice(series=series.name, point=None, words=words, concluded=True)
    nearest = nearest_point(series_points, limits)
    near = "; ".join(list_objections(nearest, limits)[:3])
    return Choice(
        series=series.name,
        point=None,
        words=f"no setting is recommended; {point_name(nearest)} comes nearest: {near}",
        missing=(*absent, *missing_measurements(series_points, limits, command)),
    )


def _not_run(series: Series, points: Sequence[CurvePoint], command: str) -> list[str]:
    """Return a sentence on the settings that failed or do not have all their seeds."""
    absent = [p for p in points if p.series == series.name and p.accuracy is None]
    names = ", ".join(point_name(point) for point in absent)
    return [f"{names}: not run to the end; `{command}` does it"] if absent else []


def nearest_point(points: Sequence[CurvePoint], limits: Limits) -> CurvePoint:
    """Return the point with the fewest objections, of those with a promise within the limits."""
    return min(points, key=lambda point: _distance_from_limits(point, limits))


def _distance_from_limits(point: CurvePoint, limits: Limits) -> tuple[float, int, float]:
    """Return how far a setting is from a recommendation, as a sorting key.

    A setting without a promise within the limit is never nearer than a setting that has it. Beyond
    the limit the smaller epsilon is nearer, and no promise is the farthest.
    """
    beyond = 0.0
    if epsilon_objection(point, limits):
        promised = _promised_epsilon(point, limits)
        beyond = math.inf if promised is None else promised
    return beyond, len(list_objections(point, limits)), -reached_score(point)


def list_objections(point: CurvePoint, limits: Limits) -> list[str]:
    """Return why a point is not recommended. Its worth comes before its leaks."""
    objections = [*point.violations, *_worth_objections(point)]
    if len(point.accuracies) < LEAST_SEEDS:
        objections.append(f"{_seed_words(point)} of at least {LEAST_SEEDS}")
    if len(point.made_by) != 1:
        objections.append(f"runs and audits of different versions ({', '.join(point.made_by)})")
    if all(leak.gain is None for leak in point.leaks):
        objections.append("no attack was run")
    objections += claim_objection(point)
    objections += epsilon_objection(point, limits)
    if limits.accuracy is not None and _least_accuracy(point) < limits.accuracy:
        objections.append(
            f"{point.score} is {reached_score(point):.3f}, and may be {_least_accuracy(point):.3f}"
        )
    for leak in point.leaks:
        objections += _leak_objection(leak, limits)
    return objections + (_default_audit_objection(point) if limits.any else [])


def _default_audit_objection(point: CurvePoint) -> list[str]:
    """Return every LEAK in the default audit of any run, whatever was asked for or excluded."""
    if point.default_leaks is None:
        return ["not every attack that fits the runs was run"]
    return list(point.default_leaks)


def awaiting_default_audit(
    series: Sequence[Series], points: Sequence[CurvePoint], limits: Limits
) -> list[str]:
    """Return the keys of the points that would be recommended if the default audit found no
    leak."""
    if not limits.any:
        return []
    hoped = [p if p.default_leaks is not None else _if_nothing_leaks(p) for p in points]
    chosen = {choose_point(one, hoped, limits, "").point for one in series}
    return [p.key for p in points if p.key in chosen and p.default_leaks is None]


def _if_nothing_leaks(point: CurvePoint) -> CurvePoint:
    """Return the point as it would be after a default audit that reads every field and finds
    nothing."""
    leaks = tuple(leak for leak in point.leaks if leak.attack not in COVERAGE)
    return point.model_copy(update={"default_leaks": (), "leaks": leaks})


def claim_objection(point: CurvePoint) -> list[str]:
    """Return the objections if the runs came to another epsilon than was asked for."""
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
    whose = "" if leak.adversary == "-" else f" by {leak.adversary}"
    if leak.verdict == Verdict.INCONCLUSIVE or (leak.gain is not None and not leak.sound):
        return [f"{leak.attack}{whose}: the measurement did not hold{_leak_reason(leak)}"]
    if limits.any and (leak.leaking or leak.verdict == Verdict.LEAK):
        return [f"{leak.attack}{whose} leaks{_leak_reason(leak)}"]
    if limits.leak_gain is None or leak.gain is None:
        return []
    if leak.gain.high > limits.leak_gain:
        return [f"{leak.attack}{whose} may gain up to {leak.gain.high:+.3f}"]
    if leak.most_exposed is not None and leak.most_exposed > limits.leak_gain:
        return [f"{leak.attack}{whose} gains {leak.most_exposed:+.3f} on the most exposed target"]
    return []


def _leak_reason(leak: Leak) -> str:
    """Return the reason in brackets, with the gain over the seeds where the reason does not tell
    it."""
    return f" ({leak.because})" if leak.because else ""


def is_unsound(leak: Leak) -> bool:
    """Return whether the measurement of an attack did not hold."""
    return leak.verdict == Verdict.INCONCLUSIVE or (leak.gain is not None and not leak.sound)


def _worth_objections(point: CurvePoint) -> list[str]:
    """Return objections from a comparison with those who send nothing: the majority class, and
    training alone."""
    levels = {
        "the majority class": point.no_skill,
        "training alone": point.alone_accuracies,
    }
    objections = []
    for name, level in levels.items():
        if len(level) < len(point.accuracies) or not level:
            objections.append(f"{name} was not measured in every seed on the same data")
            continue
        gain = paired_difference(point.accuracies, level)
        if gain.low <= 0:
            objections.append(
                f"{point.score} is not above {name} by more than the interval "
                f"({gain.value:+.3f}, {gain.low:+.3f} to {gain.high:+.3f})"
            )
    return objections


def missing_measurements(points: Sequence[CurvePoint], limits: Limits, command: str) -> list[str]:
    """Return which measurements are missing, and the command that makes them. Settings that lack a
    promise are named only if no setting has one."""
    missing_texts = []
    seeds = min(len(point.accuracies) for point in points)
    if seeds < LEAST_SEEDS:
        missing_texts.append(
            f"{LEAST_SEEDS} seeds, found {seeds}: `{command} --seeds {LEAST_SEEDS}`"
        )
    if not all(point.alone_accuracies for point in points):
        missing_texts.append(f"training alone: add `alone:` to the sweep, then `{command}`")
    elif any(len(point.alone_accuracies) < len(point.accuracies) for point in points):
        missing_texts.append(f"training alone in every seed, on the same data: `{command}`")
    if any(len(point.made_by) > 1 for point in points):
        missing_texts.append(
            f"runs and audits of one version: `{command} --root` with another folder"
        )
    if all(leak.gain is None for point in points for leak in point.leaks):
        missing_texts.append(f"an attack: remove `attacks:` from the sweep, then `{command}`")
    promised = [point for point in points if not epsilon_objection(point, limits)] or list(points)
    unknown: dict[str, tuple[CurvePoint, Leak]] = {}
    for point in sorted(promised, key=lambda p: _distance_from_limits(p, limits)):
        for leak in filter(is_unsound, point.leaks):
            unknown.setdefault(leak.attack, (point, leak))
    for name in sorted(unknown.keys() - COVERAGE):
        missing_texts.append(_repeat_command(*unknown[name]))
    if unknown.keys() & COVERAGE:
        missing_texts.append(
            "an attack on what none reads yet: `securefg list attacks`, or one of your own "
            f"(`--attack MODULE`), then `{command}`"
        )
    return missing_texts


def _repeat_command(point: CurvePoint, leak: Leak) -> str:
    """Return the command that shows why, on the run of the first seed. Checks of promises go by one
    name."""
    folder = point.runs[0].folder if point.runs else "RUN"
    is_check = leak.gain is None and leak.attack not in attack_names()
    only = PROMISES if is_check else leak.attack
    again = f"`securefg audit runs/{folder} --only {only}`, from the page's folder,"
    return f"{leak.attack}, whose measurement did not hold: {again} shows why"


def point_name(point: CurvePoint) -> str:
    """Return how a sentence names a point: its defence, and its epsilon."""
    name = "no defence" if point.defence == "none" else point.defence
    return name + ("" if point.epsilon is None else f" at epsilon {point.epsilon:g}")


def _attacker_words(point: CurvePoint) -> str:
    kinds = {leak.adversary.partition(":")[0] for leak in point.leaks if leak.gain}
    return join_words(sorted(kinds)) or "nobody"


def _least_accuracy(point: CurvePoint) -> float:
    return point.accuracy.low if point.accuracy else 0.0


def _score_words(point: CurvePoint) -> str:
    return f"{point.score} {reached_score(point):.3f}"


def _seed_words(point: CurvePoint) -> str:
    count = len(point.accuracies)
    return "1 seed" if count == 1 else f"{count} seeds"


FEW_SEEDS = 2
WORTH = 0.01
"""A common model that is less than a point better than training alone is not worth its risk."""


def reason_against(points: Sequence[CurvePoint], limits: Limits) -> str:
    """Return why no setting can be recommended, or an empty text if a setting still could be."""
    promised = [point for point in points if not epsilon_objection(point, limits)]
    if not promised:
        return "; ".join(filter(None, (_no_promise(points, limits), _strongest_attack(points))))
    reasons = {point.key: list(_list_refutations(point, limits)) for point in promised}
    if not all(reasons.values()):
        return ""
    worthless = [point for point in promised if _worthless_reason(point)]
    if len(worthless) == len(promised):
        best = max(promised, key=reached_score)
        found = "no setting within the limits leaves a model worth having; the best has"
        return f"{found} {_worthless_reason(best)}"
    return "; ".join(f"{_epsilon_words(point)}: {reasons[point.key][0]}" for point in promised)


def _list_refutations(point: CurvePoint, limits: Limits) -> Iterator[str]:
    yield from point.violations
    if worthless := _worthless_reason(point):
        yield worthless
    limit = math.inf if limits.leak_gain is None else limits.leak_gain
    for leak in sorted(point.leaks, key=certain_gain, reverse=True):
        if certain_gain(leak) > limit:
            yield f"{leak.attack} by {leak.adversary} gains at least {certain_gain(leak):+.3f}"
        elif leak.sound and (leak.most_exposed or 0.0) > limit:
            yield (
                f"{leak.attack} by {leak.adversary} gains {leak.most_exposed:+.3f} on the most "
                "exposed target"
            )


def certain_gain(leak: Leak) -> float:
    """Return the least gain that is known, on average over the targets."""
    return 0.0 if leak.gain is None or not leak.sound else leak.gain.low


def _worthless_reason(point: CurvePoint) -> str:
    """Return how the score compares with those who send nothing if it is no better, or an empty
    text."""
    levels = {"training alone": point.alone_accuracies, "the most frequent class": point.no_skill}
    for name, level in levels.items():
        if level and len(level) == len(point.accuracies):
            gain, few = paired_difference(point.accuracies, level), len(level) <= FEW_SEEDS
            if (gain.value if few else gain.high) < WORTH:
                spread = "" if few else f", {gain.low:+.3f} to {gain.high:+.3f}"
                reached = f"{point.score} {reached_score(point):.3f} at {_epsilon_words(point)}"
                other = f"{statistics.fmean(level):.3f} by {name}"
                return f"{reached}, {other} (difference {gain.value:+.3f}{spread})"
    return ""


def _no_promise(points: Sequence[CurvePoint], limits: Limits) -> str:
    promised_points = [
        (epsilon, point)
        for point in points
        if (epsilon := _promised_epsilon(point, limits)) is not None
    ]
    if not promised_points:
        return next(text for point in points for text in epsilon_objection(point, limits))
    least, point = min(promised_points, key=lambda one: one[0])
    unit = limits.unit or point.unit
    return (
        f"no setting promises an epsilon of at most {limits.epsilon:g}: the smallest is "
        f"{least:.4g} per {unit}"
    )


def _strongest_attack(points: Sequence[CurvePoint]) -> str:
    """Return the attack that gains most at the setting where attacks gain least."""
    if not all(point.leaks for point in points):
        return ""
    least = min((max(point.leaks, key=certain_gain) for point in points), key=certain_gain)
    if certain_gain(least) <= 0:
        return ""
    if len(points) > 1:
        return f"an attack gains at least {certain_gain(least):+.3f} at every setting"
    return f"{least.attack} by {least.adversary} gains at least {certain_gain(least):+.3f}"


def epsilon_objection(point: CurvePoint, limits: Limits) -> list[str]:
    """Return the objections to the promised epsilon. An epsilon per row protects no person, so it
    is held only to a limit that asks for rows."""
    if limits.epsilon is None:
        return []
    if point.epsilon is None:
        return ["no epsilon is promised"]
    unit = limits.unit or cast(Unit, point.unit)
    if unit == "row" and limits.unit is None:
        return ["epsilon is promised per row, which is no person (limits.unit)"]
    found = _promised_epsilon(point, limits)
    if found is None:
        return [f"no epsilon is promised per {unit}"]
    return [] if found <= limits.epsilon else [f"epsilon is too large ({found:.4g} per {unit})"]


def _promised_epsilon(point: CurvePoint, limits: Limits) -> float | None:
    """Return the epsilon that a setting promises per the unit of the limits."""
    unit = limits.unit or cast(Unit, point.unit)
    if point.epsilon is None or unit == point.unit:
        return point.epsilon
    claim = point.claims.get(unit)
    return claim.epsilon if claim else None


def paired_difference(values: Sequence[float], others: Sequence[float]) -> Interval:
    """Return the mean difference, seed by seed, with its interval."""
    return interval([a - b for a, b in zip(values, others, strict=False)])


def reached_score(point: CurvePoint) -> float:
    """Return the mean score of a point over its seeds, or 0 if it has none."""
    return point.accuracy.value if point.accuracy else 0.0


def _epsilon_words(point: CurvePoint) -> str:
    return "no epsilon" if point.epsilon is None else f"epsilon {point.epsilon:g}"
