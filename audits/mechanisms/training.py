"""DP-SGD under audit: canaries through the training step that the run itself takes.

A network of one linear layer trains for one step from zero, with the run's plan. Its step is
-lr / (q n) times (the drawn samples' clipped gradients plus noise), so what it moved, divided by
that, shows all parts: the noise where no sample has a gradient, the clip and the sampling where one
has a gradient far above the clip, the denominator in how far it moves. The two functions that train
privately are audited alike: for many clients as one tensor, and for any network by Opacus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor, nn

from audits.laws import binomial_at_least
from audits.mechanisms.results import LawResult
from audits.noise_law import Floats, LawTest, law_tests
from securefg.privacy.accountants import tightest
from securefg.privacy.dp_sgd import DpSgdPlan, Samples, train, train_module
from securefg.privacy.noise import NoiseSource
from securefg.privacy.policy import PlannedRelease
from securefg.protocol.codec import Clients

TRIALS = 400
FEATURES, CLASSES = 6, 4
LOUD = 1e4

Steps = Callable[[Tensor, Tensor, DpSgdPlan, int, NoiseSource, int], Floats]
"""(trials, 24): the weights after training on inputs (trials, n, 6) and labels, from zero."""


def audit_training(
    planned: Sequence[PlannedRelease],
    make_noise: Callable[[], NoiseSource],
    delta: float,
    level: float,
) -> list[LawResult]:
    """A result per release that was trained with noise, for either function that trains so."""
    results = []
    for release in planned:
        rule = release.trained
        if rule is None or release.count == 0:
            continue
        for name, steps in (("many clients", by_tensors), ("one network", by_modules)):
            tests = training_tests(steps, rule.plan, rule.num_samples, make_noise())
            results.append(
                LawResult(
                    field=f"{release.name} ({name})",
                    check="training",
                    unit="row",
                    rule="dp_sgd",
                    rounds=1,
                    planned=release.count,
                    claimed=tightest(rule.plan.steps_per_sample(), delta),
                    tests=tuple(tests),
                    numbers=TRIALS * FEATURES * CLASSES,
                    level=level,
                )
            )
    return results


def training_tests(
    steps: Steps, plan: DpSgdPlan, num_samples: int, noise: NoiseSource
) -> list[LawTest]:
    """One step with zero inputs, one with a loud sample in every trial, and two steps in a row."""
    one = replace(plan, num_steps=1)
    rate = plan.lr / (plan.sampling * num_samples)
    sigma = plan.noise_multiplier * plan.clip_l2
    silent, labels = _inputs(num_samples, 0.0)
    quiet = -steps(silent, labels, one, num_samples, noise, 1) / rate / sigma
    twice = -steps(silent, labels, replace(plan, num_steps=2), num_samples, noise, 2) / rate
    loud = -steps(*_inputs(num_samples, LOUD), one, num_samples, noise, 3) / rate
    later = twice / (sigma * math.sqrt(2))
    return [
        *law_tests(quiet[:, None, :]),
        *(replace(t, name=f"{t.name}, two steps") for t in law_tests(later[:, None, :])),
        *_loud_tests(loud, plan, sigma),
    ]


def _inputs(num_samples: int, loudness: float) -> tuple[Tensor, Tensor]:
    """The first sample of every trial has all its weight on the first feature."""
    inputs = torch.zeros(TRIALS, num_samples, FEATURES)
    inputs[:, 0, 0] = loudness
    return inputs, torch.zeros(TRIALS, num_samples, dtype=torch.int64)


def _loud_tests(moved: Floats, plan: DpSgdPlan, sigma: float) -> list[LawTest]:
    """From zero weights the gradient of cross-entropy is x (p - y), known in direction; clipped,
    the step is C along it where the sample was drawn, and 0 where it was not."""
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


def by_tensors(
    inputs: Tensor,
    labels: Tensor,
    plan: DpSgdPlan,
    num_samples: int,
    noise: NoiseSource,
    number: int,
) -> Floats:
    def loss(weights: tuple[Tensor, ...], sample: Tensor, label: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(sample @ weights[0], label)

    start = (torch.zeros(len(inputs), FEATURES, CLASSES),)
    clients, name = Clients(((0, len(inputs)),)), ("dp_sgd", number)
    found = train(start, Samples(inputs, labels), loss, plan, noise, clients, name)
    return found.weights[0].double().numpy().reshape(len(inputs), -1)


def by_modules(
    inputs: Tensor,
    labels: Tensor,
    plan: DpSgdPlan,
    num_samples: int,
    noise: NoiseSource,
    number: int,
) -> Floats:
    rows = []
    for client in range(len(inputs)):
        module = nn.Linear(FEATURES, CLASSES, bias=False)
        nn.init.zeros_(module.weight)
        train_module(
            module,
            (inputs[client],),
            labels[client],
            plan,
            num_samples,
            noise,
            Clients.of([client]),
            ("dp_sgd", number),
        )
        rows.append(module.weight.detach().double().numpy().T.reshape(-1))
    return np.stack(rows)
