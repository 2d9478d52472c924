"""Whole messages: every row, every number, all rounds, sent as zeros, small values and loud ones.

The other games look at a few numbers of a few rows many times. Here messages of the planned shape
go through the channel, in all rounds that there is room for, and what comes out is compared with
what went in, clipped: the rest must be noise of the claimed size everywhere, and nowhere twice.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2

from audits.guesses import FIRST, likeness_test
from audits.mechanisms.effort import NUMBERS, spread
from audits.mechanisms.message import AuditedMessage, Floats
from audits.mechanisms.results import LawResult
from audits.noise_law import LawTest, joint_tests, law_tests
from audits.uploads import Host
from securefg.privacy.policy import PlannedRelease, Policy
from securefg.privacy.rules import DistributedDiscrete, LocalGaussian

LOUDNESS = (0.0, 0.5, 1e4)
"""What the trials send, in turn, over the clip: nothing, a value within it, one far above it."""

LEAST_TRIALS, MOST_TRIALS = 6, 256


def play_whole(message: AuditedMessage) -> list[LawResult]:
    host = message.host(rows=None)
    room = max(1, NUMBERS // (4 * host.numbers_per_trial))
    rounds = spread(message.shared_rounds, max(3, room // LEAST_TRIALS))
    trials = min(MOST_TRIALS, max(LEAST_TRIALS, room // len(rounds)))
    sent = {r.field: _values(message, r, host, trials) for r in message.claimed}
    enrolled = host.enrol(trials, 3)
    seen = [host.emit(sent, enrolled, round)[0] for round in rounds]
    noises = {
        r.field: _noise(message, r, host, sent[r.field], [s[r.field] for s in seen])
        for r in message.claimed
    }
    together = [_together(message, host, noises, len(rounds))] if len(noises) > 1 else []
    return together + [
        _result(
            message,
            release,
            host,
            sent[release.field],
            [s[release.field] for s in seen],
            noises[release.field],
        )
        for release in message.claimed
    ]


def _together(
    message: AuditedMessage, host: Host, noises: dict[str, Floats], rounds: int
) -> LawResult:
    """Of the message, not of a field: a bare field must not accuse the sound one beside it."""
    names = ", ".join(noises)
    return LawResult(
        field=f"{message.claimed[0].message.__name__} ({names})",
        check="whole",
        unit="client",
        rule=", ".join(sorted({message.rule(release).name for release in message.claimed})),
        rounds=rounds,
        planned=max(release.count for release in message.claimed),
        claimed=message.epsilon(message.claimed, rounds, "client", host),
        tests=tuple(joint_tests(list(noises.values()))),
        numbers=sum(noise.size for noise in noises.values()),
        level=message.level,
    )


def _noise(
    message: AuditedMessage, release: PlannedRelease, host: Host, sent: Floats, seen: list[Floats]
) -> Floats:
    """What is left of every upload once the clipped value is taken off, over the claimed noise."""
    rule = message.rule(release)
    clipped = sent * np.minimum(1.0, rule.clip_l2 / _norms(sent, rule))
    sigma, _ = claimed_noise(message.policy, release, host.shape(release))
    return np.concatenate([out - clipped for out in seen]) / sigma


def _values(message: AuditedMessage, release: PlannedRelease, host: Host, trials: int) -> Floats:
    """(trials, rows, width): every unit of a trial as loud as the trial is."""
    values = message.rng.standard_normal((trials, *host.shape(release)))
    rule = message.rule(release)
    loud = np.array([LOUDNESS[i % len(LOUDNESS)] for i in range(trials)])[:, None, None]
    sent: Floats = values / _norms(values, rule) * rule.clip_l2 * loud
    return sent


def _norms(values: Floats, rule: LocalGaussian | DistributedDiscrete) -> Floats:
    axes = (1, 2) if rule.per == "message" else (2,)
    norms: Floats = np.maximum(np.sqrt(np.square(values).sum(axes, keepdims=True)), 1e-300)
    return norms


def _result(
    message: AuditedMessage,
    release: PlannedRelease,
    host: Host,
    sent: Floats,
    seen: list[Floats],
    noise: Floats,
) -> LawResult:
    rule = message.rule(release)
    sigma, slack = claimed_noise(message.policy, release, host.shape(release))
    tests = [
        *_beyond_the_clip(rule, sent, seen, sigma),
        *law_tests(noise, slack, len(seen), grid_step(rule, sigma)),
        _by_loudness(noise, len(seen)),
    ]
    if isinstance(rule, LocalGaussian):
        first = noise[0].reshape(-1)[:FIRST]
        tests.append(likeness_test(first, np.empty((0, len(first)))))
    return LawResult(
        field=release.name,
        check="whole",
        unit="row" if rule.per == "row" else "client",
        rule=rule.name,
        rounds=len(seen),
        planned=release.count,
        claimed=message.epsilon([release], len(seen), message.unit_of(release), host),
        tests=tuple(tests),
        numbers=noise.size,
        level=message.level,
    )


def _by_loudness(noise: Floats, rounds: int) -> LawTest:
    """Noise whose size hangs on the value: every place, over the messages of a round that were as
    loud as one another."""
    by_round = np.square(noise).reshape(rounds, len(noise) // rounds, -1)
    worst, words = 1.0, "no message was played"
    for number in range(len(LOUDNESS)):
        own = by_round[:, number :: len(LOUDNESS)]
        if not own.shape[1]:
            continue
        log_p = chi2.logcdf(own.sum(1), own.shape[1])
        place = int(np.argmin(log_p))
        p = float(np.exp(min(0.0, log_p.flat[place] + math.log(log_p.size * len(LOUDNESS)))))
        if p <= worst:
            level = math.sqrt(own.mean(1).flat[place])
            worst = p
            words = (
                f"values {LOUDNESS[number]:g} times the clip carry {level:.3g} of the claimed "
                f"noise at place {place % own.shape[2]} in round {place // own.shape[2] + 1}"
            )
    return LawTest("noise by loudness", worst, True, words)


def _beyond_the_clip(
    rule: LocalGaussian | DistributedDiscrete, sent: Floats, seen: list[Floats], sigma: float
) -> list[LawTest]:
    """How far any unit came out along the direction in which it was loud."""
    loud = np.arange(len(sent)) % len(LOUDNESS) == len(LOUDNESS) - 1
    axes = (1, 2) if rule.per == "message" else (2,)
    directions = sent[loud] / _norms(sent[loud], rule)
    lengths = np.stack([(out[loud] * directions).sum(axes) for out in seen])
    excess = float(lengths.max() - rule.clip_l2) / sigma
    p = min(1.0, lengths.size * math.exp(-(max(excess, 0.0) ** 2) / 2))
    words = f"a value far above the clip came out {float(lengths.max()) / rule.clip_l2:.4g} long"
    return [LawTest("values beyond the clip", p, True, f"{words} in units of it")]


def grid_step(rule: object, sigma: float) -> float:
    """The step of the grid that noise lies on, over its standard deviation."""
    return 1 / (rule.scale * sigma) if isinstance(rule, DistributedDiscrete) else 0.0


def claimed_noise(
    policy: Policy, release: PlannedRelease, shape: tuple[int, int]
) -> tuple[float, float]:
    """The standard deviation that the booked multiplier claims for what is seen, and what rounding
    may add to it; written apart from the rules, which are what is audited."""
    rule = policy.rule(release.message, release.field)
    assert isinstance(rule, (LocalGaussian, DistributedDiscrete))
    rows, width = shape
    booked = policy.mechanism(release.message, release.field, rows * width, rows)
    assert booked.noise_multiplier is not None
    factor = 2.0 if rule.adjacency == "replace_one" else 1.0
    if isinstance(rule, LocalGaussian):
        return booked.noise_multiplier * factor * rule.clip_l2, 1e-5
    plan = rule.plan_for(width if rule.per == "row" else rows * width)
    steps = booked.noise_multiplier * factor * plan.norm_bound
    return steps / rule.scale, 0.01 + rule.least_noises / (4 * steps * steps)
