"""One private sum: what a node moves, the weight of class scores, and whole runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audits.findings.record import Verdict
from audits.influence import audit_influences
from audits.plan import Plan
from audits.run import audit
from audits.truth import Truth
from securefg.foundation.errors import ConfigError
from securefg.methods.one_sum.algorithm import weigh_scores
from securefg.methods.two_sums.features import class_sums
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.settings.config import RunConfig, parse_config
from tests.small import tree
from tests.unit.methods.test_two_sums import random_graph, without_edge, without_node

NOISE = {
    "mechanism": "distributed_discrete",
    "target_epsilon": 4,
    "delta": 0.01,
    "unit": "node",
    "secure_aggregation": {"dropout": 0, "corrupt": 0},
}


def config(root: Path, privacy: dict[str, Any] | None = None, **method: Any) -> RunConfig:
    whole = tree(root, "one_sum")
    whole["method"] |= method
    whole["privacy"] = NOISE if privacy is None else privacy
    whole["partition"] = {"name": "random", "num_clients": 4}
    whole["training"] = {"rounds": 1, "patience": None, "final_model": "last"}
    return parse_config(whole)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e30])
@pytest.mark.parametrize("seed", range(20))
def test_removed_node_moves_the_sum_by_at_most_one(seed: int, size: float) -> None:
    graph = random_graph(np.random.default_rng(seed))
    graph = replace(graph, features=graph.features * size)
    whole = class_sums(graph)
    moves = [
        float((whole - class_sums(without_node(graph, node))).norm())
        for node in range(graph.num_nodes)
    ]
    assert max(moves) <= 1 + 1e-9
    if size == 1 and bool(graph.split.train.any()):
        assert max(moves) > 1 - 1e-6  # the bound is reached, so no noise is wasted


@pytest.mark.parametrize("seed", range(10))
def test_removed_edge_moves_nothing(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed))
    for edge in range(graph.edge_index.shape[1]):
        assert torch.equal(class_sums(graph), class_sums(without_edge(graph, edge)))


def test_weight_of_scores_grows_with_signal_over_noise() -> None:
    rng = torch.Generator().manual_seed(0)
    noise = torch.randn(200, 4, generator=rng, dtype=torch.float64)
    signal = torch.rand(200, 4, generator=rng, dtype=torch.float64)
    weights = [weigh_scores(size * signal + noise, 1.0) for size in (0.0, 3.0, 30.0, 3000.0)]
    assert weights == sorted(weights)
    assert weights[0] < 0.7
    assert weights[-1] == pytest.approx(2, rel=0.01)
    assert weigh_scores(signal, 0.0) == 2
    assert math.isfinite(weigh_scores(torch.zeros(3, 2, dtype=torch.float64), 1.0))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> runner.Outcome:
    return runner.start(config(tmp_path_factory.mktemp("one")))


def test_claim_holds_for_any_number_of_links(finished: runner.Outcome) -> None:
    assert finished.summary is not None
    claims = finished.summary.epsilon
    assert claims["node"].epsilon == pytest.approx(4, rel=1e-3)
    assert claims["node"].private
    assert claims["node"].by_links == ()
    assert claims["edge"].epsilon == 0


def test_audit_finds_no_node_beyond_the_declaration(finished: runner.Outcome) -> None:
    found = audit_influences(Truth.of(finished.folder), 0)
    assert {one.verdict for one in found} == {Verdict.NOT_DETECTED}
    assert max(one.details["share_of_declared"] for one in found) == pytest.approx(1, abs=1e-4)


def test_attack_on_the_sum_finds_labels_without_noise(tmp_path: Path) -> None:
    """The positive control of the green result under noise."""
    run = runner.start(config(tmp_path, {}))
    found = audit(run.folder.path, Plan(only=("summed_features",))).findings
    gains = [f for f in found if f.attack == "summed_features" and f.measured]
    assert gains
    assert {f.verdict for f in gains} == {Verdict.LEAK}


def test_node_with_three_clients_needs_three_times_the_distance(tmp_path: Path) -> None:
    whole = config(tmp_path).model_dump()
    whole["partition"] = {"name": "shares", "shares": [0.9, 0.9, 0.9]}
    experiment = prepare(parse_config(whole))
    single = prepare(config(tmp_path))
    noises = [
        e.policy.rules["ClassSums.sums"].stddev(torch.Size([1])) * math.sqrt(e.public.num_clients)
        for e in (experiment, single)
    ]
    assert float(noises[0] / noises[1]) == pytest.approx(3, rel=0.2)


def test_second_round_is_refused(tmp_path: Path) -> None:
    whole = config(tmp_path).model_dump()
    whole["training"]["rounds"] = 2
    with pytest.raises(ConfigError, match="expected 1 for one_sum"):
        prepare(parse_config(whole))
