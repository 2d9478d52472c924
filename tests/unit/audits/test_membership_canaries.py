"""The audit by canaries: it finds a model that remembers, and nothing where there is nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attacks.base import CannotAttack
from audits import canary_audit
from audits.canary_audit import audit_canaries, canary_scores, judge_scores, over_trainings
from audits.empirical_epsilon import several_trainings
from audits.findings.record import Verdict
from audits.games.membership import membership
from audits.promises import list_checks
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.runs.summary import ClaimedEpsilon
from securefg.settings.config import parse_config
from tests import small

COUNT = 60


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    tree = small.tree(tmp_path_factory.mktemp("runs"))
    tree["data"]["csbm"] |= {"num_features": 400}
    tree["partition"] = {"name": "shares", "shares": [1.0]}
    tree["method"] |= {"dropout": 0.0, "pseudo_labels": False, "pseudo_graph": False}
    tree["training"] |= {"rounds": 1, "local_epochs": 150, "lr": 0.02, "weight_decay": 0.0}
    tree["audit"] = {"canaries": COUNT}
    return Truth.of(runner.start(parse_config(tree)).folder)


def test_a_model_that_remembers_leaks_its_canaries(truth: Truth) -> None:
    (finding,) = audit_canaries(truth)
    assert finding.verdict is Verdict.LEAK
    assert finding.epsilon_lower > 0.5
    assert finding.epsilon_lower <= finding.epsilon_ceiling
    assert (finding.unit, finding.epsilon_claimed, finding.targets) == (
        "node with its edges",
        None,
        COUNT,
    )
    assert finding.details["share_right"] > 0.8


def test_the_audit_reports_them_among_the_promises(truth: Truth) -> None:
    names = [f.attack for check in list_checks(truth, 1000, 0).values() for f in check()]
    assert names.count("canaries") == 1


def test_a_run_without_canaries_has_no_such_finding(tmp_path: Path) -> None:
    plain = Truth.of(runner.start(small.config(tmp_path, "training.rounds=1")).folder)
    assert audit_canaries(plain) == []
    with pytest.raises(CannotAttack, match="carries no canaries"):
        canary_scores(plain)


def test_a_method_without_a_model_is_inconclusive(tmp_path: Path) -> None:
    config = small.config(tmp_path, "audit.canaries=10", "training.rounds=1", method="alone")
    (finding,) = audit_canaries(Truth.of(runner.start(config).folder))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "released no model" in finding.because


def test_a_bound_above_the_claim_is_a_violation(truth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary_audit, "claimed_epsilon", lambda truth: (0.1, "claimed"))
    (finding,) = audit_canaries(truth)
    assert finding.verdict is Verdict.VIOLATION
    monkeypatch.setattr(canary_audit, "claimed_epsilon", lambda truth: (9.0, "claimed"))
    assert audit_canaries(truth)[0].verdict is Verdict.LEAK


def _claiming(truth: Truth, epsilon: float | None, **changed: Any) -> Any:
    """The run, as if it claimed this epsilon for its clients."""
    x = truth.experiment
    parts = {"method": x.method, "partition": x.partition, "canaries": x.canaries, **changed}
    claim = ClaimedEpsilon(epsilon=epsilon, delta=1e-5, private=epsilon is not None, because=())
    folder = SimpleNamespace(summary=lambda: SimpleNamespace(epsilon={"client": claim}))
    return SimpleNamespace(folder=folder, experiment=SimpleNamespace(**parts))


def test_a_clients_epsilon_covers_a_node_that_it_alone_holds(truth: Truth) -> None:
    claim = canary_audit.claimed_epsilon
    assert claim(_claiming(truth, None)) == (None, "no epsilon is claimed")
    assert claim(_claiming(truth, 2.0))[0] == 2.0
    knows = SimpleNamespace(server_knows=frozenset({"labels"}))
    assert claim(_claiming(truth, 2.0, method=knows))[0] is None
    held = truth.experiment.partition
    twice = SimpleNamespace(nodes=torch.cat([held.nodes, held.nodes]), num_nodes=held.num_nodes)
    assert claim(_claiming(truth, 2.0, partition=twice))[0] is None


def test_every_canary_is_shown_whole_whatever_its_coin(truth: Truth) -> None:
    canaries = truth.experiment.canaries
    shown = canary_audit.shown_to_the_model(truth.graph, canaries)
    degrees = torch.bincount(shown.edge_index[0], minlength=shown.num_nodes)[canaries.nodes]
    assert (degrees == 2).all()
    assert torch.equal(shown.features[canaries.nodes], canaries.features)


def test_the_number_of_guesses_hangs_on_nothing_but_the_number_of_canaries() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        _, _, guesses = judge_scores(rng.normal(size=100), rng.random(100) < 0.5, 1e-5)
        assert guesses == 66


def test_right_guesses_are_counted_at_both_ends() -> None:
    inside = np.arange(30) >= 15
    bound, right, guesses = judge_scores(np.arange(30.0), inside, 1e-5)
    assert (right, guesses) == (20, 20)
    assert bound.epsilon > 1
    swapped, right, _ = judge_scores(np.arange(30.0), ~inside, 1e-5)
    assert (right, swapped.epsilon) == (0, 0.0)


def test_scores_that_know_nothing_rarely_show_an_epsilon() -> None:
    rng = np.random.default_rng(3)
    flagged = sum(
        judge_scores(rng.normal(size=100), rng.random(100) < 0.5, 1e-5)[0].epsilon > 0
        for _ in range(200)
    )
    assert flagged <= 20  # 5 % expected, 20 is beyond three sd


def test_one_canary_over_several_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    coins = rng.random((60, 3)) < 0.5
    scores = np.where(coins, 5.0, 0.0) + rng.normal(size=coins.shape)
    looks = {"first": 5, "features": torch.ones(1), "neighbours": torch.ones(1)}

    def run(row: int, labels: float = 0.0) -> Any:
        kept = torch.from_numpy(coins[row])
        found = SimpleNamespace(**looks, labels=torch.tensor([labels]), inside=kept)
        return SimpleNamespace(experiment=SimpleNamespace(canaries=found), row=row)

    monkeypatch.setattr(canary_audit, "canary_scores", lambda truth: scores[truth.row])
    bound = over_trainings([run(row) for row in range(60)], 1, 1e-5)
    wanted = several_trainings(scores[coins[:, 1], 1], scores[~coins[:, 1], 1], 1e-5)
    assert bound == wanted
    assert bound.epsilon > 0.5
    with pytest.raises(CannotAttack, match="same canaries"):
        over_trainings([run(0), run(1, labels=1.0)], 1, 1e-5)


def test_canaries_are_no_targets_of_the_membership_game(truth) -> None:
    few = truth.judged_by(truth.config.audit.model_copy(update={"num_shadows": 4}))
    game = membership(few, Adversary("outsider"), np.random.default_rng(0))
    assert game.question.ids.max() < truth.experiment.canaries.first
