"""Linear exposure in audits: who follows from the sums of a run, by algebra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacks.features import LINEAR_EXPOSURE
from attacks.questions import FirstLatents
from audits.exposure import audit_exposures, coalition_exposures
from audits.findings.record import Finding, Verdict
from audits.games import make_game
from audits.promises import list_checks
from audits.truth import Truth
from securefg.models.appnp import dense_adjacency
from securefg.models.graph_operators import neighbourhood_sums, operator_matrix
from securefg.protocol.meanings import GraphOperator, NodeRows
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

ONE_HOP = GraphOperator("appnp", teleport=0.1, steps=1)
PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
NOISE = {"mechanism": "local_gaussian", "noise_multiplier": 1.0, "clip_l2": 1.0, "delta": 1e-5}


def made(root: Path, method: dict[str, Any], privacy: dict[str, Any] | None = None) -> Truth:
    tree = small.tree(root, method["name"])
    tree["method"] = method
    if method["name"] != "fedgl":
        tree["data"]["csbm"] |= {"graph_signal": 1}
        tree["data"]["csbm"] |= {
            "num_nodes": 40,
            "degree": 4 if method["name"] == "gfl_appnp" else 9,
        }
        tree["partition"] = {"name": "one_node"}
        tree["training"] |= {"local_epochs": 1}
    tree["training"] |= {"rounds": 2}
    tree["privacy"] = privacy or {}
    return Truth.of(runner.start(parse_config(tree)).folder)


def test_nobody_is_in_its_own_sum_and_a_leaf_exposes_its_neighbour() -> None:
    weights = operator_matrix(ONE_HOP, PATH, 4)
    np.testing.assert_allclose(np.diag(weights), 0)
    np.testing.assert_allclose(weights[0], [0, 0.9 / 6**0.5, 0, 0])
    (found,) = coalition_exposures(weights, np.array([0]), 1, np.random.default_rng(0), 1)
    assert found.exposed.tolist() == [False, True, False, False]
    assert found.amplification[1] == pytest.approx(6**0.5 / 0.9)


def test_larger_coalitions_expose_more() -> None:
    stream = torch.Generator().manual_seed(0)
    ends = torch.randint(40, (2, 60), generator=stream)
    ends = torch.cat([ends, ends.flip(0)], 1)[:, torch.cat([ends[0] != ends[1]] * 2)]
    weights = operator_matrix(ONE_HOP, ends, 40)
    shares = [
        np.mean([x.share for x in coalition_exposures(weights, np.arange(40), size, rng)])
        for size, rng in ((2, np.random.default_rng(0)), (30, np.random.default_rng(0)))
    ]
    assert shares[0] < shares[1]


def test_small_neighbourhoods_are_withheld() -> None:
    whole = neighbourhood_sums(PATH, 4).toarray()
    np.testing.assert_allclose(whole, dense_adjacency(PATH, 4).numpy())
    assert np.flatnonzero(neighbourhood_sums(PATH, 4, 3).sum(1)).tolist() == [1, 2]


def test_gfl_tells_what_coalitions_solve_for(tmp_path: Path) -> None:
    truth = made(tmp_path, {"name": "gfl_appnp", "steps": 1, "hidden": 8})
    exposure_findings = [
        f for f in list_checks(truth, 1000, 0)["exposure"]() if f.attack == "linear_exposure"
    ]
    coalitions = {
        f.metric.removeprefix("share of the others' ").partition(" that ")[0]
        for f in exposure_findings
    }
    assert coalitions == {"node rows", "jacobian"}
    half = by_adversary(exposure_findings, "any 20 of 40 clients")
    assert half.verdict is Verdict.LEAK
    assert 0 < half.value.value < 1
    assert half.details["noise_amplification"] > 1
    assert (
        audit_exposures(truth, 0)[1].value
        == by_adversary(exposure_findings, "any 4 of 40 clients").value
    )


def test_under_noise_what_follows_is_noisy_too(tmp_path: Path) -> None:
    method = {"name": "gfl_appnp", "steps": 1, "hidden": 8, "jacobian": "none", "upload": "update"}
    truth = made(tmp_path, method, {**NOISE, "unit": "client"})
    half = by_adversary(audit_exposures(truth, 0), "any 20 of 40 clients")
    assert half.verdict is Verdict.NOT_DETECTED
    assert "with the noise" in half.because


def test_sums_over_neighbourhoods_are_solved_as_the_algebra_says(tmp_path: Path) -> None:
    method = {"name": "nfedgnn", "upload": "neighbourhood_sums", "smoothness": 0, "missing": "zero"}
    truth = made(tmp_path, method, {"secure_aggregation": {"malicious": False}})
    server = Adversary("server")
    share = by_adversary(audit_exposures(truth, 0), "server")
    assert share.verdict is Verdict.LEAK
    game = make_game(FirstLatents, truth, server, np.random.default_rng(0))
    guess = LINEAR_EXPOSURE.run(truth.view(server), game.question, np.random.default_rng(0))
    assert game.gain(guess).low > LINEAR_EXPOSURE.floor
    assert game.extras(guess)["exact_latents"] >= share.value.value - 0.05
    assert game.null(guess, np.random.default_rng(0))[1]
    assert truth.spoken.unmet_need(LINEAR_EXPOSURE) is None
    plain = made(tmp_path / "open", {"name": "nfedgnn"})
    assert "graph sums" in str(plain.spoken.unmet_need(LINEAR_EXPOSURE))
    assert any(meaning.fits(NodeRows("latent")) for meaning in plain.spoken.uploads.values())
    assert audit_exposures(plain, 0) == []


def test_fedgl_under_masks_tells_of_nodes_that_one_colluder_opens(tmp_path: Path) -> None:
    truth = made(tmp_path, {"name": "fedgl"}, {"secure_aggregation": {}})
    exposure_findings = audit_exposures(truth, 0)
    alone = by_adversary(exposure_findings, "server")
    assert alone.value.value == 0
    assert alone.verdict is Verdict.NOT_DETECTED
    helped = by_adversary(exposure_findings, "server and any one client")
    assert helped.verdict is (Verdict.LEAK if helped.value.high > 0 else Verdict.NOT_DETECTED)
    least = truth.config.privacy.secure_aggregation.min_holders
    assert helped.details["min_holders"] == least
    assert (helped.value.high > 0) == (least <= 2)


def by_adversary(found: list[Finding], adversary: str) -> Finding:
    return next(f for f in found if f.adversary == adversary)
