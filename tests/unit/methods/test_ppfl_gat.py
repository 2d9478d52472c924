"""Federated GAT: no label outside the training nodes reaches a model; runs repeat themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from securefg.federation.roles import Site
from securefg.foundation.errors import ConfigError, MaskingRefused
from securefg.methods.ppfl.exchange import Aligned, Rows
from securefg.methods.ppfl_gat.algorithm import Client
from securefg.protocol.codec import Clients, Turn
from securefg.runs import runner
from securefg.settings.config import RunConfig, parse_config
from tests.small import tree

REFERENCE = "method={name: ppfl_gat, alignment: reference, start: shared}"


def config(root: Path, *overrides: str) -> RunConfig:
    whole = tree(root, "ppfl_gat")
    whole["partition"] = {"name": "public_private", "num_clients": 3}
    whole["training"] = {"rounds": 3, "local_epochs": 3, "lr": 0.01, "patience": None}
    return parse_config(whole, overrides)


def uploads(parsed: RunConfig, lie: bool) -> torch.Tensor:
    """What a client uploads after a round; with a lie, all labels that do not train are wrong."""
    shard = runner.prepare(parsed).shards[0]
    graph = shard.graph
    wrong = torch.where(graph.split.train, graph.labels, 1 - graph.labels)
    shard = replace(shard, graph=replace(graph, labels=wrong)) if lie else shard
    client = Client(Site((shard,), parsed.method, parsed.training, 7, torch.device("cpu")))
    request = Aligned(number=1, upload=True, rows=None, known=None)
    reply = client.handle(request, Turn(1, 1, Clients.of([0])))
    assert isinstance(reply, Rows)
    return reply.rows


def test_labels_that_do_not_train_change_nothing_that_is_uploaded(tmp_path: Path) -> None:
    parsed = config(tmp_path)
    assert torch.equal(uploads(parsed, lie=False), uploads(parsed, lie=True))


def test_training_labels_do_change_it(tmp_path: Path) -> None:
    noisy = config(tmp_path, "data.label_noise=0.5")
    assert not torch.equal(uploads(config(tmp_path), lie=False), uploads(noisy, lie=False))


def test_what_comes_back_pulls_the_rows(tmp_path: Path) -> None:
    parsed = config(tmp_path, "training.local_epochs=40", "method.dropout=0")
    shard = runner.prepare(parsed).shards[0]
    after = []
    for known in (True, False):
        client = Client(Site((shard,), parsed.method, parsed.training, 7, torch.device("cpu")))
        assert shard.public is not None
        stream = torch.Generator().manual_seed(0)
        towards = torch.randn(1, len(shard.public), 16, generator=stream)
        request = Aligned(number=2, upload=True, rows=towards, known=torch.tensor([known]))
        reply = client.handle(request, Turn(2, 1, Clients.of([0])))
        assert isinstance(reply, Rows)
        after.append(torch.cosine_similarity(reply.rows[0], towards[0]).mean())
    assert after[0] > after[1] + 0.1


def test_a_run_is_scored_on_test_nodes_and_can_be_taken_up_again(tmp_path: Path) -> None:
    class Stop(runner.Silent):
        def stop_requested(self) -> bool:
            return True

    whole = runner.start(config(tmp_path / "whole", REFERENCE)).folder
    broken = runner.start(config(tmp_path / "broken", REFERENCE), Stop())
    resumed = runner.resume(broken.folder).folder
    scores = whole.summary().local_scores
    assert all(set(own) == {"mlp_f1", "svc_f1"} for own in scores.values())
    assert resumed.summary().local_scores == scores
    assert [m["val_loss"] for m in resumed.metrics()] == [m["val_loss"] for m in whole.metrics()]


def test_masks_change_nothing_but_the_last_digits(tmp_path: Path) -> None:
    masks = "privacy={secure_aggregation: {malicious: false, ring_bits: 64}}"
    runs = [runner.start(config(tmp_path, REFERENCE, *more)).folder for more in ((), (masks,))]
    losses = [[line["val_loss"] for line in run.metrics()] for run in runs]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    with pytest.raises(MaskingRefused):
        runner.start(config(tmp_path, masks))


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("method.heads=3", "divisors of hidden"),
        ("method.alignment=reference", "allowed: start: shared"),
    ],
)
def test_what_cannot_work_is_refused(override: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=reason):
        config(tmp_path, override)
