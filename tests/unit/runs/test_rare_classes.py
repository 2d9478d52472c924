"""Runs with a rare class: monitor, loss, alerts, and what the choice rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import securefg
from securefg.cli.summary import summary_table
from securefg.data.graph import Split
from securefg.data.tabular.schema import class_names
from securefg.federation.alerts import (
    STEPS,
    AlertCounts,
    best_threshold,
    count_alerts,
    expected_hits,
    share_precision,
)
from securefg.federation.evaluation import score_locally
from securefg.foundation.errors import ConfigError
from securefg.models.training import class_weights
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.runs.epsilons import not_covered
from securefg.runs.scores import monitored_name
from securefg.settings.config import parse_config
from securefg.settings.execution import TrainingSettings
from securefg.settings.tables import TableSettings


def tree(folder: Path, share: float, method: str = "fedavg", **training: Any) -> dict[str, Any]:
    """A folder of 240 nodes, of which `share` are of class 1 and differ a little."""
    n, stream = 240, np.random.default_rng(0)
    y = (np.arange(n) < share * n).astype(int)
    folder.mkdir(exist_ok=True)
    np.savez(folder / "features.npz", x=stream.normal(size=(n, 4)) + y[:, None])
    np.savez(folder / "labels.npz", y=y)
    np.savez(folder / "edges.npz", edge_index=stream.integers(0, n, (2, 400)))
    split = {"kind": "shares", "train_share": 0.5, "val_share": 0.2}
    return {
        "method": {"name": method},
        "data": {"name": "folder", "folder": str(folder), "split": split},
        "partition": {"name": "random", "num_clients": 3},
        "training": {"rounds": 3, "patience": None, **training},
        "output": {"root": str(folder / "runs")},
    }


@pytest.mark.parametrize("method", ["fedavg", "alone"])
def test_rare_class_chooses_average_precision_and_a_balanced_loss(
    method: str, tmp_path: Path
) -> None:
    result = securefg.run(tree(tmp_path, 0.1, method, alerts=5))
    summary = result.summary
    assert summary.monitor == "val_average_precision"
    assert set(summary.chosen) == {"training.monitor", "training.loss"}
    assert monitored_name(result.config, summary) == "average_precision"
    alerts = summary.alerts.values()
    assert [one.first.alerts for one in alerts if one.first] == [5, 5, 5]
    assert summary.test_scores is not None
    assert sum(one.positives for one in alerts) == summary.test_scores.per_class[1].count
    rows = [str(cell) for column in summary_table(summary).columns for cell in column.cells]
    assert any("always one class 0.1" in cell for cell in rows)
    assert any("5 first: precision" in cell for cell in rows)


def test_run_of_a_config_with_choices_can_be_read_again(tmp_path: Path) -> None:
    """An audit makes its control of the run's config, in which a rule has chosen already."""
    settled = prepare(parse_config(tree(tmp_path, 0.1))).config
    assert settled.training.chosen
    folder = runner.start(settled).folder
    assert folder.config().hash == settled.hash
    assert folder.config().training.monitor == "either"


def test_balanced_classes_change_nothing(tmp_path: Path) -> None:
    config = parse_config(tree(tmp_path, 0.3))
    settled = prepare(config).config.training
    assert (settled.monitor, settled.loss, settled.chosen) == ("either", None, {})


def test_counted_shares_are_named_and_declared_ones_are_not(tmp_path: Path) -> None:
    counted = prepare(parse_config(tree(tmp_path, 0.1)))
    assert any("shares of the classes" in what for what in not_covered(counted))
    declared = prepare(parse_config(tree(tmp_path, 0.1, class_shares=[0.93, 0.07])))
    assert declared.config.training.loss == "balanced"
    assert not any("shares of the classes" in what for what in not_covered(declared))


def test_choices_of_a_rule_leave_the_hash_as_it_is(tmp_path: Path) -> None:
    """A run's folder is named by the hash of the config that was asked for."""
    others: tuple[dict[str, Any], ...] = ({"class_shares": [0.93, 0.07]}, {"monitor": "val_loss"})
    for training in ({}, *others):
        config = parse_config(tree(tmp_path, 0.1, **training))
        settled = prepare(config).config
        assert settled.training.chosen
        assert settled.hash == config.hash
    assert parse_config(tree(tmp_path, 0.1, loss="balanced")).hash != config.hash


def test_own_words_of_the_config_are_kept(tmp_path: Path) -> None:
    own = tree(tmp_path, 0.1, monitor="val_accuracy", loss="plain")
    settled = prepare(parse_config(own)).config.training
    assert (settled.monitor, settled.loss) == ("val_accuracy", "plain")


def test_private_training_never_weighs_by_labels(tmp_path: Path) -> None:
    noise = {
        "dp_sgd": {"clip_l2": 1.0, "noise_multiplier": 1.0, "sampling": 0.2, "num_samples": 20}
    }
    config_tree = tree(tmp_path, 0.1, weight_decay=0, **noise)
    config_tree["method"] = {"name": "fedavg", "network": "MLP"}
    config_tree["method"]["arguments"] = {"hidden_channels": 4, "num_layers": 2}
    assert TrainingSettings.model_validate(config_tree["training"]).dp_sgd is not None
    assert prepare(parse_config(config_tree)).config.training.loss is None
    config_tree["training"]["loss"] = "balanced"
    with pytest.raises(ConfigError, match=r"training\.loss: found balanced; expected plain"):
        prepare(parse_config(config_tree))


def test_method_that_cannot_weigh_refuses_a_balanced_loss(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected plain with method"):
        prepare(parse_config(tree(tmp_path, 0.1, "fedgl", loss="balanced")))


def test_score_that_nodes_do_not_have_falls_back_to_accuracy(tmp_path: Path) -> None:
    config_tree = tree(tmp_path, 0.1, "alone")
    split = ["node,split", *(f"{n},{'train' if n % 2 else 'test'}" for n in range(120))]
    split += [f"{n},val" for n in range(120, 240)]  # class 0 alone
    (tmp_path / "split.csv").write_text("\n".join(split))
    config_tree["data"]["split"] = {"kind": "public"}
    assert securefg.run(config_tree).summary.monitor == "val_accuracy"


def test_class_weights_count_every_class_alike() -> None:
    classes = torch.tensor([0] * 90 + [1] * 10)
    weights = class_weights(classes, 3, TrainingSettings(loss="balanced"))
    assert weights is not None
    assert weights.tolist() == pytest.approx([1 / 0.9 / 2, 1 / 0.1 / 2, 0.0])
    assert weights[classes].mean() == pytest.approx(1.0)
    given = TrainingSettings(loss="balanced", class_shares=(0.8, 0.1, 0.1))
    assert class_weights(classes, 3, given) is not None
    assert class_weights(classes, 3, TrainingSettings()) is None


def test_expected_hits_of_ties_are_their_share() -> None:
    truth = torch.tensor([True, False, False, False])
    assert expected_hits(torch.zeros(4), truth).tolist() == [0.25, 0.5, 0.75, 1.0]
    assert expected_hits(torch.tensor([3.0, 2, 1, 0]), truth).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_best_threshold_is_the_best_of_all(seed: int) -> None:
    stream = torch.Generator().manual_seed(seed)
    margins = torch.randint(0, 6, (30,), generator=stream).double()
    truth = torch.rand(30, generator=stream) < 0.3

    def f1(threshold: float) -> float:
        above = margins > threshold
        return 2 * int((above & truth).sum()) / max(1, int(above.sum()) + int(truth.sum()))

    tried = [f1(value - 0.5) for value in range(7)]
    assert f1(best_threshold(margins, truth)) == pytest.approx(max(tried))


def test_count_alerts_without_two_classes_or_tests_is_none() -> None:
    all_true, none = torch.ones(6, dtype=torch.bool), torch.zeros(6, dtype=torch.bool)
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    assert count_alerts(torch.randn(6, 3), labels, Split(none, none, all_true)) is None
    assert count_alerts(torch.randn(6, 2), labels, Split(none, none, none)) is None
    found = count_alerts(torch.randn(6, 2), labels, Split(none, none, all_true))
    assert isinstance(found, AlertCounts)
    assert found.at(100).recall == 1.0


def test_share_precision_of_few_nodes_is_not_told() -> None:
    assert share_precision(0.6349, 9, 1000) is None
    assert share_precision(0.6349, 1000, 9) is None
    assert share_precision(0.6349, 10, 10) == 0.6
    assert share_precision(0.6349, 1000, 10) == 0.63


@pytest.mark.parametrize("positives", [10, 19, 20, 45, 60, 99, 100, 400])
def test_share_precision_steps_hide_one_node_of_a_crafted_model(positives: int) -> None:
    """The model ranks one node first and says the same of all others."""
    margins, truth = torch.zeros(10 * positives + 1), torch.zeros(10 * positives + 1)
    margins[-1], truth[:positives] = 1.0, 1.0
    split = Split(*[torch.ones(len(truth), dtype=torch.bool)] * 3)
    precision_pair = []
    for label in (0.0, 1.0):
        truth[-1] = label
        logits = torch.stack([-margins, margins], 1)
        ranks = score_locally(0, logits, truth.long(), split).test_ranks
        assert ranks is not None
        precision_pair.append(share_precision(ranks[1], positives + int(label), 9 * positives))
    step = next(step for step in STEPS if step * positives >= 1 - 1e-9)
    assert None not in precision_pair
    assert precision_pair[1] - precision_pair[0] <= step + 1e-9  # type: ignore[operator]


def test_rare_one_of_two_classes_comes_last() -> None:
    labels = ["fraud"] * 5 + ["ok"] * 95
    assert class_names(labels, TableSettings()) == ("ok", "fraud")
    assert class_names(labels[:9], TableSettings()) == ("fraud", "ok")
