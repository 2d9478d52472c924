"""FedGL and FedAvg on samples of neighbourhoods: same result on every engine, resumed or not."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

from securefg.foundation.errors import ConfigError, InputError
from securefg.runs import runner
from tests.small import config

SAMPLED = ("method.sampling.above=0", "method.sampling.batch_size=5")
NAMES = ("fedgl", "fedavg")


class StopAfterOne(runner.Silent):
    def stop_requested(self) -> bool:
        return True


def model(root: Path, method: str, *overrides: str) -> torch.Tensor:
    run = runner.start(config(root, f"method.name={method}", *overrides))
    return safetensors.torch.load_file(run.folder.path / "model.safetensors")["weights"]


def test_the_engine_makes_no_difference(tmp_path: Path) -> None:
    one = model(tmp_path / "one", "fedavg", *SAMPLED)
    other = model(tmp_path / "other", "fedavg", *SAMPLED, "engine.name=processes")
    assert torch.equal(one, other)


def test_neither_does_an_interruption_with_neighbours_found_nearly(tmp_path: Path) -> None:
    nearly = "method.exact_nodes=1"
    whole = runner.start(config(tmp_path / "whole", *SAMPLED, nearly)).folder
    broken = runner.start(config(tmp_path / "broken", *SAMPLED, nearly), StopAfterOne())
    assert broken.summary is None
    resumed = runner.resume(broken.folder).folder
    models = [run.path / "model.safetensors" for run in (whole, resumed)]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert whole.summary().method_facts == resumed.summary().method_facts


@pytest.mark.parametrize("method", NAMES)
def test_clients_up_to_the_size_train_on_their_whole_graph(method: str, tmp_path: Path) -> None:
    """The largest of the three clients has 84 of the 120 nodes."""
    sampled = "method.sampling.fan_out=[2, 2]"
    whole = model(tmp_path / "whole", method)
    assert torch.equal(whole, model(tmp_path / "up", method, sampled, "method.sampling.above=84"))
    above = model(tmp_path / "above", method, sampled, "method.sampling.above=83")
    assert not torch.equal(whole, above)


def test_whole_neighbourhoods_in_one_batch_train_what_the_whole_graph_trains(
    tmp_path: Path,
) -> None:
    sage = ("method.network=GraphSAGE",)
    everything = ("method.sampling={above: 0, batch_size: 120, fan_out: [120, 120]}",)
    whole = model(tmp_path / "whole", "fedavg", *sage)
    assert torch.allclose(whole, model(tmp_path / "all", "fedavg", *sage, *everything), atol=1e-5)


def test_a_fan_out_of_another_depth_than_the_networks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two numbers"):
        config(tmp_path, "method.sampling.fan_out=[5]")
    three = ("method.name=fedavg", "method.arguments={num_layers: 3}", *SAMPLED)
    with pytest.raises(InputError, match="GCN has 3 layers"):
        runner.start(config(tmp_path, *three))
