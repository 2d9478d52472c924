"""The baselines: clients spread at will, masks and noise where something is sent, best kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from securefg.data.graph import Split
from securefg.federation.roles import Host, Site
from securefg.foundation.errors import ConfigError
from securefg.methods.alone.algorithm import METHOD as ALONE
from securefg.methods.alone.algorithm import Go
from securefg.methods.fedmlp.algorithm import METHOD as FEDMLP
from securefg.methods.fedmlp.algorithm import Globals
from securefg.methods.mlps.algorithm import METHOD as MLPS
from securefg.models.network import num_parameters
from securefg.protocol.codec import Clients, Turn
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig, parse_config
from tests.small import config

SC = {"task": "sc", "num_nodes": 12, "num_features": 10, "mu": 2, "samples_per_node": 30}


def samples(root: Path, method: str, *overrides: str) -> RunConfig:
    """Clients with 30 samples each, of which 3 train."""
    tree = {
        "method": {"name": method},
        "data": {"name": "csbm", "csbm": {**SC, "train_share": 0.2, "val_share": 0.2}},
        "partition": {"name": "one_node"},
        "training": {"rounds": 3, "local_epochs": 4, "lr": 0.2, "patience": None},
        "output": {"root": str(root), "transcript_every": 1},
    }
    return parse_config(tree, overrides)


def finished(parsed: RunConfig) -> RunFolder:
    return runner.start(parsed).folder


def losses(run: RunFolder) -> list[tuple[float, float]]:
    return [(line["train_loss"], line["val_loss"]) for line in run.metrics()]


def weights(run: RunFolder) -> torch.Tensor:
    return safetensors.torch.load_file(run.path / "model.safetensors")["weights"]


def host(parsed: RunConfig, make: Any) -> Host:
    shards, cpu = prepare(parsed).shards, torch.device("cpu")
    made: Host = make(Site(shards, parsed.method, parsed.training, 0, cpu))
    return made


@pytest.mark.parametrize("method", ["fedmlp", "mlps"])
def test_the_layout_of_the_hosts_changes_nothing(method: str, tmp_path: Path) -> None:
    runs = [
        finished(
            samples(tmp_path / str(n), method, f"engine.hosts={n}", "training.monitor=val_loss")
        )
        for n in (1, 5)
    ]
    assert [round_[1] for round_ in losses(runs[0])] == pytest.approx(
        [round_[1] for round_ in losses(runs[1])], rel=1e-12
    )
    if method == "fedmlp":
        assert torch.equal(weights(runs[0]), weights(runs[1]))


@pytest.mark.parametrize("method", ["fedmlp", "mlps"])
def test_an_interrupted_run_comes_to_the_same_losses(method: str, tmp_path: Path) -> None:
    class StopAfterOne(runner.Silent):
        def stop_requested(self) -> bool:
            return True

    whole = finished(samples(tmp_path / "whole", method))
    broken = runner.start(samples(tmp_path / "broken", method), StopAfterOne())
    assert broken.summary is None
    assert losses(runner.resume(broken.folder).folder) == losses(whole)


@pytest.mark.parametrize("upload", ["model", "update"])
def test_masked_perceptrons_are_the_plain_ones_within_the_grid(upload: str, tmp_path: Path) -> None:
    sent = f"method.upload={upload}"
    plain = weights(finished(samples(tmp_path / "plain", "fedmlp", sent)))
    masks = "privacy.secure_aggregation={}"
    masked = weights(finished(samples(tmp_path / "masked", "fedmlp", sent, masks)))
    assert 0 < (plain - masked).abs().max() < 1e-4
    assert plain.abs().max() > 0.1


def test_the_change_of_a_model_is_the_model(tmp_path: Path) -> None:
    model_weights, other = (
        weights(finished(samples(tmp_path / sent, "fedmlp", f"method.upload={sent}")))
        for sent in ("model", "update")
    )
    assert torch.allclose(model_weights, other, atol=1e-6)


def test_noise_on_fedmlps_models_has_a_finite_epsilon(tmp_path: Path) -> None:
    privacy = "privacy={mechanism: local_gaussian, target_epsilon: 8}"
    run = finished(samples(tmp_path, "fedmlp", "method.upload=update", privacy))
    assert run.summary().epsilon["client"].epsilon == pytest.approx(8, rel=1e-2)


def test_perceptrons_of_ones_own_send_nothing_private(tmp_path: Path) -> None:
    run = finished(samples(tmp_path, "mlps"))
    assert run.ledger_path.read_text() == ""
    assert run.summary().bytes.up.payload == 0


def test_a_client_keeps_the_weights_with_its_lowest_validation_loss(tmp_path: Path) -> None:
    parsed = samples(tmp_path, "mlps", "training.monitor=val_loss", "training.lr=3.0")
    users, clients = host(parsed, MLPS.make_host), Clients.of(range(12))
    seen = []
    for number in range(1, 7):
        users.handle(Go(number=number), Turn(number, 1, clients))
        users_now = users._score_users(users._weights)  # type: ignore[attr-defined]
        seen.append([score.val_loss for score in users_now])
    kept = [score.val_loss for score in users.measure(Go(number=6))]
    assert kept == [min(column) for column in zip(*seen, strict=True)]
    assert kept != seen[-1]


def test_alone_keeps_what_is_monitored(tmp_path: Path) -> None:
    rough = ("method={name: alone, dropout: 0.9}", "training.lr=0.3", "centralised=true")
    for monitor in ("val_loss", "val_accuracy", "val_average_precision"):
        parsed = config(tmp_path, *rough, f"training.monitor={monitor}")
        party, one = host(parsed, ALONE.make_host), Clients.of([0])
        seen = []
        for number in range(1, 9):
            party.handle(Go(number=number), Turn(number, 1, one))
            now = party._score_weights(party._trainer.vector())  # type: ignore[attr-defined]
            seen.append(now.reached(monitor))
        (kept,) = party.measure(Go(number=8))
        assert kept.reached(monitor) == max(seen) > min(seen)


def test_average_precision_can_be_monitored_alone(tmp_path: Path) -> None:
    asked = ("method={name: alone}", "training.monitor=val_average_precision", "training.rounds=1")
    found = finished(config(tmp_path, *asked)).summary().val_scores
    assert found is not None
    assert 0 < (found.average_precision or 0) <= 1


@pytest.mark.parametrize("method", ["fedmlp", "mlps"])
def test_clients_without_a_label_train_nothing_and_stop_nothing(
    method: str, tmp_path: Path
) -> None:
    parsed = samples(tmp_path, method, "training.rounds=1")
    experiment = prepare(parsed)
    held = []
    for shard in experiment.shards:
        graph, split = shard.graph, shard.graph.split
        if shard.client % 2:  # nobody knows this one's class
            nobody = torch.zeros_like(split.train)
            graph = replace(
                graph,
                labels=torch.full_like(graph.labels, -1),
                split=Split(nobody, nobody, nobody),
            )
        held.append(replace(shard, graph=graph))
    make = FEDMLP.make_host if method == "fedmlp" else MLPS.make_host
    users = make(Site(tuple(held), parsed.method, parsed.training, 0, torch.device("cpu")))
    turn = Turn(1, 1, Clients.of(range(12)))
    if method == "mlps":
        users.handle(Go(number=1), turn)
        return
    start = torch.zeros(num_parameters(users._shapes)) + 0.1
    moved = users.handle(Globals(weights=start), turn).weights - start
    assert [bool(row.abs().sum() > 0) for row in moved] == [k % 2 == 0 for k in range(12)]


def test_graph_networks_refuse_several_samples_per_node(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one sample per node, found 30; allowed for several"):
        host(samples(tmp_path, "alone", "centralised=true"), ALONE.make_host)


def test_heads_that_do_not_share_the_units_alike_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hidden is 20; allowed: a multiple of heads, 8"):
        config(tmp_path, "method={name: alone, network: gat, hidden: 20}")


@pytest.mark.parametrize("method", ["fedmlp", "mlps"])
def test_perceptrons_want_one_node_per_client(method: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one client per node"):
        finished(samples(tmp_path, method, "partition={name: shares, shares: [0.5, 0.5]}"))


@pytest.mark.parametrize("coordinates", [0, 8])
def test_known_labels_are_spread_and_nobody_is_asked(coordinates: int, tmp_path: Path) -> None:
    graph = {"num_nodes": 200, "degree": 10, "graph_signal": 3, "mu": 0, "train_share": 0.2}
    run = finished(
        samples(
            tmp_path,
            "label_propagation",
            f"data.csbm={ {'task': 'dnc', **graph} }",
            f"method.coordinates={coordinates}",
            "training.rounds=1",
        )
    )
    assert run.ledger_path.read_text() == ""
    assert run.summary().bytes.up.total == run.summary().bytes.down.total == 0
    assert run.summary().test_accuracy > 0.8  # features tell nothing here, links do
