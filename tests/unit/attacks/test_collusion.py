"""G2: what clients of GFL-APPNP that collude, and know the graph, solve their sums for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacks.base import CannotAttack
from attacks.colluders import COLLUSION, _part_samples, collusion
from attacks.labels import GRADIENT_LABELS
from attacks.questions import ClientLabels, ColludedSamples
from audits.games import make_game
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

RNG = np.random.default_rng


def made(root: Path, privacy: dict[str, Any] | None = None, **method: Any) -> Truth:
    tree = small.tree(root, "gfl_appnp")
    tree["method"] |= {"hidden": 16, **method}
    tree["data"]["csbm"] |= {"num_nodes": 60, "degree": 3, "graph_signal": 1, "train_share": 0.4}
    tree["partition"] = {"name": "one_node"}
    tree["training"] = {"rounds": 1, "local_epochs": 2, "lr": 0.1, "patience": None}
    tree["privacy"] = privacy or {}
    return Truth.of(runner.start(parse_config(tree)).folder)


@pytest.fixture(scope="module")
def one_hop(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("one_hop"), steps=1)


def all_trainers(truth: Truth) -> Adversary:
    return Adversary("client", frozenset(truth.experiment.public.trainers.tolist()))


def play(truth: Truth, adversary: Adversary) -> tuple[Any, Any]:
    game = make_game(ColludedSamples, truth, adversary, RNG(0))
    return game, collusion(truth.view(adversary), game.question, RNG(0))


def test_whoever_the_sums_expose_is_recovered_exactly(one_hop: Truth) -> None:
    game, guess = play(one_hop, all_trainers(one_hop))
    assert game.gain(guess).low > COLLUSION.floor
    assert game.extras(guess)["exact_samples"] > 0.1
    assert game.null(guess, RNG(0))[1]


def test_a_client_sees_its_only_neighbour_exactly(one_hop: Truth) -> None:
    public = one_hop.experiment.public
    source, target = public.edge_index.numpy()
    degrees = np.bincount(source, minlength=public.num_nodes)
    leaves = [k for k in public.trainers.tolist() if degrees[k] == 1]
    assert len(leaves) >= 2
    me = Adversary("client", frozenset(leaves))
    neighbours = np.unique(target[np.isin(source, leaves)])
    game = make_game(ColludedSamples, one_hop, me, RNG(0))
    asked = np.setdiff1d(neighbours, leaves)
    guess = collusion(one_hop.view(me), replace(game.question, ids=asked), RNG(0))
    np.testing.assert_allclose(guess[:, 0], one_hop.features()[asked], atol=1e-4)


def test_binary_samples_in_one_sum_are_told_apart() -> None:
    """Gates differ from unit to unit, so one sum of three neighbours has the rank of three."""
    stream = RNG(3)
    samples = (stream.random((3, 40)) < 0.2).astype(float)
    gates = stream.integers(0, 2, (16, 3))
    weights = np.array([0.5, 0.3, 0.2])
    mixture = (gates * weights) @ samples
    left = np.concatenate([mixture, np.zeros((16, 1))], 1).reshape(1, -1)
    found = _part_samples(left, np.array([[0, *weights]]), 1, 16)
    assert found.keys() == {1, 2, 3}
    np.testing.assert_allclose(np.stack([found[j] for j in (1, 2, 3)]), samples)


def test_noise_takes_the_samples_away(tmp_path: Path, one_hop: Truth) -> None:
    noise = {
        "mechanism": "local_gaussian",
        "noise_multiplier": 50.0,
        "clip_l2": 1.0,
        "delta": 1e-5,
        "unit": "client",
    }
    game, guess = play(made(tmp_path, noise, steps=1, upload="update"), all_trainers(one_hop))
    assert game.extras(guess)["exact_samples"] == 0
    assert game.gain(guess).low < 0


def test_who_cannot_collude_is_told_why(one_hop: Truth) -> None:
    unlabelled = set(range(60)) - set(one_hop.experiment.public.trainers.tolist())
    with pytest.raises(CannotAttack, match="no colluder has a label"):
        play(one_hop, Adversary("client", frozenset(list(unlabelled)[:2])))
    game = make_game(ColludedSamples, one_hop, all_trainers(one_hop), RNG(0))
    view = one_hop.view(all_trainers(one_hop))
    with pytest.raises(CannotAttack, match="sums of Jacobians are not in the view"):
        collusion(replace(view, seen=()), game.question, RNG(0))
    assert one_hop.spoken.unmet_need(COLLUSION) is None
    unheard = replace(one_hop.spoken, sent={})
    assert "the server sends holds graph sums (of jacobian)" in str(unheard.unmet_need(COLLUSION))


def test_without_a_jacobian_nobody_colludes(tmp_path: Path) -> None:
    spoken = made(tmp_path, jacobian="none").spoken
    assert "jacobian" in str(spoken.unmet_need(COLLUSION))


def test_the_row_that_moved_up_is_the_label(one_hop: Truth) -> None:
    server = Adversary("server")
    game = make_game(ClientLabels, one_hop, server, RNG(0))
    view = one_hop.view(server)
    guess = GRADIENT_LABELS.run(view, game.question, RNG(0))
    assert game.measure(guess).value == 1
    assert game.gain(guess).low > GRADIENT_LABELS.floor
    assert game.null(guess, RNG(0))[1]
    with pytest.raises(CannotAttack, match="not in the view"):
        GRADIENT_LABELS.run(replace(view, seen=()), game.question, RNG(0))


def test_masks_hide_the_labels(tmp_path: Path) -> None:
    truth = made(tmp_path, {"secure_aggregation": {"malicious": False}}, steps=1)
    server = Adversary("server")
    game = make_game(ClientLabels, truth, server, RNG(0))
    guess = GRADIENT_LABELS.run(truth.view(server), game.question, RNG(0))
    assert len(np.unique(guess)) == 1  # the mean of all says the same of everybody
    assert game.gain(guess).value <= 0
    assert torch.is_tensor(truth.view(server).released["weights"])
