"""A run made by a spoiled channel is found out from its record, by honest code."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from audits.books import reconcile_books
from audits.findings.record import Verdict
from audits.mechanisms.training import by_modules, by_tensors, training_tests
from audits.noise_law import worst_test
from audits.recorded import recorded_noise
from audits.truth import Truth
from securefg.federation.channel import Channel
from securefg.foundation.log import read_log
from securefg.privacy.defences import dp_sgd
from securefg.privacy.defences.dp_sgd import DpSgd
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.ledger import LOG, ledger_file
from securefg.privacy.noise import SeededNoise, SystemNoise
from securefg.privacy.private_training import TrainingPlan
from securefg.runs.folder import RunFolder
from securefg.runs.runner import start
from securefg.settings.config import parse_config
from tests.small import tree

LOCAL = {"mechanism": "local_gaussian", "noise_multiplier": 2.0, "unit": "node"}
MASKED = {"mechanism": "distributed_discrete", "noise_multiplier": 2.0, "secure_aggregation": {}}


def made(root: Path, privacy: dict[str, Any], **method: Any) -> Truth:
    base = tree(root)
    base["method"] |= {"weighting": "equal", **method}
    base["data"]["csbm"] |= {"num_nodes": 60, "num_features": 12}
    base["training"] |= {"rounds": 3, "local_epochs": 1}
    outcome = start(parse_config({**base, "privacy": privacy}))
    return Truth.of(outcome.folder)


def masked(root: Path) -> Truth:
    return made(root, MASKED, pseudo_labels=False, pseudo_graph=False)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("honest"), LOCAL)


def test_an_honest_record_is_clean(honest: Truth) -> None:
    findings = recorded_noise(honest)
    assert {f.verdict for f in findings} == {Verdict.NOT_DETECTED}
    assert len(findings) == 3
    assert reconcile_books(honest).verdict is Verdict.NOT_DETECTED


def test_of_every_guessed_seed_one_clients_row_is_drawn(
    honest: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of guesses at the whole of 300 clients' Jacobians took all memory there is."""
    shapes = []

    class Watched(SeededNoise):
        def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
            shapes.append(shape)
            return super().normal(shape, clients, name)

    sources = [Watched(seed) for seed in range(5)]
    monkeypatch.setattr("audits.recorded_redraws.guessed_sources", lambda seeds, discrete: sources)
    recorded_noise(honest)
    assert len(shapes) == 15
    assert {shape[0] for shape in shapes} == {1}


class CutOff(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        return super().normal(shape, clients, name).clamp(-2, 2)


def test_noise_that_is_cut_off_is_of_another_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("securefg.engines.hosting.noise_source", lambda config: CutOff())
        truth = made(tmp_path, LOCAL)
    found = recorded_noise(truth)
    cut = [f for f in found if "not of the claimed law" in f.because]
    assert {f.verdict for f in cut} == {Verdict.INCONCLUSIVE}
    assert {f.targets > 1000 for f in found if f not in cut} <= {False}


def test_an_honest_masked_record_is_clean(tmp_path: Path) -> None:
    truth = masked(tmp_path)
    (finding,) = recorded_noise(truth)
    assert finding.verdict is Verdict.NOT_DETECTED
    assert finding.targets > 0
    assert reconcile_books(truth).verdict is Verdict.NOT_DETECTED


class Halved(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        return super().normal(shape, clients, name) / 2


class OneRowBare(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        drawn[:, 5 % drawn.shape[1]] = 0
        return drawn


class LastRoundBare(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        return super().normal(shape, clients, name) * (name[2] < 3)


class AgainEveryRound(SystemNoise):
    def __init__(self) -> None:
        self.kept: dict[Any, Tensor] = {}

    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        return self.kept.setdefault((str(clients), name[1], shape), drawn).clone()


class OfASmallSeed(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        generator = torch.Generator().manual_seed(1000 + clients.numbers()[0])
        return torch.randn(shape, generator=generator, dtype=torch.float64)


class OfTheClock(SystemNoise):
    """Seeded once, as the run begins, by the time in milliseconds; kept from draw to draw."""

    def __init__(self) -> None:
        time.sleep(0.002)  # hosts of one millisecond share their noise, which is another finding
        self._state = np.random.default_rng(int(time.time() * 1000))

    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        return torch.from_numpy(self._state.standard_normal(tuple(shape)))


def test_noise_seeded_by_the_clock_is_found_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("securefg.engines.hosting.noise_source", lambda config: OfTheClock())
        truth = made(tmp_path, LOCAL)
    found = [f.because for f in recorded_noise(truth) if f.verdict is Verdict.VIOLATION]
    assert any("guessed seed" in because for because in found)


class HalvedLate(SystemNoise):
    """One field, in the last round alone."""

    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        return drawn / 2 if name[1] == "weights" and name[2] == 3 else drawn


class SharedByFields(SystemNoise):
    """The second field of a message has the noise of the first."""

    def __init__(self) -> None:
        self.kept: dict[Any, Tensor] = {}

    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name).flatten()
        before = self.kept.setdefault((str(clients), name[2]), drawn)
        shared = min(len(before), len(drawn))
        return torch.cat([before[:shared], drawn[shared:]]).reshape(shape)


@pytest.mark.parametrize(
    "noise",
    [Halved, OneRowBare, LastRoundBare, AgainEveryRound, OfASmallSeed, HalvedLate, SharedByFields],
)
def test_spoiled_noise_is_found_in_the_record(
    noise: type[SystemNoise], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("securefg.engines.hosting.noise_source", lambda config: noise())
        truth = made(tmp_path, LOCAL)
    assert Verdict.VIOLATION in {f.verdict for f in recorded_noise(truth)}


def test_one_bare_field_is_found_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Channel._protect_field

    def protect(channel: Channel, message: Any, name: str, x: Tensor, turn: Any) -> Tensor:
        return x if name == "embeddings" else sound(channel, message, name, x, turn)

    with monkeypatch.context() as patched:
        patched.setattr(Channel, "_protect_field", protect)
        truth = made(tmp_path, LOCAL)
    bad = [f for f in recorded_noise(truth) if f.verdict is Verdict.VIOLATION]
    assert [f.because.partition(":")[0] for f in bad] == ["Update.embeddings"]


def test_unclipped_values_are_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def apply(rule: LocalGaussian, values: Tensor, noise: Any, *where: Any) -> Tensor:
        added = rule.sigma * noise.normal(values.shape, *where)
        return (values.double() * 50 + added).to(values.dtype)

    with monkeypatch.context() as patched:
        patched.setattr(LocalGaussian, "apply", apply)
        truth = made(tmp_path, LOCAL)
    assert {f.verdict for f in recorded_noise(truth)} & {Verdict.VIOLATION, Verdict.INCONCLUSIVE}


# ----------------------------------------------------------------------------------------- books


def _lines(path: Path) -> list[dict[str, Any]]:
    return [entry for entry, _ in read_log(path, LOG)]


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    """A forger who makes the chain anew."""
    ledger_file(path).replace(lines)


def with_a_line_cut_out(folder: RunFolder) -> None:
    lines = folder.ledger_path.read_text().splitlines(keepends=True)
    folder.ledger_path.write_text("".join(lines[1:]))


def without_a_field(folder: RunFolder) -> None:
    kept = [x for x in _lines(folder.ledger_path) if x["mechanism"]["field"] != "Update.weights"]
    _write(folder.ledger_path, kept)


def without_a_round(folder: RunFolder) -> None:
    _write(folder.ledger_path, [x for x in _lines(folder.ledger_path) if x["round"] != 2])


def with_more_noise(folder: RunFolder) -> None:
    lines = _lines(folder.ledger_path)
    for line in lines:
        line["mechanism"]["noise_multiplier"] *= 2
    _write(folder.ledger_path, lines)


def with_fewer_holders(folder: RunFolder) -> None:
    lines = _lines(folder.ledger_path)
    for line in lines:
        line["mechanism"]["node"]["times"] = 1
    _write(folder.ledger_path, lines)


def with_a_smaller_epsilon(folder: RunFolder) -> None:
    path = folder.path / "summary.json"
    summary = json.loads(path.read_text())
    summary["epsilon"]["client"]["epsilon"] /= 3**0.5
    path.write_text(json.dumps(summary))


def without_a_unit(folder: RunFolder) -> None:
    path = folder.path / "summary.json"
    summary = json.loads(path.read_text())
    del summary["epsilon"]["node"]
    path.write_text(json.dumps(summary))


@pytest.mark.parametrize(
    ("forged", "wanted"),
    [
        (with_a_line_cut_out, Verdict.VIOLATION),
        (without_a_field, Verdict.VIOLATION),
        (without_a_round, Verdict.VIOLATION),
        (with_more_noise, Verdict.VIOLATION),
        (with_fewer_holders, Verdict.VIOLATION),
        (with_a_smaller_epsilon, Verdict.VIOLATION),
        (without_a_unit, Verdict.INCONCLUSIVE),
    ],
)
def test_books_that_do_not_agree_are_found(
    forged: Callable[[RunFolder], None], wanted: Verdict, honest: Truth, tmp_path: Path
) -> None:
    shutil.copytree(honest.folder.path, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    forged(folder)
    finding = reconcile_books(Truth(folder, honest.experiment))
    assert finding.verdict is wanted
    assert finding.because


def test_a_sum_over_too_few_survivors_is_found(tmp_path: Path) -> None:
    truth = masked(tmp_path)
    policy = truth.experiment.policy
    wanted = dict.fromkeys(policy.least_survivors, 99)
    assert wanted
    demanding = replace(truth.experiment, policy=replace(policy, least_survivors=wanted))
    finding = reconcile_books(Truth(truth.folder, demanding))
    assert finding.verdict is Verdict.VIOLATION
    assert "planned for 99" in finding.because


# ---------------------------------------------------------------------------------------- DP-SGD

PLAN = DpSgd(TrainingPlan(5, 0.1, 1.0, 1.0, 0.2), 10)


@pytest.mark.parametrize("steps", [by_tensors, by_modules])
def test_sound_dp_sgd_is_clean(steps: Any) -> None:
    assert worst_test(training_tests(steps, PLAN, SystemNoise()), 1e-3) is None


class FirstStepOnly(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        return drawn if name[-1] == 0 or name[-2] == "sample" else 0 * drawn


class EverySampleDrawn(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        return drawn - 9 if name[-2] == "sample" else drawn


class SameInBothSteps(SystemNoise):
    def __init__(self) -> None:
        self.kept: dict[Any, Tensor] = {}

    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        return self.kept.setdefault((str(clients), name[:-1], shape), drawn)


@pytest.mark.parametrize("noise", [Halved, FirstStepOnly, EverySampleDrawn, SameInBothSteps])
def test_spoiled_noise_or_sampling_of_dp_sgd_is_found(noise: type[SystemNoise]) -> None:
    assert worst_test(training_tests(by_tensors, PLAN, noise()), 1e-3) is not None


def test_dp_sgd_without_a_clip_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_sgd, "clip_l2", lambda x, bound, per: x.double())
    found = worst_test(training_tests(by_tensors, PLAN, SystemNoise()), 1e-3)
    assert found is not None
    assert found.severe


def test_a_wrong_denominator_of_dp_sgd_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = dp_sgd._move_weights
    monkeypatch.setattr(dp_sgd, "_move_weights", lambda w, d, rate: moved(w, d, rate * 0.5))
    found = worst_test(training_tests(by_tensors, PLAN, SystemNoise()), 1e-3)
    assert found is not None
