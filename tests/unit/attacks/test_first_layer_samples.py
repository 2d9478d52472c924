"""One sample is found with its sign, whatever its entries, and decay is no sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attacks import get_attack
from attacks.samples import samples_of_change, spans_everything
from audits.games import make_game
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

SERVER = Adversary("server")


def moved(rng: np.random.Generator, sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The matrix that was sent, and what one step on a sample makes of its rectified units."""
    start = rng.standard_normal((20, len(sample)))
    errors = rng.standard_normal(20) * (start @ sample > 0)
    return start, np.outer(errors, sample)


@pytest.mark.parametrize("seed", range(5))
def test_a_dense_sample_is_found_with_its_sign_without_a_bias(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sample = rng.standard_normal(8)
    start, change = moved(rng, sample)
    (sample_guess,) = samples_of_change(change, np.zeros(0), 1, start)
    assert sample_guess @ sample / np.linalg.norm(sample) == pytest.approx(1)
    rounded = change + 1e-5 * np.abs(change).max() * rng.standard_normal(change.shape)
    (sample_guess,) = samples_of_change(rounded, np.zeros(0), 1, start)
    assert sample_guess @ sample / np.linalg.norm(sample) > 0.999


def test_where_a_change_spans_everything_nothing_is_enumerated() -> None:
    rng = np.random.default_rng(0)
    change = rng.standard_normal((20, 30)) @ rng.standard_normal((30, 6))
    assert spans_everything(change, 30)
    assert not spans_everything(change, 1)
    found = samples_of_change(change, np.zeros(0), 30)
    assert not np.isin(found[np.abs(found).sum(1) > 0], (0, 1)).all(1).any()


@pytest.mark.parametrize("seed", range(3))
def test_clients_of_one_dense_sample_that_train_with_decay_are_read_exactly(
    tmp_path: Path, seed: int
) -> None:
    tree = small.tree(tmp_path, "gfl_appnp") | {"partition": {"name": "one_node"}, "seed": seed}
    tree["method"] |= {"jacobian": "none", "upload": "update"}
    truth = Truth.of(runner.start(parse_config(tree)).folder)
    attack, rng = get_attack("first_layer_samples"), np.random.default_rng(0)
    game = make_game(attack.question, truth, SERVER, rng)
    assert game.measure(attack.run(truth.view(SERVER), game.question, rng)).value > 0.99
