"""Every defence that adds noise to uploads keeps the contract; the example from outside too."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from securefg.privacy.defence import Asked, NoisyUpload, SumPlan, find_defence
from securefg.privacy.influence import NOTHING, WHOLE_MESSAGE, Influence
from securefg.privacy.noise import SeededNoise, SystemNoise
from securefg.protocol.codec import Clients
from securefg.secagg.ring import Ring
from securefg.settings.privacy import shipped_defences
from securefg.settings.secagg import SecureAggregationSettings
from tests.outside import NAME

NOISY = [n for n in shipped_defences() if find_defence(n).noise_in == "upload"] + [NAME]
CLIENTS, STREAM = Clients(((0, 6),)), ("test", "field", 1, 1)


def asked(name: str, multiplier: float | None = 2.0) -> Asked:
    threat = SecureAggregationSettings().threat_among(6)
    return Asked("Sent.x", name, 1.0, multiplier, "message", "replace_one", None, threat, 6)


def settled(name: str) -> NoisyUpload:
    """The defence on the grid of a masked sum of six clients, where it needs one."""
    rule = find_defence(name).settle(asked(name))
    assert isinstance(rule, NoisyUpload)
    on_grid, _ = rule.on_grid(SumPlan("Sent.x", 200, 1, 16.0, Ring(32), 6))
    return on_grid


def uploads(rule: NoisyUpload, values: torch.Tensor) -> np.ndarray:
    """What six clients send, with its noise and without masks."""
    if not rule.needs_masks:
        return rule.apply(values, SystemNoise(), CLIENTS, STREAM).double().numpy()
    rule, grid = rule.on_grid(SumPlan("Sent.x", 200, 1, 16.0, Ring(32), 6))
    return grid.dequantise_total(rule.to_ring(values, None, SystemNoise(), CLIENTS, STREAM, grid))


@pytest.mark.parametrize("name", NOISY)
def test_noise_of_a_defence_follows_its_law(name: str) -> None:
    rule = settled(name)
    law = rule.law(torch.Size([200]))
    noise = np.stack([uploads(rule, torch.zeros(6, 200)) for _ in range(20)]).ravel() / law.sd
    assert noise.std() == pytest.approx(1.0, abs=0.03)
    scores = law.normal_scores(noise)
    assert kstest(scores, "norm").pvalue > 1e-6
    assert kstest(law.normal_scores(noise / 2), "norm").pvalue < 1e-6


@pytest.mark.parametrize("name", NOISY)
def test_a_loud_value_leaves_a_defence_within_its_bound(name: str) -> None:
    rule = settled(name).scaled(1e-3)
    sent = uploads(rule, torch.full((6, 200), 1e6))
    length = np.linalg.norm(sent, ord=rule.norm_order, axis=1)
    slack = 10 * 200 * rule.stddev(torch.Size([200]))
    assert length.max() <= rule.unit_bound(200) + slack


@pytest.mark.parametrize("name", NOISY)
def test_seeded_noise_of_a_defence_can_be_drawn_again(name: str) -> None:
    rule, one = settled(name), Clients.of([3])
    again = rule.redraw(torch.Size((1, 200)), SeededNoise(7), one, STREAM)
    other = rule.redraw(torch.Size((1, 200)), SeededNoise(8), one, STREAM)
    assert torch.equal(again, rule.redraw(torch.Size((1, 200)), SeededNoise(7), one, STREAM))
    assert not torch.equal(again, other)
    if not rule.needs_masks:
        zeros = torch.zeros(6, 200, dtype=torch.float64)
        sent = rule.apply(zeros, SeededNoise(7), CLIENTS, STREAM)
        assert torch.allclose(sent[3], again[0])


@pytest.mark.parametrize("name", NOISY)
def test_a_defence_books_more_noise_once_it_is_scaled(name: str) -> None:
    rule = settled(name)
    booked, twice = (r.fact("Sent.x", 200, 1, True) for r in (rule, rule.scaled(2.0)))
    assert booked.rule == rule.name
    assert booked.noise_multiplier is not None
    assert twice.noise_multiplier == pytest.approx(2 * booked.noise_multiplier, rel=1e-3)


@pytest.mark.parametrize("name", NOISY)
def test_a_node_with_more_holders_meets_less_noise_of_a_defence(name: str) -> None:
    rule = settled(name)

    def loss(influence: Influence, holders: int) -> float:
        met = rule.reach(influence, holders, 200, 1)
        if met.times == 0:
            return 0.0
        assert met.noise_multiplier is not None
        return met.times / met.noise_multiplier**2

    assert loss(NOTHING, 3) == 0.0
    assert 0 < loss(WHOLE_MESSAGE, 1) < loss(WHOLE_MESSAGE, 3) < math.inf


@pytest.mark.parametrize("name", shipped_defences())
def test_a_shipped_defence_has_its_file_name_and_words(name: str) -> None:
    found = find_defence(name)
    assert (found.name, found.__doc__ is not None) == (name, True)
    assert found.label
    assert found.about
