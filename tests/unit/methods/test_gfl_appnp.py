"""GFL-APPNP's arithmetic against autograd on one machine, and its refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.federation.roles import Cohort, Replies, Site
from securefg.foundation.errors import ConfigError, MaskingRefused
from securefg.foundation.streams import derive_seed
from securefg.methods.gfl_appnp import algorithm as gfl_appnp
from securefg.methods.gfl_appnp.messages import Globals, Representation, Update
from securefg.models.appnp import propagation_matrix
from securefg.models.two_layer_mlp import MlpShape, run_mlp
from securefg.privacy.ledger import read_ledger
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.runs import runner
from securefg.runs.assembly import Experiment, prepare
from securefg.runs.folder import RunFolder
from securefg.runs.observing import RoundReport, Silent
from securefg.settings.config import RunConfig
from tests.small import config

M = TypeVar("M", bound=Message)


def full_jacobian(compact: Tensor, second: Tensor) -> Tensor:
    """The Jacobian itself, (n, C, |W|), parameters in the order of the flat vector."""
    num_nodes, hidden, _ = compact.shape
    num_classes = second.shape[0]
    by_first = second[None, :, :, None] * compact[:, None, :, :-1]
    by_second = compact.new_zeros(num_nodes, num_classes, num_classes, hidden)
    for c in range(num_classes):
        by_second[:, c, c] = compact[..., -1]
    return torch.cat([by_first.flatten(2), by_second.flatten(2)], dim=2)


class OneHost(Cohort):
    """All clients on one host, asked without channel or codec; keeps what they said."""

    def __init__(self, experiment: Experiment, missing: tuple[int, ...] = ()) -> None:
        run = experiment.config
        self.num_clients = experiment.partition.num_clients
        seed = derive_seed(run.seed, "clients")
        device = torch.device("cpu")
        self.host = gfl_appnp.Users(Site(experiment.shards, run.method, run.training, seed, device))
        self.missing, self.said = missing, list[tuple[Message, Message]]()

    def ask(self, request: Message, reply: type[M], clients: Clients | None = None) -> Replies[M]:
        asked = range(self.num_clients) if clients is None else clients.numbers()
        here = Clients.of([n for n in asked if n not in self.missing])
        answer = self.host.handle(request, Turn(1, 1, here))
        assert isinstance(answer, reply)
        self.said.append((request, answer))
        return Replies(answer, here, ())


def gfl(root: Path, *overrides: str) -> RunConfig:
    fixed = ("partition={name: one_node}", "training.weight_decay=0", "training.lr=0.5")
    return config(root, *fixed, *overrides, method="gfl_appnp")


def served(experiment: Experiment, cohort: Cohort) -> gfl_appnp.GflServer:
    run = experiment.config
    assert isinstance(run.method, gfl_appnp.Settings)
    return gfl_appnp.GflServer(experiment.public, run.method, run.training, cohort)


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def centralised(experiment: Experiment, weights: Tensor, lr: float) -> Tensor:
    """One SGD step of APPNP by autograd, with all data on one machine."""
    graph = experiment.union
    shape = MlpShape(graph.num_features, 64, graph.num_classes)
    vector = weights.clone().requires_grad_()
    hidden = run_mlp(shape.split(vector), graph.features.double()[:, None])[:, 0]
    assert experiment.public.edge_index is not None
    matrix = propagation_matrix(experiment.public.edge_index, graph.num_nodes)
    logits = matrix @ hidden
    loss = cross_entropy(logits[graph.split.train], graph.labels[graph.split.train])
    (gradient,) = torch.autograd.grad(loss, vector)
    return weights - lr * gradient


def test_one_local_step_equals_centralised_appnp_step_for_step(
    double: None, tmp_path: Path
) -> None:
    experiment = prepare(gfl(tmp_path, "training.local_epochs=1"))
    server = served(experiment, OneHost(experiment))
    expected = server.state()["weights"]
    for number in range(1, 31):
        server.round(number)
        expected = centralised(experiment, expected, 0.5)
        assert (server.state()["weights"] - expected).abs().max() < 1e-10
    assert (
        expected - served(experiment, OneHost(experiment)).state()["weights"]
    ).abs().max() > 0.05


TASKS = {
    "dnc": "data.csbm={task: dnc, num_nodes: 60, degree: 8, num_features: 12}",
    "snc": "data.csbm={task: snc, num_nodes: 60, num_features: 12, samples_per_node: 6}",
    "sc": "data.csbm={task: sc, num_nodes: 30, num_features: 12, samples_per_node: 24}",
}


def by_autograd(experiment: Experiment, cohort: OneHost, start: Tensor) -> Tensor:
    """The mean of what every client makes of its I steps, one after the other, by autograd on

    logits_s = A_kk h(x_s; W) + C_k + dC_k (W - W'), W' constant and equal to W in value.
    """
    run, union = experiment.config, experiment.union
    assert isinstance(run.method, gfl_appnp.Settings)
    shape = MlpShape(union.num_features, run.method.hidden, union.num_classes)
    sums, learn = cohort.said[-2][0], cohort.said[-1][0]
    assert isinstance(sums, gfl_appnp.Sums)
    assert isinstance(learn, gfl_appnp.Learn)
    assert experiment.public.trainers is not None
    trainers, trained = experiment.public.trainers.tolist(), []
    batches = batches_of(experiment, cohort, Clients.of(trainers))
    for row, client in enumerate(trainers):
        graph = experiment.shards[client].graph
        x = graph.features.double().reshape(-1, union.num_features)
        train = graph.split.train.reshape(-1).expand(len(x))
        y = graph.labels.reshape(-1).expand(len(x))[train]
        x, vector = x[train], start
        for batch in batches:
            chosen = slice(None) if batch is None else batch[row]
            variable = vector.clone().requires_grad_()
            logits = sums.own[client] * run_mlp(shape.split(variable), x[chosen][None])[0]
            logits = logits + sums.context[client]
            if learn.slope is not None:
                compact = learn.slope[row].view(1, shape.hidden, -1)
                slope = full_jacobian(compact, shape.split(start).second)[0]
                logits = logits + slope @ (variable - vector)
            (gradient,) = torch.autograd.grad(cross_entropy(logits, y[chosen]), variable)
            vector = vector - run.training.lr * (gradient + run.training.weight_decay * vector)
        trained.append(vector)
    return torch.stack(trained).mean(0)


def batches_of(experiment: Experiment, cohort: OneHost, trainers: Clients) -> list[Tensor | None]:
    """The draws of the host, whose law has a test of its own."""
    train = experiment.union.split.train
    num_samples = int(train[0].sum()) if train.dim() == 2 else cohort.host._x.shape[1]
    return list(cohort.host._draw_batches(Turn(1, 1, trainers), num_samples))


@pytest.mark.parametrize("jacobian", ["full", "none"])
@pytest.mark.parametrize("task", TASKS)
def test_local_steps_of_all_clients_at_once_are_those_of_each_by_autograd(
    task: str, jacobian: str, double: None, tmp_path: Path
) -> None:
    run = gfl(
        tmp_path,
        TASKS[task],
        f"method={{name: gfl_appnp, hidden: 7, jacobian: {jacobian}, batch_size: 2}}",
        "training.local_epochs=5",
        "training.weight_decay=0.01",
    )
    experiment = prepare(run)
    cohort = OneHost(experiment)
    server = served(experiment, cohort)
    for number in (1, 2):
        start = server.state()["weights"]
        server.round(number)
        expected = by_autograd(experiment, cohort, start)
        assert (server.state()["weights"] - expected).abs().max() < 1e-12
        assert (expected - start).abs().max() > 1e-3


def test_batches_are_samples_without_replacement_and_change_with_every_step(tmp_path: Path) -> None:
    run = gfl(tmp_path, TASKS["sc"], "method.batch_size=2", "training.local_epochs=40")
    cohort = OneHost(prepare(run))
    drawn = [
        b for b in cohort.host._draw_batches(Turn(1, 1, Clients.of([3, 4])), 4) if b is not None
    ]
    together = torch.stack(drawn)
    assert together.shape == (40, 2, 2)
    assert bool((together[..., 0] != together[..., 1]).all())
    counts = torch.bincount(together[:, 0].flatten(), minlength=4)
    assert counts.min() >= 10  # 20 expected, standard deviation 3.2
    assert not torch.equal(together[:, 0], together[:, 1])


def test_a_compact_jacobian_is_the_jacobian(double: None, tmp_path: Path) -> None:
    experiment = prepare(gfl(tmp_path, TASKS["snc"], "method.hidden=5"))
    cohort = OneHost(experiment)
    weights = served(experiment, cohort).state()["weights"]
    shape = MlpShape(experiment.union.num_features, 5, 2)
    representations = cohort.ask(Globals(weights=weights, number=1), Representation)
    compact = representations.each("jacobian").view(60, 5, -1)
    features = experiment.union.features.double()

    def represent(vector: Tensor) -> Tensor:
        return run_mlp(shape.split(vector), features).mean(1)

    by_autograd = torch.func.jacrev(represent)(weights)
    assert torch.allclose(full_jacobian(compact, shape.split(weights).second), by_autograd)
    assert torch.allclose(representations.each("hidden"), represent(weights))


def test_one_samples_compact_jacobian_shows_its_features(tmp_path: Path) -> None:
    """Why the compact form leaks no less: an active unit's row of M is x itself."""
    experiment = prepare(gfl(tmp_path))
    cohort = OneHost(experiment)
    weights = served(experiment, cohort).state()["weights"]
    said = cohort.ask(Globals(weights=weights, number=1), Representation)
    rows = said.each("jacobian").view(120, 64, -1)[..., :-1]
    active = rows[7][rows[7].abs().sum(1) > 0]
    assert torch.equal(active, experiment.union.features[7].expand_as(active))


def test_a_client_that_does_not_reply_is_left_out_of_the_sums(tmp_path: Path) -> None:
    experiment = prepare(gfl(tmp_path))
    gone = (0, 1, 2, int(experiment.public.trainers[0]))  # type: ignore[index]
    cohort = OneHost(experiment, gone)
    server = served(experiment, cohort)
    server.round(1)
    representation, sums, learnt = cohort.said[0][1], cohort.said[1][0], cohort.said[2][1]
    assert isinstance(representation, Representation)
    assert isinstance(sums, gfl_appnp.Sums)
    assert isinstance(learnt, Update)
    assert experiment.public.edge_index is not None
    here = np.setdiff1d(np.arange(120), gone)
    matrix = propagation_matrix(experiment.public.edge_index, 120).float().fill_diagonal_(0)
    torch.testing.assert_close(sums.context, matrix[here][:, here] @ representation.hidden)
    assert len(learnt.weights) == 11
    assert {s.client for s in cohort.host.measure(server_model(cohort))} == set(here.tolist())


def server_model(cohort: OneHost) -> Message:
    return cohort.said[0][0]


def test_scores_are_for_the_model_that_the_sums_belong_to_alone(tmp_path: Path) -> None:
    experiment = prepare(gfl(tmp_path))
    cohort = OneHost(experiment)
    release = served(experiment, cohort).round(1)
    assert len(cohort.host.measure(release)) == 120
    assert cohort.host.measure(replace_number(release)) == []


def replace_number(release: Globals) -> Globals:
    return Globals(weights=release.weights, number=release.number + 1)


def test_standard_noise_on_the_jacobian_has_the_planned_size_in_the_compact_form(
    tmp_path: Path,
) -> None:
    noisy = prepare(gfl(tmp_path, "method.jacobian_noise=1", "method.hidden=8"))
    plain = prepare(gfl(tmp_path, "method.hidden=8"))
    weights = served(plain, OneHost(plain)).state()["weights"]
    model = Globals(weights=weights, number=1)
    values = [
        OneHost(x).ask(model, Representation).each("jacobian").view(120, 8, -1)
        for x in (noisy, plain)
    ]
    spread = (values[0] - values[1]).std(dim=0)
    second = MlpShape(30, 8, 2).split(weights).second
    torch.testing.assert_close(
        spread[:, :-1].mean(1) * second.norm(dim=0), torch.ones(8), rtol=0.06, atol=0
    )
    assert float(spread[:, -1].mean()) == pytest.approx(2**-0.5, rel=0.1)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("partition={name: shares, shares: [0.5, 0.6]}", "wants one client per node"),
        ("centralised=true", "wants one client per node"),
        ("training.participation=0.5", "a sum over some of the neighbours is another model"),
    ],
)
def test_data_that_do_not_fit_the_method_are_refused(
    override: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(gfl(tmp_path, override))


@pytest.mark.parametrize("task", TASKS)
def test_the_layout_of_the_hosts_changes_nothing(task: str, tmp_path: Path) -> None:
    models: list[Any] = []
    for hosts in (1, 3):
        extra = (f"engine.hosts={hosts}", "method.batch_size=2", "method.jacobian_noise=0.5")
        run = runner.start(gfl(tmp_path / str(hosts), TASKS[task], *extra))
        models.append((run.folder.path / "model.safetensors").read_bytes())
    assert models[0] == models[1]


def test_the_summary_tells_how_well_the_graph_is_connected(tmp_path: Path) -> None:
    run = runner.start(gfl(tmp_path, "training.rounds=1", "training.monitor=val_loss"))
    assert run.summary is not None
    assert run.summary.method_facts["lambda_max_BL"] > 0


def test_noise_on_every_upload_gives_a_finite_epsilon(tmp_path: Path) -> None:
    noise = "privacy={mechanism: local_gaussian, target_epsilon: 8, noise_rng: seeded}"
    run = runner.start(gfl(tmp_path, TASKS["dnc"], noise, "method.upload=update"))
    assert run.summary is not None
    assert run.summary.epsilon["client"].epsilon == pytest.approx(8, rel=0.01)
    fields = {release.mechanism.field for release in read_ledger(run.folder.ledger_path)}
    assert fields == {"Representation.hidden", "Representation.jacobian", "Update.weights"}


def test_noise_on_the_models_alone_leaves_epsilon_infinite_and_names_the_rest(
    tmp_path: Path,
) -> None:
    noise = "privacy.field_rules={Update.weights: {mechanism: local_gaussian, noise_multiplier: 1}}"
    run = runner.start(gfl(tmp_path, TASKS["dnc"], noise))
    assert run.summary is not None
    claimed = run.summary.epsilon["client"]
    assert claimed.epsilon is None
    assert {"Representation.hidden", "Representation.jacobian"} <= set(claimed.because)


def test_the_papers_noise_on_jacobians_is_booked_as_no_protection(tmp_path: Path) -> None:
    run = runner.start(gfl(tmp_path, TASKS["dnc"], "method.jacobian_noise=1"))
    assert run.summary is not None
    assert "Representation.jacobian" in run.summary.epsilon["client"].because


def test_masked_models_average_to_the_plain_mean(tmp_path: Path) -> None:
    plain = runner.start(gfl(tmp_path / "plain", TASKS["dnc"]))
    masks = "privacy.secure_aggregation={malicious: false}"
    masked = runner.start(gfl(tmp_path / "masked", TASKS["dnc"], masks))
    losses = [[line["val_loss"] for line in run.folder.metrics()] for run in (plain, masked)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert masked.summary is not None
    assert masked.summary.masked.keys() == {"Update.weights"}


@pytest.mark.parametrize("field", ["Representation.hidden", "Representation.jacobian"])
def test_masking_representations_is_refused(field: str, tmp_path: Path) -> None:
    masks = f"privacy.secure_aggregation={{malicious: false, masked_fields: [{field}]}}"
    with pytest.raises(MaskingRefused, match=f"found {field}, .* set method.sums: recip"):
        prepare(gfl(tmp_path, masks))


@pytest.mark.parametrize("field", ["Representation.hidden", "Representation.jacobian"])
def test_distributed_noise_on_representations_is_refused_before_the_run(
    field: str, tmp_path: Path
) -> None:
    masks = "privacy.secure_aggregation={malicious: false}"
    noise = (
        f"privacy.field_rules={{{field}: {{mechanism: distributed_discrete, noise_multiplier: 1}}}}"
    )
    with pytest.raises(ConfigError, match=rf"field_rules\.{field}\.mechanism: found distributed"):
        runner.start(gfl(tmp_path, masks, noise))
    assert not list(tmp_path.iterdir())


class CrashAfterThree(Silent):
    def round_done(self, report: RoundReport) -> None:
        if report.round == 3:
            raise KeyboardInterrupt


@pytest.mark.parametrize("task", ["dnc", "sc"])
def test_a_crash_between_checkpoints_changes_nothing(task: str, tmp_path: Path) -> None:
    overrides = (TASKS[task], "method.batch_size=2", "method.jacobian_noise=0.5")
    whole = runner.start(gfl(tmp_path / "whole", *overrides))
    with pytest.raises(KeyboardInterrupt):
        runner.start(gfl(tmp_path / "broken", *overrides), CrashAfterThree())
    (path,) = (tmp_path / "broken").glob("run-*")
    resumed = runner.resume(RunFolder.open(path))
    models = [run.folder.path / "model.safetensors" for run in (whole, resumed)]
    assert models[0].read_bytes() == models[1].read_bytes()
    losses = [[line["val_loss"] for line in run.folder.metrics()] for run in (whole, resumed)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("request_kind", [gfl_appnp.Globals, gfl_appnp.Sums, gfl_appnp.Learn])
def test_a_run_goes_on_without_a_host_that_fails_in_any_step(
    request_kind: type[Message], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gfl_appnp.Users.handle

    def fragile(self: gfl_appnp.Users, request: Message, turn: Turn) -> Message:
        if isinstance(request, request_kind) and turn.round == 2 and 0 in self._clients:
            raise ValueError("gone")
        return whole(self, request, turn)

    monkeypatch.setattr(gfl_appnp.Users, "handle", fragile)
    run = runner.start(gfl(tmp_path, TASKS["dnc"], "engine.hosts=3"))
    assert run.summary is not None
    assert run.summary.rounds == 4
    dropped = [line["dropped"] for line in run.folder.metrics()]
    assert dropped[0] == 0 < dropped[1] == dropped[3]


def test_samples_of_a_node_are_scored_apart_where_asked(tmp_path: Path) -> None:
    asked = (TASKS["snc"], "method.hidden=5", "training.rounds=3", "training.final_model=last")
    by_node = runner.start(gfl(tmp_path, *asked)).folder
    by_sample = runner.start(gfl(tmp_path, *asked, "method.scored=samples")).folder
    found = [run.summary().test_scores for run in (by_node, by_sample)]
    counts = [sum(c.count for c in scores.per_class) for scores in found if scores]
    assert counts[1] == 6 * counts[0]
    models = [(run.path / "model.safetensors").read_bytes() for run in (by_node, by_sample)]
    assert models[0] == models[1]
