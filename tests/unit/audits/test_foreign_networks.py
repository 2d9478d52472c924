"""Recordings of convolutions and of tokens, attacked with the auditor's code of the network."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import attacks.network_inversion as inversion
from attacks.base import CannotAttack
from audits.findings.record import Finding, Verdict
from audits.foreign import ForeignTruth
from audits.foreign_network import ForeignNetwork
from audits.games.trained_members import trained_members
from audits.plan import Plan
from audits.run import audit
from securefg.cli.main import app
from securefg.foundation.errors import ConfigError
from securefg.protocol.exchange import Claim, Exchange, Layer, Upload
from securefg.protocol.transcript import Adversary
from tests.unit.audits.foreign_networks import HERE, Convolutions, Words, draw_digits, write_record

NETWORK = f"{HERE}:Convolutions"
MEMBERS, CONFIDENCE = "network_members", "network_confidence"
INVERSION, LABELS = "network_inversion", "batch_labels"
CLAIM = Claim(epsilon=5.0, delta=1e-5, clip_l2=1.0, sigma=2.0)


def findings(path: Path, *only: str, network: str = NETWORK) -> dict[str, Finding]:
    plan = Plan(only=only, network=network)
    return {finding.attack: finding for finding in audit(path, plan).findings}


@pytest.fixture(scope="module")
def two_sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites with 60 digits each, and 60 digits of nobody."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("networks") / "open"
    write_record(path, Convolutions(), draw_digits(2, 60), rounds=2)
    return path


def test_members_of_two_sites_leak(two_sites: Path) -> None:
    member_finding = findings(two_sites, MEMBERS)[MEMBERS]
    assert member_finding.verdict is Verdict.LEAK
    assert member_finding.value is not None
    assert member_finding.value.value > 0.75
    assert member_finding.null_at_chance


def test_members_leak_without_samples_of_nobody(two_sites: Path) -> None:
    (two_sites / "private" / "held_out.npz").rename(two_sites / "kept.npz")
    try:
        findings_by_attack = findings(two_sites, MEMBERS, CONFIDENCE)
    finally:
        (two_sites / "kept.npz").rename(two_sites / "private" / "held_out.npz")
    assert findings_by_attack[MEMBERS].verdict is Verdict.LEAK
    assert findings_by_attack[CONFIDENCE].gain is not None


def test_members_under_noise_are_no_leak(two_sites: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    words = {"claim": CLAIM, "control": two_sites}
    write_record(tmp_path / "x", Convolutions(), draw_digits(2, 60), sigma=2.0, **words)
    found = findings(tmp_path / "x", MEMBERS)[MEMBERS]
    assert found.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_DETECTED)
    assert found.positive is not None
    assert found.positive.low > 0.15


def test_single_images_are_found_by_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inversion, "STEPS", 60)
    torch.manual_seed(0)
    write_record(tmp_path / "x", Convolutions(), draw_digits(12, 1))
    findings_by_attack = findings(tmp_path / "x", INVERSION, LABELS)
    assert findings_by_attack[INVERSION].verdict is Verdict.LEAK
    assert findings_by_attack[INVERSION].gain is not None
    assert findings_by_attack[INVERSION].gain.value > 0.05
    assert findings_by_attack[LABELS].verdict is Verdict.LEAK


def test_many_samples_are_not_inverted(two_sites: Path) -> None:
    found = findings(two_sites, INVERSION)[INVERSION]
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "up to 4 are sought" in found.because


def test_tokens_have_members_and_no_inversion(tmp_path: Path) -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    data = [(rng.integers(17, size=(40, 6)), rng.integers(10, size=40)) for _ in range(3)]
    write_record(tmp_path / "x", Words(), data, output_layer="out.weight")
    findings_by_attack = findings(tmp_path / "x", MEMBERS, network=f"{HERE}:Words")
    assert findings_by_attack[MEMBERS].gain is not None
    write_record(tmp_path / "y", Words(), [(x[:1], y[:1]) for x, y in data])
    findings_by_attack = findings(tmp_path / "y", INVERSION, network=f"{HERE}:Words")
    assert "whole numbers" in findings_by_attack[INVERSION].because


def test_without_the_network_its_attacks_are_named_as_not_run(tmp_path: Path) -> None:
    write_record(tmp_path / "x", Convolutions(), draw_digits(2, 20))
    found = findings(tmp_path / "x", MEMBERS, network="")[MEMBERS]
    assert not found.measured
    assert "--network" in found.because


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("nowhere.at_all:Net", "--network: found nowhere.at_all:Net, which cannot be imported"),
        ("Net", "--network: found Net, which cannot be imported"),
        (f"{HERE}:draw_like", "cannot be made"),
        ("builtins:dict", "gave a dict; expected a torch.nn.Module"),
        (f"{HERE}:Words", "expected those of the record"),
    ],
)
def test_networks_that_do_not_fit_are_refused(two_sites: Path, network: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        findings(two_sites, network=network)


def test_samples_of_another_shape_are_refused(two_sites: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "truth.npz", **{"0": np.ones((3, 64), np.float32)})
    with pytest.raises(ConfigError, match=r"fails on a sample of shape \(64,\)"):
        ForeignTruth.from_path(two_sites, NETWORK, tmp_path)


def test_data_of_one_site_needs_samples_of_nobody(two_sites: Path, tmp_path: Path) -> None:
    (samples, labels), _, outside = draw_digits(2, 60)
    np.savez(tmp_path / "truth.npz", **{"0": samples})
    np.savez(tmp_path / "labels.npz", **{"0": labels})
    place, rng = Adversary.parse("server"), np.random.default_rng(0)
    truth = ForeignTruth.from_path(two_sites, NETWORK, tmp_path)
    with pytest.raises(CannotAttack, match=r"held_out\.npz"):
        trained_members(truth, place, rng)
    np.savez(tmp_path / "held_out.npz", samples=outside[0], labels=outside[1])
    truth = ForeignTruth.from_path(two_sites, NETWORK, tmp_path)
    game = trained_members(truth, place, rng)
    assert set(game.question.clients.tolist()) == {0}  # type: ignore[attr-defined]
    assert game.truth.sum() * 2 == len(game.truth)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"samples": np.ones((2, 3))}, "found no arrays `samples` and `labels`"),
        (
            {"samples": np.ones((2, 3)), "labels": np.zeros(3)},
            r"shape \(2, 3\) and labels of shape \(3,\)",
        ),
        ({"samples": np.ones((1, 3)), "labels": np.array([10])}, "expected classes from 0 to 9"),
    ],
)
def test_held_out_samples_that_do_not_fit_are_refused(
    two_sites: Path, tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez(tmp_path / "held_out.npz", **arrays)
    with pytest.raises(ConfigError, match=message):
        ForeignTruth.from_path(two_sites, "", tmp_path)


def test_audit_command_takes_network_and_data(two_sites: Path) -> None:
    data = str(two_sites / "private")
    words = ["audit", str(two_sites), "--network", NETWORK, "--data", data, "--only", MEMBERS]
    result = CliRunner().invoke(app, [*words, "--fail-on", "LEAK"])
    assert result.exit_code == 1
    assert "network members" in result.output


class Slow(torch.nn.Linear):
    """A layer that others can overtake between its two uses of the weights."""

    def __init__(self) -> None:
        super().__init__(3, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = super().forward(x)
        time.sleep(0.02)
        return before - super().forward(x)


def test_network_called_side_by_side_keeps_its_weights() -> None:
    layers = (Layer(name="weight", shape=(2, 3)),)
    exchange = Exchange(
        name="x", clients=1, classes=2, layers=layers, upload=Upload(kind="m.Update", field="w")
    )
    net = ForeignNetwork(Slow(), ("weight",), exchange)

    def call(value: int) -> tuple[float, bool]:
        weights = torch.full((6,), float(value), requires_grad=value % 2 == 0)
        scores = net(weights, torch.ones(1, 3))
        return float(scores.detach().abs().max()), scores.requires_grad

    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(call, range(16)))
    assert outputs == [(0.0, value % 2 == 0) for value in range(16)]
