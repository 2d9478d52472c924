"""Private training under audit: canaries through the training step that the run itself takes.

A network of one linear layer trains for one step from zero, with the run's plan. Its step is
-lr / (q n) times (the drawn samples' clipped gradients plus noise), so what it moved, divided by
that, shows all parts: the noise where no sample has a gradient, the clip and the sampling where one
has a gradient far above the clip, the denominator in how far it moves. Without any noise, it shows
which samples were drawn, each by a coin of its own, and that all were clipped over all weights.
Two ways of training privately are audited alike: many clients as one tensor, and any network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor, nn

from audits.laws import binomial_at_least
from audits.mechanisms.results import LawResult
from audits.noise_law import Floats, LawTest, law_tests
from securefg.privacy.accountants import tightest
from securefg.privacy.noise import NoiseSource
from securefg.privacy.private_training import PrivateTraining, Samples, TrainingPlan
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Clients

TRIALS = 400
COINS = 200
SHOWN = 3
"""So many loud samples are told apart, in as many trials of their own as there are coins."""
STEPS = 8
"""So many steps of a plan are played at most, all of whose noises must add up."""
FEATURES, CLASSES = 6, 4
LOUD = 1e4

Steps = Callable[[Tensor, Tensor, PrivateTraining, NoiseSource, int], Floats]
"""(trials, 24): the weights after training on inputs (trials, n, 6) and labels, from zero."""


def audit_training(
    planned: Sequence[PlannedRelease],
    make_noise: Callable[[], NoiseSource],
    delta: float,
    level: float,
) -> list[LawResult]:
    """Return a result per release that was trained with noise, for each of the two training
    functions."""
    results = []
    for release in planned:
        rule = release.trained
        if rule is None or release.count == 0:
            continue
        for name, steps in (("many clients", by_tensors), ("one network", by_modules)):
            tests = training_tests(steps, rule, make_noise())
            results.append(
                LawResult(
                    field=f"{release.name} ({name})",
                    check="training",
                    unit="row",
                    rule=rule.name,
                    rounds=1,
                    planned=release.count,
                    claimed=tightest(rule.plan.steps_per_sample(), delta),
                    tests=tuple(tests),
                    numbers=TRIALS * FEATURES * CLASSES,
                    level=level,
                )
            )
    return results


def training_tests(steps: Steps, rule: PrivateTraining, noise: NoiseSource) -> list[LawTest]:
    """Return tests of one step with zero inputs, one step with a loud sample in every trial, and
    two steps in a row."""
    plan, num_samples = rule.plan, rule.num_samples
    single_step = _change_plan(rule, num_steps=1)
    rate = plan.lr / (plan.sampling * num_samples)
    sigma = plan.noise_multiplier * plan.clip_l2
    silent, labels = _loud_inputs(num_samples, 0.0)
    quiet = -steps(silent, labels, single_step, noise, 1) / rate / sigma
    loud = -steps(*_loud_inputs(num_samples, LOUD), single_step, noise, 3) / rate
    tests = [*law_tests(quiet[:, None, :]), *_loud_tests(loud, plan, sigma)]
    most = min(STEPS, max(2, plan.num_steps))
    for count in sorted({min(3, most), most}):
        longer = _change_plan(rule, num_steps=count)
        moved = -steps(silent, labels, longer, noise, 10 + count) / rate
        later = moved / (sigma * math.sqrt(count))
        tests += [replace(t, name=f"{t.name}, {count} steps") for t in law_tests(later[:, None, :])]
    return [*tests, *_coin_tests(steps, rule, noise)]


def _change_plan(rule: PrivateTraining, **plan: float) -> PrivateTraining:
    """Return the same training by another plan."""
    return replace(rule, plan=replace(rule.plan, **plan))  # type: ignore[arg-type]


def _loud_inputs(num_samples: int, loudness: float) -> tuple[Tensor, Tensor]:
    """Return inputs and labels. The first sample of every trial has all its weight on the first
    feature."""
    inputs = torch.zeros(TRIALS, num_samples, FEATURES)
    inputs[:, 0, 0] = loudness
    return inputs, torch.zeros(TRIALS, num_samples, dtype=torch.int64)


def _loud_tests(moved: Floats, plan: TrainingPlan, sigma: float) -> list[LawTest]:
    """Return tests of steps with a loud sample.

    From zero weights the gradient of cross-entropy is x (p - y), known in direction. The clipped
    step is C along it if the sample was drawn, and 0 otherwise.
    """
    direction = np.full(CLASSES, 1 / CLASSES)
    direction[0] -= 1
    direction /= np.linalg.norm(direction)
    along = moved.reshape(len(moved), FEATURES, CLASSES)[:, 0] @ direction
    expected = plan.sampling * plan.clip_l2
    spread = math.sqrt(sigma**2 + plan.sampling * (1 - plan.sampling) * plan.clip_l2**2)
    score = (float(along.mean()) - expected) / (spread / math.sqrt(len(along)))
    above = float(np.clip(2 * ndtr(-abs(score)), 0, 1))
    words = (
        f"a loud sample moves a step by {along.mean() / plan.clip_l2:.3g} of the clip on average"
    )
    largest = (float(along.max()) - plan.clip_l2) / sigma
    beyond = min(1.0, len(along) * math.exp(-(max(largest, 0.0) ** 2) / 2))
    tests = [
        LawTest(
            "clip, sampling and denominator", above, score > 0, f"{words}, not {plan.sampling:g}"
        ),
        LawTest("a sample beyond the clip", beyond, True, "a sample moves a step beyond the clip"),
    ]
    if sigma < plan.clip_l2 / 8 and plan.sampling < 1:  # otherwise single draws cannot be told
        drawn = int((along > plan.clip_l2 / 2).sum())
        p = 2 * min(
            float(binomial_at_least(drawn, len(along), plan.sampling)),
            float(binomial_at_least(len(along) - drawn, len(along), 1 - plan.sampling)),
        )
        said = f"{drawn} of {len(along)} times a sample was drawn, planned are {plan.sampling:g}"
        tests.append(LawTest("sampling", min(1.0, p), drawn > len(along) * plan.sampling, said))
    return tests


def _coin_tests(steps: Steps, rule: PrivateTraining, noise: NoiseSource) -> Iterator[LawTest]:
    """Yield tests of the sampling. Without noise every draw of a loud sample is seen: it moves the
    weights of its own features, which lie in two tensors, by the clip."""
    plan = rule.plan
    bare = _change_plan(rule, num_steps=1, noise_multiplier=0.0)
    lengths = _moved_lengths(steps, bare, noise, 5)
    longest = float(lengths.max() / plan.clip_l2)
    words = f"a loud sample moves a step by {longest:.4g} of the clip"
    yield LawTest("any sample beyond the clip", float(longest < 1 + 1e-3), True, words)
    if plan.sampling == 1:
        return
    drawn = int((lengths > plan.clip_l2 / 2).sum())
    yield _count_test("coins of samples", drawn, lengths.size, plan.sampling)
    fair = replace(_change_plan(bare, sampling=0.5), num_samples=SHOWN)
    first = _moved_lengths(steps, fair, noise, 7) > plan.clip_l2 / 2
    none = int((~first.any(1)).sum())
    yield _count_test("one coin for each sample", none, COINS, 0.5**SHOWN)
    both = _moved_lengths(steps, _change_plan(fair, num_steps=2), noise, 9) > plan.clip_l2 / 2
    never = int((~both).sum())
    yield _count_test("coins of two steps", never, both.size, 0.25)


def _moved_lengths(steps: Steps, rule: PrivateTraining, noise: NoiseSource, number: int) -> Floats:
    """Return (trials, samples): how far each of the first samples, all of them loud, moved its
    weights."""
    plan, num_samples = rule.plan, rule.num_samples
    shown, half = min(num_samples, SHOWN), FEATURES // 2
    inputs = torch.zeros(COINS, num_samples, FEATURES)
    for sample in range(shown):
        inputs[:, sample, [sample, sample + half]] = LOUD
    labels = torch.zeros(COINS, num_samples, dtype=torch.int64)
    rate = plan.lr / (plan.sampling * num_samples)
    moved = steps(inputs, labels, rule, noise, number) / rate
    by_half = moved.reshape(COINS, 2, half, CLASSES)
    lengths: Floats = np.sqrt(np.square(by_half).sum((1, 3)))[:, :shown]
    return lengths


def _count_test(name: str, count: int, trials: int, chance: float) -> LawTest:
    """Return a two-sided test of a count, which is severe if there are more than planned."""
    p = 2 * min(
        float(binomial_at_least(count, trials, chance)),
        float(binomial_at_least(trials - count, trials, 1 - chance)),
    )
    words = f"{name}: {count} of {trials}, planned is a share of {chance:.3g}"
    return LawTest(name, min(1.0, p), count > trials * chance, words)


def by_tensors(
    inputs: Tensor, labels: Tensor, rule: PrivateTraining, noise: NoiseSource, number: int
) -> Floats:
    """Train all trials at once, as clients of one host."""

    def loss(weights: tuple[Tensor, ...], sample: Tensor, label: Tensor) -> Tensor:
        half = FEATURES // 2
        logits = sample[:half] @ weights[0] + sample[half:] @ weights[1]
        return torch.nn.functional.cross_entropy(logits, label)

    start = (torch.zeros(len(inputs), FEATURES // 2, CLASSES),) * 2
    clients = Clients(((0, len(inputs)),))
    found = rule.train(start, Samples(inputs, labels), loss, noise, clients, number)
    return torch.cat(found, 1).double().numpy().reshape(len(inputs), -1)


def by_modules(
    inputs: Tensor, labels: Tensor, rule: PrivateTraining, noise: NoiseSource, number: int
) -> Floats:
    """Train one network after the other."""
    rows = []
    for client in range(len(inputs)):
        module = nn.Linear(FEATURES, CLASSES, bias=False)
        nn.init.zeros_(module.weight)
        own = (inputs[client],)
        rule.train_module(module, own, labels[client], noise, Clients.of([client]), number)
        rows.append(module.weight.detach().double().numpy().T.reshape(-1))
    return np.stack(rows)
