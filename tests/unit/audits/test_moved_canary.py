"""A node's canary in all releases: at most the claim with sound noise, above it with less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audits.mechanisms.canary import play_moved
from audits.mechanisms.message import AuditedMessage
from audits.mechanisms.results import MechanismResult
from audits.noise_law import law_tests
from audits.uploads import open_channel
from securefg.privacy.defences.distributed_discrete import DistributedDiscrete
from securefg.privacy.noise import SystemNoise
from securefg.privacy.policy import Policy
from securefg.runs.assembly import prepare
from securefg.settings.config import parse_config
from tests.unit.methods.test_two_sums import PRIVATE, tree

SYSTEM = {**PRIVATE, "noise_rng": "system"}


def played(factor: float, **changed: object) -> MechanismResult:
    """The game against a channel whose noise is `factor` times what is claimed."""
    x = prepare(parse_config(tree(Path("unused"), privacy=SYSTEM, **changed)))
    planned = x.method.planned(x.config.method, x.config.training, x.public)

    def channel(policy: Policy):
        rules = {
            name: replace(rule, noise_multiplier=factor * rule.noise_multiplier)
            for name, rule in policy.rules.items()
            if isinstance(rule, DistributedDiscrete)
        }
        masked = {name: replace(m, rule=rules[name]) for name, m in policy.masked.items()}
        return open_channel(replace(policy, rules=rules, masked=masked), SystemNoise())

    messages = [
        AuditedMessage(x.policy, [release], channel, 8000, np.random.default_rng(i), 0.999)
        for i, release in enumerate(planned)
    ]
    (found,) = play_moved(messages)
    return found


def test_sound_noise_shows_most_of_the_claim_and_no_more():
    canary_result = played(1.0)
    assert canary_result.verdict == "NOT_DETECTED"
    assert canary_result.unit == "node"
    assert canary_result.claimed == pytest.approx(4, abs=0.05)
    assert canary_result.lower > 0.5 * canary_result.claimed


@pytest.mark.parametrize("factor", [0.5, 0.01])
def test_less_noise_than_claimed_is_a_violation(factor: float):
    assert played(factor).verdict == "VIOLATION"


def test_a_node_with_several_holders_is_played_with_all_of_them():
    """Each holder's message moves; noise for one of them would not do."""
    found = played(1.0, partition={"name": "shares", "shares": [0.6, 0.6, 0.6, 0.6]})
    assert found.verdict == "NOT_DETECTED"
    assert found.lower > 0.5 * found.claimed


def test_a_claim_about_clients_has_no_such_game():
    privacy = {**SYSTEM, "unit": "client", "target_epsilon": 50}
    x = prepare(parse_config(tree(Path("unused"), privacy=privacy)))
    planned = x.method.planned(x.config.method, x.config.training, x.public)
    make = lambda policy: open_channel(policy, SystemNoise())  # noqa: E731
    rng = np.random.default_rng(0)
    assert play_moved([AuditedMessage(x.policy, [r], make, 400, rng) for r in planned]) == []


def test_noise_on_a_grid_is_zero_now_and_then_and_bare_numbers_still_show():
    rng = np.random.default_rng(0)
    on_grid = np.round(rng.normal(size=(12, 1, 2000)) * 2000) / 2000
    by_name = {t.name: t for t in law_tests(on_grid, step=1 / 2000)}
    assert by_name["bare numbers"].p > 1e-3
    bare = on_grid.copy()
    bare[:, :, ::50] = 0.0
    assert {t.name: t for t in law_tests(bare, step=1 / 2000)}["bare numbers"].p < 1e-6


def test_a_zero_on_a_grid_is_no_place_without_noise() -> None:
    """One number per place, as in a sum that is opened once: on this grid one of 2,500 is 0."""
    drawn = np.random.default_rng(0).standard_normal((1, 1, 2000))
    on_grid = np.round(drawn * 1000) / 1000
    on_grid[0, 0, 7] = 0.0
    place = "noise of a place in a round"
    assert {t.name: t for t in law_tests(on_grid, step=1 / 1000)}[place].p > 0.1
    assert {t.name: t for t in law_tests(on_grid)}[place].p < 1e-6
    bare = np.concatenate([on_grid, np.zeros((1, 1, 2000))])
    assert {t.name: t for t in law_tests(bare, step=1 / 1000)}["noise of a message"].p < 1e-6


def test_a_sum_of_zero_on_a_grid_is_no_sum_without_noise() -> None:
    """Of four numbers on a grid of a thousandth, one sum in 5,000 is 0, with sound noise."""
    on_grid = np.round(np.random.default_rng(0).standard_normal((300, 1, 4)) * 1000) / 1000
    on_grid[37, 0, 3] = -on_grid[37, 0, :3].sum()
    name = "noise of a sum of columns"
    assert {t.name: t for t in law_tests(on_grid, step=1 / 1000)}[name].p > 0.01
    assert {t.name: t for t in law_tests(on_grid)}[name].p < 1e-6
