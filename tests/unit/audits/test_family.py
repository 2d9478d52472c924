"""One level for all checks of an audit: what one play shows counts only if fresh trials show it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audits.empirical_epsilon import gaussian_bound, moments_bound
from audits.mechanisms import audit as audit_module
from audits.mechanisms.audit import audit_experiment
from audits.mechanisms.callables import Claim, Release, measure_release
from audits.mechanisms.results import (
    CANARIES,
    FAMILY_LEVEL,
    PLAYED_AGAIN,
    RECORDED,
    LawResult,
    MechanismResult,
    Result,
    law_level,
    play_family,
)
from audits.noise_law import LawTest
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import parse_config
from tests.small import tree

GAME = MechanismResult(
    field="f", check="mask", unit="client", rule="masked", rounds=1, planned=1, claimed=1.0
)
LAW = LawResult(
    field="f",
    check="training",
    unit="row",
    rule="dp_sgd",
    rounds=1,
    planned=1,
    claimed=1.0,
    tests=(),
    numbers=1,
    level=1e-3,
)


def shows(epsilon: float, confidence: float) -> MechanismResult:
    bound = gaussian_bound(0, 100, 0, 100, 1e-5, confidence).cp
    return replace(GAME, cp=replace(bound, epsilon=epsilon))


def test_all_levels_together_are_the_familys() -> None:
    assert PLAYED_AGAIN + CANARIES + 250 * RECORDED <= FAMILY_LEVEL


def test_what_fresh_trials_do_not_show_again_is_no_violation() -> None:
    asked: list[float] = []

    def play(seed: int, confidence: float) -> list[Result]:
        asked.append(confidence)
        return [shows(2.0 if seed == 0 else 0.5, confidence), shows(0.1, confidence)]

    found = play_family(play, 0)
    assert {r.verdict for r in found} == {"NOT_DETECTED"}
    assert asked == [0.95, 1 - PLAYED_AGAIN / 2]


def test_what_fresh_trials_show_again_is_a_violation() -> None:
    found = play_family(lambda seed, confidence: [shows(2.0, confidence)], 0)
    assert [r.verdict for r in found] == ["VIOLATION"]


@pytest.mark.parametrize("severe", [True, False])
def test_a_law_that_failed_by_chance_is_played_again(severe: bool) -> None:
    def play(seed: int, confidence: float) -> list[Result]:
        test = LawTest("size", 1e-9 if seed == 0 else 0.5, severe, "less noise")
        return [replace(LAW, tests=(test,), level=law_level(confidence))]

    assert [r.verdict for r in play_family(play, 0)] == ["NOT_DETECTED"]


def dp_sgd() -> Experiment:
    base = tree(Path("unused"), "fedavg")
    base["method"] |= {"weighting": "equal", "network": "MLP"}
    base["training"] |= {
        "dp_sgd": {"clip_l2": 1.0, "noise_multiplier": 1.0, "sampling": 0.5, "num_samples": 20},
        "weight_decay": 0,
    }
    return prepare(parse_config(base))


def test_dp_sgd_and_masks_are_in_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their chance findings are played again too, at the shared level."""
    levels: list[float] = []

    def training(planned: object, noise: object, delta: float, level: float) -> list[LawResult]:
        levels.append(level)
        test = LawTest("size", 1e-7 if len(levels) == 1 else 0.5, True, "less noise")
        return [replace(LAW, tests=(test,), level=level)]

    monkeypatch.setattr(audit_module, "audit_training", training)
    confidences: list[float] = []

    def masks(experiment: Experiment, seed: int, confidence: float) -> list[Result]:
        confidences.append(confidence)
        return [shows(0.0, confidence)]

    monkeypatch.setattr(audit_module, "audit_masking", masks)
    results = audit_experiment(dp_sgd(), 1000, 0)
    assert {r.verdict for r in results} == {"NOT_DETECTED"}
    assert confidences == [0.95, 1 - PLAYED_AGAIN / 2]
    assert levels == [law_level(c) for c in confidences]


# ---------------------------------------------------------------------------- one bound, not two


def test_both_bounds_of_a_game_share_its_level() -> None:
    """At half of the level each, so that the larger holds with the confidence that is told."""
    from audits.mechanisms.message import AuditedMessage

    message = AuditedMessage.__new__(AuditedMessage)
    message.confidence = 0.95
    message.claimed = []
    message.policy = type("P", (), {"delta": 1e-5})()  # type: ignore[assignment]
    coins = np.where(np.arange(1000) % 2 == 0, 1.0, -1.0)
    scores = coins + np.random.default_rng(0).standard_normal(1000)
    both_bounds = message.score_bound(scores, coins, 1.0)
    errors = int(((scores >= 0) & (coins < 0)).sum()), int(((scores < 0) & (coins > 0)).sum())
    counted = gaussian_bound(errors[0], 500, errors[1], 500, 1e-5, 0.975)
    _, measured = moments_bound(scores[coins > 0], scores[coins < 0], 1e-5, 0.975, 2.0)
    assert both_bounds.cp.epsilon == counted.cp.epsilon
    assert both_bounds.gdp.epsilon == measured.epsilon > counted.gdp.epsilon
    assert both_bounds.gdp.confidence == both_bounds.cp.confidence == 0.95


def laplace(seed: int) -> Release:
    """Pure epsilon 1 for one number between -1 and 1 that is removed."""
    rng = np.random.default_rng(seed)
    return lambda values: np.clip(values, -1, 1) + rng.laplace(0, 1.0, values.shape)


def test_sound_noise_of_another_law_is_not_held_to_the_gaussians() -> None:
    """Laplace noise keeps epsilon 1 and still passes the bound for Gaussian trade-offs."""
    claim = Claim(epsilon=1.0, delta=1e-5, size=1)
    found = measure_release(laplace(0), claim, 4000, 0)
    assert found.verdict == "NOT_DETECTED"
    assert found.gaussian.epsilon > claim.epsilon
    assert (
        measure_release(laplace(0), replace(claim, noise="gaussian"), 4000, 0).verdict
        == "VIOLATION"
    )
