"""FedMLP with DP-SGD: its epsilon is the accountant's, its noise costs, and others are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.foundation.errors import ConfigError
from securefg.privacy.accountants import Step, tightest
from securefg.privacy.ledger import read_ledger
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.settings.config import RunConfig
from tests.small import config

ROUNDS, STEPS, SAMPLES = 3, 4, 10
DATA = "data.csbm={task: sc, num_nodes: 16, num_features: 10, samples_per_node: 120, mu: 3}"
FIXED = (
    "partition={name: one_node}",
    DATA,
    "training.weight_decay=0",
    "training.lr=0.5",
    f"training.rounds={ROUNDS}",
    f"training.local_epochs={STEPS}",
    "privacy.noise_rng=seeded",
)


def private(root: Path, *overrides: str, noise: float = 2.0, sampling: float = 1.0) -> RunConfig:
    plan = f"{{noise_multiplier: {noise}, sampling: {sampling}, num_samples: {SAMPLES}}}"
    return config(root, *FIXED, f"training.dp_sgd={plan}", *overrides, method="fedmlp")


@pytest.mark.parametrize("sampling", [1.0, 0.3])
def test_epsilon_per_sample_is_the_accountants(sampling: float, tmp_path: Path) -> None:
    run = runner.start(private(tmp_path, noise=4.0, sampling=sampling))
    assert run.summary is not None
    claimed = run.summary.epsilon
    steps = (Step(4.0, ROUNDS * STEPS, sampling),)
    assert claimed["row"].epsilon == tightest(steps, 1e-5)
    of_client = (Step(4.0 / SAMPLES, ROUNDS * STEPS),)
    assert claimed["client"].epsilon == tightest(of_client, 1e-5)
    booked = [release.mechanism for release in read_ledger(run.folder.ledger_path)]
    assert {(m.field, m.rule, m.steps) for m in booked} == {("Update.weights", "dp_sgd", STEPS)}


def test_only_noise_of_the_systems_is_called_private(tmp_path: Path) -> None:
    for source in ("seeded", "system"):
        run = runner.start(private(tmp_path / source, f"privacy.noise_rng={source}"))
        assert run.summary is not None
        assert run.summary.epsilon["row"].private == (source == "system")


def test_accuracy_falls_as_epsilon_does(tmp_path: Path) -> None:
    losses, accuracies, epsilons = [], [], []
    for noise in (5.0, 20.0, 100.0):
        run = runner.start(private(tmp_path / str(noise), "training.rounds=6", noise=noise))
        assert run.summary is not None
        last = run.folder.metrics()[-1]
        losses.append(last["val_loss"])
        accuracies.append(last["test_accuracy"])
        epsilons.append(run.summary.epsilon["row"].epsilon)
    assert epsilons == sorted(epsilons, reverse=True)
    assert losses == sorted(losses)
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[0] > accuracies[2] + 0.1


def test_hardly_any_noise_and_a_wide_clip_are_plain_gradient_steps(tmp_path: Path) -> None:
    """All samples, each step: full-batch SGD, but for the noise."""
    plan = f"{{noise_multiplier: 1.0e-9, clip_l2: 1000, sampling: 1, num_samples: {SAMPLES}}}"
    noisy = runner.start(private(tmp_path / "dp", f"training.dp_sgd={plan}"))
    plain = runner.start(
        private(tmp_path / "plain", "training.dp_sgd=null", "method.batch_size=null")
    )
    losses = [[line["val_loss"] for line in run.folder.metrics()] for run in (noisy, plain)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert losses[0][0] - losses[0][-1] > 1e-3


def test_the_layout_of_the_hosts_changes_nothing(tmp_path: Path) -> None:
    models = []
    for hosts in (1, 3):
        run = runner.start(private(tmp_path / str(hosts), f"engine.hosts={hosts}", sampling=0.5))
        models.append((run.folder.path / "model.safetensors").read_bytes())
    assert models[0] == models[1]


def test_masks_leave_the_sum_and_its_epsilon_per_sample(tmp_path: Path) -> None:
    open_, masked = (
        runner.start(private(tmp_path / name, f"privacy.secure_aggregation={settings}"))
        for name, settings in (("open", "null"), ("masked", "{}"))
    )
    assert open_.summary is not None
    assert masked.summary is not None
    assert masked.summary.epsilon == open_.summary.epsilon
    losses = [[line["val_loss"] for line in run.folder.metrics()] for run in (open_, masked)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_a_budget_per_sample_ends_the_run(tmp_path: Path) -> None:
    two_rounds = tightest((Step(4.0, 2 * STEPS),), 1e-5) + 1e-6
    run = runner.start(
        private(tmp_path, f"privacy.budget={two_rounds}", "privacy.unit=row", noise=4.0)
    )
    assert run.summary is not None
    assert run.summary.rounds == 2
    assert "privacy budget" in run.summary.stopped


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.weight_decay=0.1", "allowed with training.dp_sgd: 0"),
        ("privacy={mechanism: local_gaussian, noise_multiplier: 1}", "noise from training.dp_sgd"),
        (
            "privacy.field_rules={Update.weights: {mechanism: plain}}",
            "noise from training.dp_sgd",
        ),
        (
            "training.dp_sgd.sampling=1.5",
            "training.dp_sgd.sampling: found 1.5; expected a number above 0 and of at most 1",
        ),
        (
            "training.dp_sgd.noise_multiplier=0",
            "training.dp_sgd.noise_multiplier: found 0; expected a number above 0",
        ),
    ],
)
def test_settings_that_would_void_the_claim_are_refused(
    override: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(private(tmp_path, override))


def test_another_number_of_samples_than_the_public_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another number of training samples"):
        runner.start(private(tmp_path, "training.dp_sgd.num_samples=9"))


def test_gfl_is_refused_since_samples_are_in_their_neighbours_gradients(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"gfl_appnp: private training is refused: .*shared neighbours"
    ):
        prepare(private(tmp_path, "method={name: gfl_appnp}"))


def test_methods_that_do_not_train_so_refuse_and_do_not_ignore_it(tmp_path: Path) -> None:
    plan = "training.dp_sgd={noise_multiplier: 1, sampling: 1, num_samples: 2}"
    with pytest.raises(ConfigError, match="fedgl does not train by it"):
        prepare(config(tmp_path, plan))
