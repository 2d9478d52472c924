"""Sums by pseudo label: what one user moves, lies of the server, and whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from audits.plan import Plan
from audits.run import audit
from securefg.federation.roles import Site
from securefg.foundation.errors import ConfigError, MaskingRefused
from securefg.methods.pseudo_sums.algorithm import (
    AskSums,
    ClassSums,
    SumServer,
    Users,
    pseudo_labels,
)
from securefg.methods.pseudo_sums.settings import Settings
from securefg.protocol.codec import Clients, Turn
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.settings.config import RunConfig, parse_config
from tests.small import tree

NOISE = {
    "mechanism": "distributed_discrete",
    "target_epsilon": 4,
    "delta": 0.01,
    "unit": "features",
    "secure_aggregation": {"corrupt": 0},
}


def config(root: Path, privacy: dict[str, Any] | None = None, **method: Any) -> RunConfig:
    whole = tree(root, "pseudo_sums")
    whole["method"] |= method
    whole["privacy"] = privacy or {}
    whole["partition"] = {"name": "one_node"}
    whole["training"] = {"rounds": 1, "patience": None, "final_model": "last"}
    return parse_config(whole)


def users_of(root: Path, **method: Any) -> tuple[Users, int, int]:
    experiment = prepare(config(root))
    site = Site(
        experiment.shards,
        Settings(**method),
        experiment.config.training,
        0,
        torch.device("cpu"),
    )
    info = experiment.public
    return Users(site), info.num_nodes, info.num_classes


def answered(users: Users, pseudo: Tensor, projection: Tensor | None = None) -> Tensor:
    turn = Turn(round=1, step=1, clients=Clients(((0, len(pseudo)),)))
    reply = users.handle(AskSums(number=1, pseudo=pseudo, projection=projection), turn)
    assert isinstance(reply, ClassSums)
    return reply.sums


@pytest.mark.parametrize("kind", ["shares", "ones", "corner", "zero"])
def test_upload_for_any_pseudo_label_moves_at_most_one(kind: str, tmp_path: Path) -> None:
    """The server may send any row within its bounds, such as all ones."""
    users, count, classes = users_of(tmp_path)
    rows = {
        "shares": torch.rand(count, classes).softmax(1),
        "ones": torch.ones(count, classes),
        "corner": torch.eye(classes)[torch.arange(count) % classes],
        "zero": torch.zeros(count, classes),
    }[kind]
    lengths = answered(users, rows).flatten(1).norm(dim=1)
    assert float(lengths.max()) <= 1 + 1e-6
    if kind in ("ones", "corner"):
        assert float(lengths.max()) > 0.999  # the bound is reached, so no noise is wasted


@pytest.mark.parametrize("later", ["predictions", "residuals"])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e30, -1e30])
def test_upload_for_any_projection_moves_at_most_one(
    size: float, later: str, tmp_path: Path
) -> None:
    """The server may send any finite P, in later rounds or in the first."""
    users, count, classes = users_of(tmp_path, later_rounds=later)
    features = prepare(config(tmp_path)).public.num_features
    uploads = answered(users, torch.ones(count, classes), size * torch.randn(features, classes))
    lengths = uploads.flatten(1).norm(dim=1)
    assert bool(uploads.isfinite().all())
    assert float(lengths.max()) <= 1 + 1e-6


def test_later_round_sends_own_prediction_in_place_of_pseudo_label(tmp_path: Path) -> None:
    users, count, classes = users_of(tmp_path)
    features = prepare(config(tmp_path)).public.num_features
    equal = torch.full((count, classes), 1 / classes)
    first = torch.zeros(features, classes)
    first[:, 0] = 100.0
    assert not torch.allclose(answered(users, equal), answered(users, equal, first))


def test_residuals_vanish_where_the_prediction_is_the_pseudo_label(tmp_path: Path) -> None:
    users, count, classes = users_of(tmp_path, later_rounds="residuals")
    features = prepare(config(tmp_path)).public.num_features
    equal = torch.full((count, classes), 1 / classes)
    assert float(answered(users, equal, torch.zeros(features, classes)).abs().max()) < 1e-6


def test_residual_rounds_without_noise_improve_the_fit(tmp_path: Path) -> None:
    """Each step lowers the squared residuals of counts of words, which are never negative."""
    experiment = prepare(config(tmp_path, later_rounds="residuals"))
    users, _, _ = users_of(tmp_path, later_rounds="residuals")
    users._rows = users._rows.abs()
    pseudo = pseudo_labels(experiment.public, Settings()).float()
    server = SumServer.__new__(SumServer)
    server._settings, server._projection, server._totals = Settings(), None, None
    sizes = []
    for _ in range(4):
        uploads = answered(users, pseudo, server._projection)
        sizes.append(float(uploads.flatten(1).norm(dim=1).square().sum()))
        server._projection = server._improve_projection(uploads.sum(0).double(), 0.0)
    assert sizes[3] < sizes[2] < sizes[1] < sizes[0]


@pytest.mark.parametrize("later", ["predictions", "residuals"])
def test_two_rounds_share_the_budget(later: str, tmp_path: Path) -> None:
    whole = config(tmp_path, NOISE, later_rounds=later).model_dump()
    whole["training"]["rounds"] = 2
    summary = runner.start(parse_config(whole)).summary
    assert summary.rounds == 2
    assert summary.epsilon["features"].epsilon == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize("coordinates", [0, 8])
def test_pseudo_labels_keep_known_labels_and_sum_to_one(coordinates: int, tmp_path: Path) -> None:
    info = prepare(config(tmp_path)).public
    shares = pseudo_labels(info, Settings(coordinates=coordinates))
    assert torch.allclose(shares.sum(1), torch.ones(len(shares), dtype=torch.float64))
    assert info.known_labels is not None
    known = info.known_labels >= 0
    assert torch.equal(shares[known].argmax(1), info.known_labels[known])
    assert float(shares[known].max(1).values.min()) == 1
    assert pseudo_labels(info, Settings(coordinates=coordinates)) is shares
    assert not torch.equal(pseudo_labels(info, Settings(sharpness=3)), shares)


def test_run_under_noise_claims_epsilon_per_features_alone(tmp_path: Path) -> None:
    summary = runner.start(config(tmp_path, NOISE)).summary
    claims = summary.epsilon
    assert claims["features"].epsilon == pytest.approx(4, rel=1e-3)
    assert claims["features"].private
    assert claims["features"].relation == "removed or added"
    assert claims["node"].epsilon is None
    assert "all edges, given to the server" in claims["node"].because


def test_run_without_noise_claims_nothing(tmp_path: Path) -> None:
    claims = runner.start(config(tmp_path)).summary.epsilon
    assert claims["features"].epsilon is None


def test_masks_without_noise_under_lying_server_are_refused(tmp_path: Path) -> None:
    """A server could steer all uploads but one to zero."""
    with pytest.raises(MaskingRefused, match="steers all uploads"):
        prepare(config(tmp_path, {"secure_aggregation": {}}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"training": {"participation": 0.5}}, "expected 1 for pseudo_sums"),
        ({"partition": {"name": "louvain", "num_clients": 3}}, "expected one node per client"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    change: dict[str, dict[str, Any]], words: str, tmp_path: Path
) -> None:
    whole = config(tmp_path).model_dump()
    for key, values in change.items():
        whole[key] = {**whole[key], **values} if key == "training" else values
    with pytest.raises(ConfigError, match=words):
        prepare(parse_config(whole))


def test_many_users_tell_the_share_of_the_largest_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A curve compares with naming one class, and recommends nothing where that is not known."""
    monkeypatch.setattr("securefg.federation.evaluation.MANY_CLIENTS", 10)
    scores = runner.start(config(tmp_path)).summary.test_scores
    assert scores is not None
    assert 0.3 < (scores.majority or 0.0) < 1


def test_attack_on_records_reads_the_first_of_two_rounds(tmp_path: Path) -> None:
    """The sums of two rounds, added up, are no sum of any round."""
    whole = config(tmp_path).model_dump()
    whole["training"]["rounds"] = 2
    run = runner.start(parse_config(whole)).folder
    found = audit(run.path, Plan(only=("summed_records",))).findings
    (attack,) = [one for one in found if one.attack == "summed_records"]
    assert attack.value is not None
    assert attack.value.value == pytest.approx(1)


@pytest.mark.parametrize(
    "partition",
    [
        {"name": "random", "num_clients": 120},  # as many clients as nodes, in another order
        {"name": "shares", "shares": [0.5] * 120},  # nodes at several clients
    ],
)
def test_users_that_hold_other_nodes_are_refused_before_sending(
    partition: dict[str, Any], tmp_path: Path
) -> None:
    """The server would send user k the pseudo label of node k."""
    tree_of = config(tmp_path, NOISE).model_dump(mode="json")
    changed = parse_config({**tree_of, "partition": partition})
    with pytest.raises(ConfigError, match="hold other nodes than their own"):
        runner.start(changed)
    assert not list(tmp_path.glob("run-*"))
