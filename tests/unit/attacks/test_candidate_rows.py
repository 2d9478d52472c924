"""Likelihoods of candidates: what a client would upload, and ranks that noise leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from attacks import get_attack
from attacks.base import Noise
from attacks.candidates import _compact_rows, _gaussian_fit
from audits.findings.record import Finding
from audits.games.candidates import candidate_percentiles, neighbours_say
from audits.games.kriging import Kriged
from audits.plan import Task
from audits.player import Player
from audits.truth import Truth
from securefg.models.two_layer_mlp import compact_jacobian, mean_hidden
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

RNG = np.random.default_rng(1)


def test_a_candidates_jacobian_is_the_one_that_clients_compute() -> None:
    rows, first = torch.randn(4, 6), torch.randn(5, 6)
    gates, mean = mean_hidden(first, rows[:, None])
    theirs = compact_jacobian(gates, mean, rows[:, None]).flatten(1)
    assert torch.allclose(_compact_rows(rows @ first.T, rows), theirs, atol=1e-6)


def test_the_likelihood_is_that_of_the_clipped_upload() -> None:
    seen, made = torch.randn(3, 7), 4 * torch.randn(5, 7)
    noise = Noise(0.5, 1.0)
    clipped = made / made.norm(dim=1, keepdim=True)
    wanted = -0.5 * torch.cdist(seen, clipped).square() / noise.sd**2
    found = torch.from_numpy(_gaussian_fit(seen, made, noise)).float()
    shift = found - wanted  # what all candidates share
    assert torch.allclose(shift, shift[:, :1].expand_as(shift), atol=1e-3)


def test_percentiles_count_ties_by_half() -> None:
    guess = np.array([[3.0, 1.0, 2.0], [0.0, 0.0, 0.0], [1.0, 2.0, 2.0]])
    assert candidate_percentiles(guess, np.array([0, 1, 2])).tolist() == [1.0, 0.5, 0.75]


def test_neighbours_that_tell_nothing_leave_chance() -> None:
    rows = RNG.standard_normal((50, 8))
    nothing = Kriged(RNG.standard_normal((5, 8)), rows.mean(0) - 0.1 * (rows - rows.mean(0)))
    assert not neighbours_say(rows, nothing, rows[:5]).any()
    much = Kriged(rows[:5], rows + 0.1 * RNG.standard_normal(rows.shape))
    said = neighbours_say(rows, much, rows[:5])
    assert candidate_percentiles(said, np.arange(5)).mean() > 0.9


def played(root: Path, method: str, epsilon: float | None) -> Finding:
    tree = small.tree(root, method)
    tree["partition"] = {"name": "one_node"}
    tree["training"]["rounds"] = 3
    if method == "gfl_appnp":
        tree["method"] |= {"upload": "update", "hidden": 8}
    if epsilon is not None:
        tree["privacy"] = {
            "mechanism": "local_gaussian",
            "target_epsilon": epsilon,
            "unit": "client",
            "clip_l2": 1.0,
        }
    player = Player(Truth.of(runner.start(parse_config(tree)).folder), 0, 0.05, defended=False)
    return player.play(Task(get_attack("candidate_rows"), "server"))[0]


@pytest.mark.parametrize("method", ["gfl_appnp", "nfedgnn"])
def test_ranks_fall_with_noise_and_never_below_the_prior(tmp_path: Path, method: str) -> None:
    findings_by_noise = [played(tmp_path / str(e), method, e) for e in (None, 300.0, 20.0, 0.5)]
    gains = [f.gain for f in findings_by_noise if f.gain is not None]
    assert findings_by_noise[0].details["first"] > 0.9
    values = [gain.value for gain in gains]
    assert values == sorted(values, reverse=True)
    assert gains[1].low > 0
    assert gains[3].low < 0 < gains[3].value + 2 * (gains[3].high - gains[3].value)
    assert all(f.null_at_chance for f in findings_by_noise)
