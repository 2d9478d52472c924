"""FedAvg of any network: the weights of a plain loop, under masks, by FedProx and by DP-SGD."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from securefg.engines.hosting import noise_source
from securefg.federation.roles import Site
from securefg.foundation.errors import ConfigError
from securefg.methods.fedavg.algorithm import METHOD, Client, Globals, Update
from securefg.models import any_network
from securefg.privacy.accountants import Step, tightest
from securefg.privacy.ledger import read_ledger
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Size, Weights
from securefg.runs import runner
from securefg.runs.assembly import Experiment, prepare
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig
from tests.small import config

OWN = "tests.unit.methods.test_fedavg."
SAGE = "method={name: fedavg, network: GraphSAGE, arguments: {hidden_channels: 6, num_layers: 2}}"
MLP = "method={name: fedavg, network: MLP, arguments: {hidden_channels: 6}}"
MASKED = "privacy.secure_aggregation={}"
SAMPLES = 12
DP_SGD = f"{{noise_multiplier: 2, sampling: 0.5, num_samples: {SAMPLES}}}"


class Two(nn.Module):
    """A network of one's own: two convolutions and a linear map of the node's own row."""

    def __init__(self, num_features: int, num_classes: int, hidden: int = 4) -> None:
        from torch_geometric.nn import SAGEConv  # seconds, which collection need not take

        super().__init__()
        self.first = SAGEConv(num_features, hidden)
        self.second = SAGEConv(hidden, num_classes)
        self.own = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x, edge_index))
        return self.own(x) + self.second(hidden, edge_index)


class Centred(nn.Module):
    """No edge is read, and yet every row is in every score."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.map = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.map(x - x.mean(0))


class Sly(Centred):
    """Mixes nodes in training alone, within a layer that has weights of its own."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.map(x - x.mean(0) * self.scale if self.training else x)


class Tied(nn.Module):
    """Rows alone, and one layer is used twice."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.inner = nn.Linear(num_features, num_features)
        self.outer = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.outer(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


class Flipped(Tied):
    """Every score is of its own row, and the last layer sees the rows in another order."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        found: Tensor = self.outer(torch.tanh(self.inner(x)).flip(0)).flip(0)
        return found


class Edgeless(Centred):
    """Mixes nodes only where there is no edge, as in private training."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        found: Tensor = self.map(x if edge_index.numel() else x - x.mean(0))
        return found


class Crowded(Centred):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        found: Tensor = self.map(x if len(x) <= 8 else x - x.mean(0))
        return found


class Counting(Centred):
    """No NaN comes through a comparison."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        found: Tensor = self.map(x + (x > 0).float().mean(0))
        return found


class Lifted(Centred):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        found: Tensor = self.map(x[None])[0]
        return found


class Outside(Centred):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return nn.functional.linear(x, self.map.weight)


class Frozen(Tied):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.inner.requires_grad_(False)


def fedavg(root: Path, *overrides: str, method: str = SAGE) -> RunConfig:
    return config(root, method, "training.rounds=2", "training.local_epochs=3", *overrides)


def finished(parsed: RunConfig) -> RunFolder:
    return runner.start(parsed).folder


def last_model(run: RunFolder) -> Tensor:
    """The server's model after the last round, which need not be the one that was kept."""
    path = max(run.path.glob("checkpoints/round-*/server.safetensors"))
    return safetensors.torch.load_file(path)["weights"]


def initial(experiment: Experiment) -> tuple[nn.Module, Tensor]:
    settings, public = experiment.config.method, experiment.public
    sizes = (public.num_features, public.num_classes)
    module = any_network.build_network(settings.network, settings.arguments, *sizes, public.seed)
    return module, any_network.vector_of(module)


def host(parsed: RunConfig, *, trained: bool) -> Client:
    """The first client; without training nodes where it is not `trained`."""
    shard = prepare(parsed).shards[0]
    split = shard.graph.split
    if not trained:
        split = replace(split, train=torch.zeros_like(split.train))
    own = replace(shard, graph=replace(shard.graph, split=split))
    return Client(Site((own,), parsed.method, parsed.training, 0, torch.device("cpu")))


def plain_loop(parsed: RunConfig) -> Tensor:
    """McMahan et al.'s loop over the clients, and Li et al.'s proximal term, by hand."""
    experiment = prepare(parsed)
    module, mean = initial(experiment)
    training, method = parsed.training, parsed.method
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[method.optimizer]
    for _ in range(training.rounds):
        trained, counts = [], []
        for shard in experiment.shards:
            graph, start = shard.graph, mean.clone()
            vector_to_parameters(mean.clone(), module.parameters())
            steps = kind(module.parameters(), training.lr, weight_decay=training.weight_decay)
            for _ in range(training.local_epochs):
                steps.zero_grad()
                logits = module(graph.features, graph.edge_index)[graph.split.train]
                loss = cross_entropy(logits, graph.labels[graph.split.train])
                apart = parameters_to_vector(module.parameters()) - start
                (loss + method.proximal / 2 * apart.square().sum()).backward()
                steps.step()
            trained.append(parameters_to_vector(module.parameters()).detach().double())
            counts.append(float(graph.num_nodes) if method.weighting == "nodes" else 1.0)
        shares = torch.tensor(counts, dtype=torch.float64) / sum(counts)
        mean = (shares @ torch.stack(trained)).float()
    return mean


# ----------------------------------------------------------------------------- a plain loop


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("method.upload=model",),
        ("method.weighting=nodes",),
        ("method.weighting=nodes", "method.upload=model"),
        ("method.optimizer=sgd", "training.lr=0.3"),
        ("method.proximal=0.7",),
        ("method.network=GAT", "method.arguments={heads: 2, hidden_channels: 4}"),
        ("method.network=GIN",),
        ("method.network=MLP",),
        (f"method.network={OWN}Two", "method.arguments={hidden: 3}"),
    ],
    ids=lambda overrides: " ".join(overrides) or "default",
)
def test_the_weights_are_a_plain_loops(overrides: tuple[str, ...], tmp_path: Path) -> None:
    parsed = fedavg(tmp_path, *overrides)
    found, wanted = last_model(finished(parsed)), plain_loop(parsed)
    _, start = initial(prepare(parsed))
    assert (found - wanted).abs().max() < 1e-5
    assert (found - start).abs().max() > 0.01


def test_proximity_keeps_models_nearer_to_where_they_started(tmp_path: Path) -> None:
    moved = []
    for mu in (0.0, 1.0, 10.0):
        parsed = fedavg(
            tmp_path / str(mu),
            f"method.proximal={mu}",
            "training.rounds=1",
            "output.checkpoint_every=1",
            "method.optimizer=sgd",
            "training.lr=0.1",
            "training.local_epochs=10",
        )
        _, start = initial(prepare(parsed))
        moved.append(float((last_model(finished(parsed)) - start).norm()))
    assert moved[0] > 1.1 * moved[1] > 1.5 * moved[2] > 0


def test_training_learns(tmp_path: Path) -> None:
    run = finished(fedavg(tmp_path, "training.rounds=8", "training.lr=0.05"))
    lines = run.metrics()
    assert lines[-1]["train_loss"] < 0.7 * lines[0]["train_loss"]
    assert lines[-1]["test_accuracy"] > 0.7


def test_dropout_is_drawn_from_the_runs_seed_alone(tmp_path: Path) -> None:
    models = {}
    for name, overrides in {
        "one": ("seed=3",),
        "again": ("seed=3",),
        "apart": ("seed=3", "engine.name=processes"),
        "none": ("seed=3", "method.arguments.dropout=0.0"),
    }.items():
        torch.manual_seed(len(models))
        drop = ("method.arguments.dropout=0.5",)
        models[name] = last_model(finished(fedavg(tmp_path / name, *drop, *overrides)))
    assert torch.equal(models["one"], models["again"])
    assert torch.equal(models["one"], models["apart"])
    assert not torch.equal(models["one"], models["none"])


def test_an_interrupted_run_comes_to_the_same_weights(tmp_path: Path) -> None:
    class StopAfterOne(runner.Silent):
        def stop_requested(self) -> bool:
            return True

    drop = "method.arguments.dropout=0.5"
    whole = finished(fedavg(tmp_path / "whole", drop))
    broken = runner.start(fedavg(tmp_path / "broken", drop), StopAfterOne())
    assert broken.summary is None
    assert torch.equal(last_model(runner.resume(broken.folder).folder), last_model(whole))


def test_a_client_without_training_nodes_sends_what_it_was_sent(tmp_path: Path) -> None:
    parsed = fedavg(tmp_path)
    experiment = prepare(parsed)
    _, start = initial(experiment)
    client = host(parsed, trained=False)
    found = client.handle(Globals(weights=start), Turn(1, 1, Clients.of([0])))
    assert isinstance(found, Update)
    assert torch.equal(found.weights, torch.zeros_like(start)[None])


# ------------------------------------------------------------------------- what is uploaded


def test_sizes_are_uploaded_only_where_clients_count_by_them(tmp_path: Path) -> None:
    for weighting, fields in {"equal": {"weights"}, "nodes": {"weights", "num_nodes"}}.items():
        run = finished(fedavg(tmp_path / weighting, f"method.weighting={weighting}"))
        booked = {release.mechanism.field for release in read_ledger(run.ledger_path)}
        assert booked == {f"Update.{name}" for name in fields}
        assert run.summary().epsilon["client"].epsilon is None


@pytest.mark.parametrize("upload", ["model", "update"])
def test_an_upload_means_weights_or_their_change(upload: str, tmp_path: Path) -> None:
    parsed = fedavg(tmp_path, f"method.upload={upload}")
    said = METHOD.meanings(parsed.method)
    assert said["fedavg.Update", "weights"] == Weights("network", change=upload == "update")
    assert said["fedavg.Update", "num_nodes"] == Size()
    assert said["fedavg.Globals", "weights"] == Weights("network", change=False)
    layout = METHOD.networks(parsed.method, prepare(parsed).public, 0)["network"]
    assert layout.size == len(initial(prepare(parsed))[1])


@pytest.mark.parametrize("weighting", ["equal", "nodes"])
def test_masked_sums_are_the_plain_ones_within_the_grid(weighting: str, tmp_path: Path) -> None:
    sent = f"method.weighting={weighting}"
    plain = finished(fedavg(tmp_path / "plain", sent))
    masked = finished(fedavg(tmp_path / "masked", sent, "privacy.secure_aggregation={}"))
    assert 0 < (last_model(plain) - last_model(masked)).abs().max() < 1e-4


def test_noise_on_the_changes_has_a_finite_epsilon(tmp_path: Path) -> None:
    privacy = "privacy={mechanism: local_gaussian, target_epsilon: 8}"
    run = finished(fedavg(tmp_path, privacy))
    assert run.summary().epsilon["client"].epsilon == pytest.approx(8, rel=1e-2)


# ------------------------------------------------------------------------------------ DP-SGD


def private(root: Path, *overrides: str, method: str = MLP, dp_sgd: str = DP_SGD) -> RunConfig:
    fixed = ("training.weight_decay=0", "training.lr=0.5", "privacy.noise_rng=seeded")
    return fedavg(root, *fixed, f"training.dp_sgd={dp_sgd}", *overrides, method=method)


def test_epsilon_per_node_is_the_accountants(tmp_path: Path) -> None:
    run = finished(private(tmp_path))
    claimed = run.summary().epsilon
    assert claimed["row"].epsilon == tightest((Step(2.0, 2 * 3, 0.5),), 1e-5)
    assert claimed["client"].epsilon == tightest((Step(2.0 / SAMPLES, 2 * 3),), 1e-5)
    booked = [release.mechanism for release in read_ledger(run.ledger_path)]
    assert {(m.field, m.rule, m.steps) for m in booked} == {("Update.weights", "dp_sgd", 3)}


@pytest.mark.parametrize("method", [MLP, f"method={{name: fedavg, network: {OWN}Tied}}"])
def test_private_steps_are_clipped_gradients_of_single_nodes_and_noise(
    method: str, tmp_path: Path
) -> None:
    """Abadi et al.'s Algorithm 1, a node after the other, on the same draws."""
    parsed = private(tmp_path, "training.rounds=1", "output.checkpoint_every=1", method=method)
    experiment, asked = prepare(parsed), parsed.training.dp_sgd
    module, start = initial(experiment)
    noise, edges, trained = noise_source(parsed), torch.zeros(2, 0, dtype=torch.long), []
    for shard in experiment.shards:
        here, graph, vector = Clients.of([shard.client]), shard.graph, start.clone()
        train = graph.split.train.nonzero().flatten()
        for step in range(3):
            vector_to_parameters(vector.clone(), module.parameters())
            draws = noise.normal(torch.Size((1, len(train))), here, ("dp_sgd", 1, "sample", step))
            total = noise.normal(start[None].shape, here, ("dp_sgd", 1, "noise", step))[0]
            total = total.double() * asked.noise_multiplier * asked.clip_l2
            for node, draw in zip(train, draws[0], strict=True):
                if draw >= 0:  # the median: half of all draws lie below it
                    continue
                loss = cross_entropy(
                    module(graph.features[node][None], edges), graph.labels[node][None]
                )
                found = torch.autograd.grad(loss, tuple(module.parameters()))
                gradient = torch.cat([part.flatten() for part in found]).double()
                total += gradient * min(1.0, asked.clip_l2 / float(gradient.norm()))
            vector = vector - (parsed.training.lr / (0.5 * SAMPLES) * total).float()
        trained.append(vector)
    wanted = torch.stack(trained).mean(0)
    assert (last_model(finished(parsed)) - wanted).abs().max() < 1e-5
    assert (wanted - start).abs().max() > 0.1


def test_masked_census_of_all_clients_opens_where_rounds_ask_a_part(tmp_path: Path) -> None:
    part = ("partition={name: louvain, num_clients: 5}", "training.participation=0.8")
    run = finished(fedavg(tmp_path, "method.weighting=nodes", MASKED, *part, "training.rounds=2"))
    released = [r for r in read_ledger(run.ledger_path) if "Census" in r.mechanism.field]
    assert Clients.joined(release.clients for release in released) == Clients.of(range(5))


def test_masks_leave_the_epsilon_per_node(tmp_path: Path) -> None:
    masks = "privacy.secure_aggregation={}"
    plain, masked = (finished(private(tmp_path / m, *o)) for m, o in (("a", ()), ("b", (masks,))))
    assert masked.summary().epsilon == plain.summary().epsilon
    assert 0 < (last_model(plain) - last_model(masked)).abs().max() < 1e-4


def test_only_noise_of_the_systems_is_called_private(tmp_path: Path) -> None:
    for source in ("seeded", "system"):
        run = finished(private(tmp_path / source, f"privacy.noise_rng={source}"))
        assert run.summary().epsilon["row"].private == (source == "system")


@pytest.mark.parametrize(
    "network", ["GCN", "GraphSAGE", "GAT", "GIN", f"{OWN}Two", f"{OWN}Centred"]
)
def test_networks_that_mix_nodes_are_refused(network: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"private training is refused: .*shared neighbours"):
        prepare(private(tmp_path, method=f"method={{name: fedavg, network: {network}}}"))


@pytest.mark.parametrize(
    "network", ["Flipped", "Edgeless", "Crowded", "Counting", "Lifted", "Outside"]
)
def test_networks_whose_rows_are_not_single_samples_are_refused(
    network: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"fedavg: DP-SGD is refused: .*the sample alone"):
        prepare(private(tmp_path, method=f"method={{name: fedavg, network: {OWN}{network}}}"))


def test_frozen_weights_get_no_noise(tmp_path: Path) -> None:
    parsed = private(tmp_path, method=f"method={{name: fedavg, network: {OWN}Frozen}}")
    module, start = initial(prepare(parsed))
    frozen = sum(p.numel() for p in module.parameters() if not p.requires_grad)
    moved = last_model(finished(parsed)) - start
    assert moved[:frozen].abs().max() < 1e-6
    assert moved[frozen:].abs().min() > 0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.weight_decay=0.1", "training.weight_decay is 0.1; allowed with training.dp_sgd"),
        ("method.proximal=0.1", "method.proximal is 0.1; allowed with training.dp_sgd: 0"),
        ("privacy={mechanism: local_gaussian, noise_multiplier: 1}", "noise from training.dp_sgd"),
        ("privacy.field_rules={Update.weights: {mechanism: plain}}", "noise from training.dp_sgd"),
    ],
)
def test_settings_that_would_void_the_claim_are_refused(
    override: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(private(tmp_path, override))


def test_more_training_nodes_than_are_counted_are_refused(tmp_path: Path) -> None:
    small = DP_SGD.replace(f"num_samples: {SAMPLES}", "num_samples: 2")
    with pytest.raises(ConfigError, match="num_samples is 2, and a client has more"):
        finished(private(tmp_path, dp_sgd=small))


def test_several_samples_per_node_are_refused(tmp_path: Path) -> None:
    several = "data.csbm={task: sc, num_nodes: 16, num_features: 10, samples_per_node: 30}"
    with pytest.raises(ConfigError, match="one sample per node, found 30; allowed for several"):
        finished(fedavg(tmp_path, several))


@pytest.mark.parametrize("network", ["Nothing", "no_package.Net", f"{OWN}Missing"])
def test_an_unknown_network_is_refused_before_anything_runs(network: str, tmp_path: Path) -> None:
    said = rf"method.network: found '?{network}\b.*; expected .*GCN, .*MLP.*, or a module path"
    with pytest.raises(ConfigError, match=said):
        prepare(fedavg(tmp_path, f"method.network={network}"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "overrides",
    [
        ("method.weighting=nodes",),
        ("method={name: fedgl, pseudo_labels: false, pseudo_graph: false}",),
    ],
    ids=["fedavg", "fedgl"],
)
def test_sizes_times_one_step_of_adam_are_refused_under_masks(
    overrides: tuple[str, ...], tmp_path: Path
) -> None:
    """Each weight moves by the learning rate: sums of sizes with signs show every client's sign."""
    one_step = (*overrides, "training.local_epochs=1")
    words = "found nodes; expected clients under masks where a round is one step of Adam"
    with pytest.raises(ConfigError, match=words):
        runner.prepare(fedavg(tmp_path, *one_step, MASKED))
    runner.prepare(fedavg(tmp_path, *one_step))
    runner.prepare(fedavg(tmp_path, *overrides, "training.local_epochs=2", MASKED))
    runner.prepare(fedavg(tmp_path, *one_step, "method.weighting=clients", MASKED))


def test_weighting_by_its_earlier_name_is_the_same_run(tmp_path: Path) -> None:
    both = [fedavg(tmp_path, f"method.weighting={name}") for name in ("equal", "clients")]
    assert both[0].hash == both[1].hash
    with pytest.raises(ConfigError, match=r"method\.weighting"):
        fedavg(tmp_path, "method.weighting=[equal]")
