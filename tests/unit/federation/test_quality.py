"""Scores for rare classes agree with their definitions; a split that says nothing is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sklearn import metrics as known

from securefg.data.graph import Split
from securefg.data.splits import check_split
from securefg.federation.evaluation import pool_scores, score_locally, score_logits
from securefg.federation.quality import quality_of_logits
from securefg.foundation.errors import ConfigError, ProtocolError
from securefg.protocol.codec import Clients
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.settings.execution import TrainingSettings
from securefg.site.scores import read_score, rounded_score
from tests import small


def drawn(classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    stream = torch.Generator().manual_seed(classes)
    labels = torch.randint(classes, (300,), generator=stream)
    if classes == 2:
        labels = (torch.rand(300, generator=stream) < 0.07).long()
    logits = torch.randn(300, classes, generator=stream) + torch.eye(classes)[labels]
    return logits, labels


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_are_those_of_scikit_learn(classes: int) -> None:
    logits, labels = drawn(classes)
    label_quality = quality_of_logits(logits, labels, torch.ones(300, dtype=torch.bool))
    assert label_quality is not None
    predicted, chances = logits.argmax(1), logits.softmax(1).double()
    assert label_quality.balanced_accuracy == pytest.approx(
        known.balanced_accuracy_score(labels, predicted)
    )
    assert label_quality.macro_f1 == pytest.approx(
        known.f1_score(labels, predicted, average="macro")
    )
    if classes == 2:
        area = known.roc_auc_score(labels, chances[:, 1])
        precision = known.average_precision_score(labels, chances[:, 1])
        assert label_quality.majority > 0.9
    else:
        chances = chances / chances.sum(1, keepdim=True)
        area = known.roc_auc_score(labels, chances, multi_class="ovr")
        precision = known.average_precision_score(torch.eye(4)[labels], chances)
    assert label_quality.roc_auc == pytest.approx(area, abs=1e-6)
    assert label_quality.average_precision == pytest.approx(precision, abs=1e-6)


def test_ties_count_as_one_step_and_classes_without_nodes_do_not() -> None:
    stream = torch.Generator().manual_seed(7)
    labels = torch.randint(3, (200,), generator=stream)
    logits = torch.randint(3, (200, 4), generator=stream).float()  # many equal; no node of class 3
    label_quality = quality_of_logits(logits, labels, torch.ones(200, dtype=torch.bool))
    assert label_quality is not None
    chances, so = logits.double().softmax(1)[:, :3], torch.eye(3)[labels]
    area = known.roc_auc_score(so, chances, average="macro")
    assert label_quality.roc_auc == pytest.approx(area, abs=1e-12)
    precision = known.average_precision_score(so, chances, average="macro")
    assert label_quality.average_precision == pytest.approx(precision, abs=1e-12)


def test_clients_pool_to_the_score_of_all_their_nodes() -> None:
    logits, labels = drawn(4)
    whole = torch.ones(300, dtype=torch.bool)
    masks = [Split(whole[:150], whole[:150], whole[:150])] * 2
    parts = zip((logits[:150], logits[150:]), (labels[:150], labels[150:]), masks, strict=True)
    local = [score_locally(k, *part) for k, part in enumerate(parts)]
    together = score_logits(logits, labels, Split(whole, whole, whole))
    pooled = pool_scores(local)
    assert pooled.test is not None
    assert together.test is not None
    assert pooled.test.macro_f1 == pytest.approx(together.test.macro_f1)
    assert not [key for key in rounded_score(local[0]) if "confusion" in key or "ranks" in key]
    assert pool_scores([replace(local[0], test_confusion=None), local[1]]).test is None
    told = rounded_score(local[0])
    assert told["test_precision"] is None  # of two classes alone


def test_average_precision_of_sites_is_told_in_steps_and_pooled() -> None:
    logits, labels = torch.randn(60, 2), torch.arange(60) % 3 // 2
    whole = torch.ones(60, dtype=torch.bool)
    sites = [score_locally(k, logits, labels, Split(whole, whole, whole)) for k in range(2)]
    rounded_scores = [rounded_score(score) for score in sites]
    assert rounded_scores[0]["val_precision"] * 20 == pytest.approx(
        round(rounded_scores[0]["val_precision"] * 20)
    )
    read = [read_score(one, Clients(((0, 2),)), 60) for one in rounded_scores]
    pooled = pool_scores([read[0], replace(read[1], val_precision=None)])
    assert pooled.val is not None
    assert pooled.val.average_precision == rounded_scores[0]["val_precision"]
    assert pooled.val.figures() == {"average_precision": rounded_scores[0]["val_precision"]}
    assert pool_scores([replace(one, val_precision=None) for one in read]).val is None
    for wrong in (float("nan"), 1.5, -0.1, 1, "0.5", True):
        with pytest.raises(ProtocolError, match="an average precision of"):
            read_score({**rounded_scores[0], "test_precision": wrong}, Clients(((0, 2),)), 60)


def test_ranks_pool_by_the_nodes_of_the_clients_that_have_two_classes() -> None:
    some = score_locally(0, *_part(torch.tensor([[0.0, 3], [0, 1], [0, 2]]), [1, 0, 0]))
    more = score_locally(1, *_part(torch.tensor([[0.0, 1], [0, 2]]), [1, 0]))
    none = score_locally(2, *_part(torch.tensor([[0.0, 1], [0, 2]]), [0, 0]))
    assert (some.test_ranks, more.test_ranks, none.test_ranks) == ((1, 1), (0, 0.5), None)
    found = pool_scores([some, more, none]).test
    assert found is not None
    assert found.average_precision == pytest.approx((3 * 1 + 2 * 0.5) / 5)
    assert found.roc_auc == pytest.approx(3 / 5)
    alone = pool_scores([none]).test
    assert alone is not None
    assert alone.average_precision is None
    assert some.reached("val_average_precision") == 1
    assert none.reached("val_average_precision") == none.val_correct / 2


def _part(logits: torch.Tensor, labels: list[int]) -> tuple[torch.Tensor, torch.Tensor, Split]:
    whole = torch.ones(len(labels), dtype=torch.bool)
    return logits, torch.tensor(labels), Split(whole, whole, whole)


def test_the_kept_model_goes_by_the_chosen_score(tmp_path: Path) -> None:
    config = small.config(tmp_path, "training.monitor=val_balanced_accuracy", method="fedavg")
    outcome = runner.start(config)
    assert outcome.summary is not None
    lines = outcome.folder.metrics()
    figures = [line["quality"]["val"]["balanced_accuracy"] for line in lines]
    assert outcome.summary.best_round == 1 + figures.index(max(figures))
    assert outcome.summary.test_scores is not None
    assert outcome.summary.val_scores is not None
    assert outcome.summary.val_scores.balanced_accuracy == max(figures)


def test_a_score_that_cannot_be_known_is_refused(tmp_path: Path) -> None:
    of_one_node = ("training.monitor=val_roc_auc", "partition={name: one_node}")
    config = small.config(tmp_path, *of_one_node, method="fedmlp")
    with pytest.raises(ConfigError, match="val_roc_auc is not known"):
        runner.start(config)


def test_splits_that_say_nothing_are_refused_or_told(tmp_path: Path) -> None:
    graph, nothing = prepare(small.config(tmp_path)).union, torch.zeros(120, dtype=torch.bool)
    training, split = TrainingSettings(), graph.split
    for name in ("train", "val", "test"):
        bad = replace(graph, split=replace(split, **{name: nothing}))
        with pytest.raises(ConfigError, match="no client holds a"):
            check_split(bad, training)
    without = replace(graph, split=replace(split, val=nothing))
    check_split(without, TrainingSettings(final_model="last", patience=None))
    one_class = replace(graph, split=replace(split, train=split.train & (graph.labels == 0)))
    with pytest.warns(UserWarning, match="no training node is of class 1"):
        check_split(one_class, training)
    with pytest.raises(ConfigError, match="every node is of one class"):
        check_split(replace(graph, labels=torch.zeros_like(graph.labels), num_classes=1), training)
