"""Methods whose server is entitled to parts of the graph: it has them from a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

from securefg.foundation.errors import ConfigError, DataError
from securefg.runs import runner
from securefg.runs.assembly import Setup, prepare, with_truth
from securefg.settings.config import RunConfig
from securefg.site.job import Job, Sizes
from securefg.site.policy import JobRefused, SitePolicy
from tests.small import config
from tests.unit.flare.federation_world import World

SMALL = "data.csbm={task: dnc, num_nodes: 24, degree: 6, graph_signal: 2, mu: 2, num_features: 8}"
ONE_NODE = ("partition={name: one_node}", "engine.hosts=4", "training.rounds=2")
MORE = (SMALL, *ONE_NODE, "training.final_model=last", "training.local_epochs=1")
METHODS = ("nfedgnn", "gfl_appnp")


def settings(folder: Path, method: str) -> RunConfig:
    return config(folder, *MORE, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_a_deployed_coordinator_gives_the_weights_of_one_process(
    tmp_path: Path, method: str
) -> None:
    here = runner.start(settings(tmp_path / "here", method)).folder
    world = World(tmp_path / "apart", settings(tmp_path, method))
    apart = world.run(world.job(has_truth=False))
    models = [(run.path / "model.safetensors").read_bytes() for run in (here, apart)]
    assert models[0] == models[1]
    held = safetensors.torch.load(world.entitled.read_bytes())
    assert (
        set(held)
        == {
            "nfedgnn": {"edge_index", "known_labels"},
            "gfl_appnp": {"edge_index", "trainers"},
        }[method]
    )
    for site in world.assignment:
        assert not list(world.kits.site(site).rglob(world.entitled.name))


def test_deployed_server_setup_holds_no_graph_of_its_own(tmp_path: Path) -> None:
    world = World(tmp_path, settings(tmp_path, "gfl_appnp"))
    setup = world.start(world.job(has_truth=False))._deployed_setup()
    assert type(setup) is Setup
    assert with_truth(setup) is None
    assert with_truth(world.experiment) is world.experiment


def test_a_coordinators_file_must_fit_the_plan(tmp_path: Path) -> None:
    world = World(tmp_path, settings(tmp_path, "gfl_appnp"))
    good = safetensors.torch.load(world.entitled.read_bytes())
    job = world.job(has_truth=False)
    for bad, why in (
        ({**good, "edge_index": good["edge_index"] + 24}, "edge_index has numbers outside of 0"),
        ({**good, "edge_index": good["edge_index"].float()}, "wanted int64"),
        ({**good, "trainers": good["trainers"][1:]}, "trainers is .* wanted int64"),
        ({**good, "features": torch.zeros(24, 8)}, "wanted edge_index, trainers"),
        ({"edge_index": good["edge_index"]}, "wanted edge_index, trainers"),
    ):
        world.entitled.write_bytes(safetensors.torch.save(bad))
        with pytest.raises(DataError, match=why):
            world.run(job)
    world.entitled.unlink()
    with pytest.raises(ConfigError, match="gfl_appnp wants a coordinator that has edge_index"):
        world.run(job)
    assert all(world.left(site) == [] for site in world.assignment)


@pytest.mark.parametrize("method", METHODS)
def test_a_sites_floor_says_what_a_coordinator_may_have(tmp_path: Path, method: str) -> None:
    experiment = prepare(settings(tmp_path, method))
    parsed = experiment.config
    job = Job("run", 1, "server", parsed.model_dump(mode="json"), Sizes.of(experiment.public), {})
    open_wide = SitePolicy.everything_goes()
    open_wide.check(parsed, job.policy(), job.planned(), {})
    strict = open_wide.model_copy(update={"server_knows": ("trainers",)})
    with pytest.raises(
        JobRefused, match=rf"the server of {method} has graph.* allowed here: train"
    ):
        strict.check(parsed, job.policy(), job.planned(), {})
    assert SitePolicy().server_knows == ()


def test_edges_that_would_open_single_uploads_are_refused_by_the_coordinator(
    tmp_path: Path,
) -> None:
    """Sites settle the rules without the edges; the one who has them looks at them."""
    masked = "privacy={secure_aggregation: {malicious: false, min_holders: 1}}"
    sums = "method={name: gfl_appnp, sums: recipients, jacobian: none}"
    world = World(tmp_path, config(tmp_path, *MORE, sums, masked, "data.csbm.num_nodes=60"))
    job = world.job(has_truth=False)
    held = safetensors.torch.load(world.entitled.read_bytes())
    held["edge_index"] = torch.tensor([[0, 1], [1, 0]])
    world.entitled.write_bytes(safetensors.torch.save(held))
    with pytest.raises(ConfigError, match="contributors and would show them"):
        world.run(job)
    assert all(world.left(site) == [] for site in world.assignment)
