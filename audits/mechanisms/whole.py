"""Whole messages: every row, every number, all rounds, sent as zeros, small values and loud ones.

The other games look at a few numbers of a few rows many times. Here messages of the planned shape
go through the channel, in all rounds that there is room for, and what comes out is compared with
what went in, clipped: the rest must be noise of the claimed size everywhere, and nowhere twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr

from audits.guessed_noise import likeness_test, small_space
from audits.laws import chi2_log_cdf
from audits.mechanisms.effort import NUMBERS, spread_rounds
from audits.mechanisms.message import AuditedMessage, Floats
from audits.mechanisms.results import LawResult
from audits.noise_law import LawTest, joint_tests, law_tests
from audits.uploads import Host, unit_norms
from securefg.privacy.defence import NoisyUpload
from securefg.privacy.law import Law
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease

LOUDNESS = (0.0, 0.5, 1e4)
"""What the trials send, in turn, over the clip: nothing, a value within it (made smaller in five
steps, down to a part of what the protected unit moves), one far above it. In the next round every
trial is one step on: none is always quiet."""

STEPS = 5

LEAST_TRIALS, MOST_TRIALS = 6, 256


def play_whole(message: AuditedMessage) -> list[LawResult]:
    """Test the noise of every field against its claimed law, clip and grid."""
    host = message.make_host(rows=None)
    room = max(1, NUMBERS // (4 * host.numbers_per_trial))
    rounds = spread_rounds(message.shared_rounds, max(3, room // LEAST_TRIALS))
    trials = min(MOST_TRIALS, max(LEAST_TRIALS, room // len(rounds)))
    sent = {r.field: _loud_values(message, r, host, trials, len(rounds)) for r in message.claimed}
    enrolled = host.enrol_clients(trials, 3)
    seen = [
        host.emit_views({name: values[turn] for name, values in sent.items()}, enrolled, round)[0]
        for turn, round in enumerate(rounds)
    ]
    noises = {
        r.field: _left_noise(message, r, host, sent[r.field], [s[r.field] for s in seen])
        for r in message.claimed
    }
    together = [_test_together(message, host, noises, len(rounds))] if len(noises) > 1 else []
    return together + [
        _law_result(
            message,
            release,
            host,
            sent[release.field],
            [s[release.field] for s in seen],
            noises[release.field],
        )
        for release in message.claimed
    ]


def _test_together(
    message: AuditedMessage, host: Host, noises: dict[str, Floats], rounds: int
) -> LawResult:
    """Return a result for the message and not for a field, so that a bare field does not accuse the
    sound field beside it."""
    names = ", ".join(noises)
    return LawResult(
        field=f"{message.claimed[0].message.__name__} ({names})",
        check="whole",
        unit=message.unit,
        rule=", ".join(sorted({message.rule_of(release).name for release in message.claimed})),
        rounds=rounds,
        planned=max(release.count for release in message.claimed),
        claimed=message.epsilon(message.claimed, rounds, message.unit, host),
        tests=tuple(joint_tests(list(noises.values()))),
        numbers=sum(noise.size for noise in noises.values()),
        level=message.level,
    )


def _left_noise(
    message: AuditedMessage,
    release: PlannedRelease,
    host: Host,
    sent: list[Floats],
    seen: list[Floats],
) -> Floats:
    """Return what is left of every upload once the clipped value is taken off, as standard normals
    if it is the claimed noise."""
    rule = message.rule_of(release)
    sigma, _ = claimed_noise(message.policy, release, host.shape(release))
    left = [
        out - values * np.minimum(1.0, rule.clip_l2 / _unit_norms(values, rule))
        for values, out in zip(sent, seen, strict=True)
    ]
    return message.law(release, host).normal_scores(np.concatenate(left) / sigma)


def _loud_values(
    message: AuditedMessage, release: PlannedRelease, host: Host, trials: int, rounds: int
) -> list[Floats]:
    """Return (trials, rows, width) of every round: every unit of a trial is as loud as the
    trial."""
    values = message.rng.standard_normal((trials, *host.shape(release)))
    rule = message.rule_of(release)
    units = values.reshape(trials, *((-1, values.shape[2]) if rule.per == "row" else (1, -1)))
    sizes = np.abs(units[1::2])
    units[1::2] *= sizes == sizes.max(2, keepdims=True)  # one number alone, as a label's row has
    alone = np.arange(3, trials, 4)  # one row alone, which a clip over all rows lets pass
    units[alone] *= (np.arange(units.shape[1]) == alone[:, None] // 4 % units.shape[1])[..., None]
    whole = values / _unit_norms(values, rule) * rule.clip_l2
    shrink = 0.5 * (message.size(release) / rule.clip_l2) ** (1 / (STEPS - 1))
    sent = []
    for turn in range(rounds):
        steps = _loudness_steps(trials, turn)
        smaller = np.where(steps == 1, shrink ** (np.arange(trials) // 6 % STEPS), 1.0)
        sent.append(whole * (np.array(LOUDNESS)[steps] * smaller)[:, None, None])
    return sent


def _loudness_steps(trials: int, turn: int) -> NDArray[np.int64]:
    """Return which loudness every trial has in a round, the first being 0."""
    return (np.arange(trials) + turn) % len(LOUDNESS)


def _unit_norms(values: Floats, rule: NoisyUpload) -> Floats:
    norms: Floats = np.maximum(unit_norms(values, rule), 1e-300)
    return norms


def _law_result(
    message: AuditedMessage,
    release: PlannedRelease,
    host: Host,
    sent: list[Floats],
    seen: list[Floats],
    noise: Floats,
) -> LawResult:
    rule = message.rule_of(release)
    law = message.law(release, host)
    sigma, slack = claimed_noise(message.policy, release, host.shape(release))
    tests = [
        *_beyond_the_clip(rule, law, sent, seen, sigma),
        *law_tests(noise, slack, len(seen), law.step / sigma),
        _by_loudness(noise, len(seen), law.step / sigma),
    ]
    if has_grid(law) and message.policy.mask(release.message, release.field) is None:
        tests.append(off_grid_test(law, np.stack(seen)))
    if law.is_normal:
        tests.append(likeness_test(noise[0].reshape(-1), [small_space()]))
    return message.law_result("whole", release, host, tests, noise.size, len(seen))


def _by_loudness(noise: Floats, rounds: int, step: float) -> LawTest:
    """Return a test for noise whose size depends on the value, at every place, over the equally
    loud messages of a round."""
    by_round = np.square(np.maximum(np.abs(noise), step / 2)).reshape(
        rounds, len(noise) // rounds, -1
    )
    worst, words = 1.0, "no message was played"
    for number in range(len(LOUDNESS)):
        loudness_parts = [
            part[_loudness_steps(len(part), turn) == number] for turn, part in enumerate(by_round)
        ]
        counts = np.array([len(part) for part in loudness_parts])[:, None]
        sums = np.stack([part.sum(0) for part in loudness_parts])
        log_p = np.where(counts > 0, chi2_log_cdf(sums, np.maximum(counts, 1)), 0.0)
        turn, place = divmod(int(np.argmin(log_p)), sums.shape[1])
        p = float(np.exp(min(0.0, log_p.min() + math.log(log_p.size * len(LOUDNESS)))))
        if p <= worst:
            level = math.sqrt(sums[turn, place] / max(1, counts[turn, 0]))
            worst = p
            words = (
                f"values up to {LOUDNESS[number]:g} times the clip have {level:.3g} of the claimed "
                f"noise at place {place} in round {turn + 1}"
            )
    return LawTest("noise by loudness", worst, True, words)


def _beyond_the_clip(
    rule: NoisyUpload, law: Law, sent: list[Floats], seen: list[Floats], sigma: float
) -> Iterator[LawTest]:
    """Yield tests of how far units came out along the direction in which they were loud, each unit
    alone and all together. A clip that is wrong by a little hides in the noise of every single
    unit."""
    axes = (1, 2) if rule.per == "message" else (2,)
    parts, lone = [], []
    for turn, (values, out) in enumerate(zip(sent, seen, strict=True)):
        loud = _loudness_steps(len(values), turn) == len(LOUDNESS) - 1
        norms = _unit_norms(values[loud], rule)
        along = (out[loud] * (values[loud] / norms)).sum(axes)
        there = norms.reshape(along.shape) > 1e-300
        parts.append(along[there])
        lone.append(along[there & (there.sum(-1, keepdims=True) == 1)])
    lengths, single = (np.concatenate(found) / rule.clip_l2 for found in (parts, lone))
    noise = sigma / rule.clip_l2
    excess = float(law.normal_scores(np.array((lengths.max() - 1) / noise)))
    p = min(1.0, lengths.size * math.exp(-(max(excess, 0.0) ** 2) / 2))
    words = f"a value far above the clip came out {float(lengths.max()):.4g} long in units of it"
    yield LawTest("values beyond the clip", p, True, words)
    excess = (float(lengths.mean()) - 1) / noise * math.sqrt(lengths.size)
    words = f"values far above the clip came out {float(lengths.mean()):.4g} of it long on average"
    yield LawTest("values beyond the clip on average", float(ndtr(-excess)), True, words)
    if 0 < single.size < lengths.size:
        excess = (float(single.mean()) - 1) / noise * math.sqrt(single.size)
        words = f"a loud row beside zeros came out {float(single.mean()):.4g} clips long on average"
        yield LawTest("a row alone beyond the clip", float(ndtr(-excess)), True, words)


def has_grid(law: Law) -> bool:
    """Return whether unmasked uploads must be multiples of a step."""
    return law.step > 0 and not law.is_discrete


def off_grid_test(law: Law, seen: Floats) -> LawTest:
    """Return a test whether uploads lie on the law's grid. A number beside the grid may hold the
    value."""
    steps = seen / law.step
    exact = np.abs(steps) < 2**24  # larger multiples are no numbers of float32
    beside = int((exact & (steps != np.round(steps))).sum())
    words = f"{beside} of {seen.size} numbers lie beside the grid of {law.step:.3g}"
    return LawTest("numbers beside the grid", 0.0 if beside else 1.0, True, words)


def claimed_noise(
    policy: Policy, release: PlannedRelease, shape: tuple[int, int]
) -> tuple[float, float]:
    """Return the standard deviation that the booked multiplier claims for the seen value, and the
    variance that rounding may add. They are computed here because the defence is the thing that is
    audited."""
    rule = policy.rule(release.message, release.field)
    assert isinstance(rule, NoisyUpload)
    rows, width = shape
    booked = policy.mechanism(release.message, release.field, rows * width, rows)
    assert booked.noise_multiplier is not None
    factor = 2.0 if rule.adjacency == "replace_one" else 1.0
    bound = rule.unit_bound(width if rule.per == "row" else rows * width)
    sigma = booked.noise_multiplier * factor * bound * rule.sd_per_scale
    law = rule.law(torch.Size(shape))
    if not law.is_discrete:
        return sigma, 1e-5
    return sigma, 0.01 + rule.num_shares / (4 * (sigma / law.step) ** 2)
