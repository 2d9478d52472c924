"""Predictions at home: labels that they may read, and the choice among local methods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.federation.roles import Site
from securefg.foundation.errors import ConfigError
from securefg.methods.at_home import (
    choose_clearly,
    predict_alone,
    predict_best,
    predict_with,
    spread_over_links,
)
from securefg.methods.best_alone.algorithm import Party
from securefg.methods.best_alone.candidates import CANDIDATES
from securefg.methods.best_alone.settings import Settings
from securefg.methods.two_sums.features import known_labels
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.settings.config import RunConfig, parse_config
from tests.small import tree


def config(root: Path, **method: object) -> RunConfig:
    whole = tree(root, "best_alone")
    whole["method"] |= {"epochs": 5, "scale": 3.0, **method}
    whole["partition"] = {"name": "random", "num_clients": 3}
    whole["training"] = {"rounds": 1, "patience": None, "final_model": "last"}
    return parse_config(whole)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site[Settings]:
    experiment = prepare(config(tmp_path_factory.mktemp("alone")))
    settings = experiment.config.method
    assert isinstance(settings, Settings)
    return Site(experiment.shards[:1], settings, experiment.config.training, 0, torch.device("cpu"))


@pytest.fixture(scope="module")
def graph(site: Site[Settings]) -> Graph:
    return site.shards[0].graph


def with_other_test_labels(graph: Graph) -> Graph:
    others = (graph.labels + 1) % graph.num_classes
    return replace(graph, labels=torch.where(graph.split.test, others, graph.labels))


@pytest.mark.parametrize("name", sorted(CANDIDATES))
def test_candidate_reads_no_test_label(name: str, graph: Graph, site: Site[Settings]) -> None:
    one, other = (CANDIDATES[name](g, site) for g in (graph, with_other_test_labels(graph)))
    assert one.shape == (graph.num_nodes, graph.num_classes)
    assert torch.equal(one, other)


@pytest.mark.parametrize("few", [0, 10**6])
def test_prediction_with_common_scores_reads_training_labels_alone(few: int, graph: Graph) -> None:
    scores = torch.randn(graph.num_nodes, graph.num_classes).double()
    kept = graph.split.train
    others = replace(graph, labels=torch.where(kept, graph.labels, 0))
    assert torch.equal(predict_with(graph, scores, few), predict_with(others, scores, few))


def test_few_own_labels_leave_common_scores_as_they_are(graph: Graph) -> None:
    """Without links and without a fit, the prediction is that of the common model."""
    alone = replace(graph, edge_index=graph.edge_index[:, :0])
    scores = torch.randn(graph.num_nodes, graph.num_classes).double()
    found = predict_with(alone, scores, few=10**6)
    unknown = ~graph.split.train
    assert torch.equal(found.argmax(1)[unknown], scores.argmax(1)[unknown])


def test_spoilt_common_scores_give_way_to_training_alone(graph: Graph) -> None:
    """The scores are wrong everywhere, and the party has validation nodes enough to see it."""
    unknown = ~graph.split.train
    split = replace(graph.split, val=unknown)
    seen, blind = (
        replace(graph, split=one) for one in (split, replace(split, val=unknown & False))
    )
    wrong = torch.nn.functional.one_hot((graph.labels + 1) % 2, 2).double() * 50
    assert torch.equal(predict_best(seen, wrong), predict_alone(seen))
    assert torch.equal(predict_best(blind, wrong), predict_with(blind, wrong))
    right = torch.nn.functional.one_hot(graph.labels, 2).double() * 50
    assert torch.equal(predict_best(seen, right), predict_with(seen, right))


def test_regression_without_common_scores_is_training_alone(graph: Graph) -> None:
    """A common model that knows nothing is worth what training alone is, but for the strength."""
    nothing = torch.zeros(graph.num_nodes, graph.num_classes)
    same = predict_with(graph, nothing, few=0).argmax(1) == predict_alone(graph).argmax(1)
    assert float(same.double().mean()) > 0.7


def test_client_without_labels_predicts_by_the_common_model(graph: Graph) -> None:
    none = replace(graph.split, train=torch.zeros_like(graph.split.train))
    bare = replace(graph, split=none, edge_index=graph.edge_index[:, :0])
    scores = torch.randn(graph.num_nodes, graph.num_classes).double()
    assert torch.equal(predict_with(bare, scores, few=0).argmax(1), scores.argmax(1))
    assert bool(predict_alone(bare).isfinite().all())


def test_known_labels_stay_and_rows_stay_shares(graph: Graph) -> None:
    start = np.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)
    spread_labels = torch.from_numpy(spread_over_links(graph, start))
    train = graph.split.train
    assert torch.equal(spread_labels[train], known_labels(graph)[train])
    has_links = torch.bincount(graph.edge_index.flatten(), minlength=graph.num_nodes) > 0
    assert torch.allclose(
        spread_labels[has_links].sum(1), torch.ones(int(has_links.sum())).double()
    )


def right(*places: int, of: int = 40) -> Tensor:
    return torch.isin(torch.arange(of), torch.tensor(places))


def test_default_stays_unless_another_is_clearly_better() -> None:
    default = right(*range(10))
    luckier = right(*range(13))
    better = right(*range(6, 30))
    assert choose_clearly([default, luckier]) == 0
    assert choose_clearly([default, luckier, better]) == 2
    assert choose_clearly([better, default]) == 0


def test_unknown_candidate_is_refused(site: Site[Settings]) -> None:
    asked = replace(site, method=site.method.model_copy(update={"candidates": ("oracle",)}))
    with pytest.raises(ConfigError, match=r"method\.candidates: found oracle; expected some of"):
        Party(asked)


def test_run_of_best_alone_sends_nothing_private(tmp_path: Path) -> None:
    summary = runner.start(config(tmp_path)).summary
    assert summary is not None
    assert summary.epsilon["node"].epsilon == 0
    assert summary.local_test_accuracy.pooled is not None
