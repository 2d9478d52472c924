"""Other frameworks' exchanges: written, described, attacked, and held to their claims."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from typer.testing import CliRunner

from attacks.base import Message
from attacks.samples import samples_of_change
from audits.findings.record import Finding, Verdict
from audits.foreign import judge_spread
from audits.plan import Plan
from audits.run import audit
from securefg.cli.main import app, main
from securefg.foundation.errors import ConfigError
from securefg.protocol.codec import Clients
from securefg.protocol.exchange import (
    Claim,
    Exchange,
    ExchangeWriter,
    FirstLayer,
    Layer,
    Place,
    Upload,
)
from securefg.protocol.meanings import Weights
from securefg.protocol.transcript import Adversary, broken_link, view

WIDTH, SIGMA, CLIP = 200, 5.0, 1.0
CLAIM = Claim(epsilon=4.0, delta=1e-5, clip_l2=CLIP, sigma=SIGMA)
UPLOAD = Upload(kind="f.Update", field="change")
CHANGE = Weights("network", change=True)


def example() -> Any:
    path = Path("examples/fedavg_numpy/exchange.py")
    spec = importlib.util.spec_from_file_location("fedavg_exchange", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXCHANGE: Callable[..., None] = example().exchange


def findings(path: Path, **plan: Any) -> dict[str, Finding]:
    return {finding.attack: finding for finding in audit(path, Plan(**plan)).findings}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exchange") / "plain"
    EXCHANGE(path)
    return path


# ------------------------------------------------------------------------------------ the example


def test_a_plain_exchange_gives_every_sample_away(plain: Path) -> None:
    findings_by_attack = findings(plain)
    samples = findings_by_attack["first_layer_samples"]
    assert samples.verdict is Verdict.LEAK
    assert samples.details == {
        "exact_samples": 1.0,
        "exact_samples_of_one": 1.0,
        "exact_samples_of_several": 1.0,
    }
    assert samples.null_at_chance
    inputs = findings_by_attack["input_support"]
    assert inputs.value is not None
    assert inputs.value.value == 1.0
    assert inputs.verdict is Verdict.LEAK
    assert findings_by_attack["integrity"].verdict is Verdict.NOT_DETECTED


def test_noise_that_is_as_claimed_silences_the_attacks(plain: Path, tmp_path: Path) -> None:
    EXCHANGE(tmp_path / "noised", sigma=SIGMA, control=plain)
    findings_by_attack = findings(tmp_path / "noised")
    measured = {name: f.verdict for name, f in findings_by_attack.items() if f.measured}
    assert measured == {
        "integrity": Verdict.NOT_DETECTED,
        "claim_accounting": Verdict.NOT_DETECTED,
        "claim_noise": Verdict.NOT_DETECTED,
        "first_layer_samples": Verdict.NOT_DETECTED,
        "input_support": Verdict.INCONCLUSIVE,
    }
    inputs = findings_by_attack["input_support"]
    assert inputs.gain is not None
    assert inputs.gain.low < 0 < 0.05 <= inputs.gain.high
    assert "could hide here" in inputs.because
    again = findings(tmp_path / "noised", overrides=("audit.leak_threshold=0.07",))["input_support"]
    assert again.verdict is Verdict.INCONCLUSIVE  # the milder audit is told, and takes nothing back
    (milder,) = again.milder
    assert "NOT_DETECTED" in milder
    unmeasured = [f for f in findings_by_attack.values() if not f.measured]
    assert {f.verdict for f in unmeasured} == {Verdict.INCONCLUSIVE}
    assert {"untaken_place", "adjacency_nnls", "membership_loss"} <= {f.attack for f in unmeasured}
    noise = findings_by_attack["claim_noise"]
    assert noise.epsilon_lower is not None
    assert noise.epsilon_claimed is not None
    assert 0.9 * noise.epsilon_claimed < noise.epsilon_lower <= noise.epsilon_claimed


@pytest.mark.parametrize("override", ["audit.canaries=3", "seed=4", "audit.leak_threshold=2", "x"])
def test_what_made_an_exchange_is_not_set_anew(plain: Path, override: str) -> None:
    with pytest.raises(ConfigError, match=r"audit\.leak_threshold"):
        audit(plain, Plan(overrides=(override,)))


def test_without_a_control_silence_says_nothing(tmp_path: Path) -> None:
    EXCHANGE(tmp_path / "noised", sigma=SIGMA)
    found = findings(tmp_path / "noised")
    assert found["first_layer_samples"].verdict is Verdict.INCONCLUSIVE
    assert "positive control" in found["first_layer_samples"].because


def test_less_noise_than_claimed_is_a_violation(tmp_path: Path) -> None:
    EXCHANGE(tmp_path / "cheat", sigma=SIGMA, real_sigma=0.8 * SIGMA)
    assert findings(tmp_path / "cheat")["claim_noise"].verdict is Verdict.VIOLATION


def test_an_epsilon_that_sigma_does_not_give_is_a_violation(tmp_path: Path) -> None:
    EXCHANGE(tmp_path / "cheat", sigma=SIGMA, epsilon=1.0)
    accounting = findings(tmp_path / "cheat")["claim_accounting"]
    assert accounting.verdict is Verdict.VIOLATION
    assert accounting.epsilon_lower == pytest.approx(3.845, abs=0.01)


def test_samples_are_scored_only_where_they_are_at_hand(tmp_path: Path) -> None:
    EXCHANGE(tmp_path / "blind")
    (tmp_path / "blind" / "private" / "truth.npz").unlink()
    found = findings(tmp_path / "blind")
    assert found["first_layer_samples"].verdict is Verdict.INCONCLUSIVE
    assert "truth.npz" in found["first_layer_samples"].because


def test_a_changed_or_shortened_transcript_is_a_violation(tmp_path: Path) -> None:
    EXCHANGE(tmp_path / "cut")
    path = tmp_path / "cut" / "transcript" / "messages.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"SFGT")])  # a whole record less
    integrity = findings(tmp_path / "cut", only=("promises",))["integrity"]
    assert integrity.verdict is Verdict.VIOLATION


# ------------------------------------------------------------------------------------- the claims


def uploads(rows: np.ndarray) -> list[Message]:
    """(rounds, clients, width) as a message per round."""
    everybody = Clients(((0, rows.shape[1]),))
    return [
        Message(number, everybody, torch.from_numpy(row), CHANGE, "gaussian")
        for number, row in enumerate(rows, 1)
    ]


def described(repeats: tuple[int, ...] = (0,)) -> Exchange:
    layers = (Layer(name="W", shape=(10, 19)), Layer(name="b", shape=(10,)))
    return Exchange(
        name="x",
        clients=6,
        upload=UPLOAD,
        layers=layers,
        first_layer=FirstLayer(weight="W", bias="b"),
        claim=CLAIM,
        repeats=repeats,
    )


def honest(seed: int) -> np.ndarray:
    """Client 0 repeats zeros, the others upload something clipped."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(5, 6, WIDTH))
    signal *= CLIP / np.linalg.norm(signal, axis=2, keepdims=True)
    signal[:, 0] = 0
    return signal + SIGMA * rng.normal(size=signal.shape)


def halved(rows: np.ndarray) -> np.ndarray:
    return rows / 2


def twice_across_clients(rows: np.ndarray) -> np.ndarray:
    rows[:, 2] = rows[:, 1] + 0.01
    return rows


def twice_across_rounds(rows: np.ndarray) -> np.ndarray:
    rows[1:, 0] = rows[0, 0]
    return rows


def first_round_only(rows: np.ndarray) -> np.ndarray:
    rows[1:] /= 100
    return rows


def bias_left_out(rows: np.ndarray) -> np.ndarray:
    rows[:, :, -10:] /= 100
    return rows


def not_clipped(rows: np.ndarray) -> np.ndarray:
    rows[0, 3, 0] += 100
    return rows


MUTANTS = [
    halved,
    twice_across_clients,
    twice_across_rounds,
    first_round_only,
    bias_left_out,
    not_clipped,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
@pytest.mark.parametrize("repeats", [(0,), ()], ids=["repeats", "none"])
def test_broken_noise_is_caught(mutant: Callable[..., Any], repeats: tuple[int, ...]) -> None:
    found = judge_spread(uploads(mutant(honest(1))), described(repeats), CLAIM)
    assert found["verdict"] is Verdict.VIOLATION


def test_a_slightly_smaller_sigma_takes_repeats_to_see() -> None:
    rows = 0.93 * honest(2)
    tight = CLAIM.model_copy(update={"epsilon": 3.85})
    assert judge_spread(uploads(rows), described(()), tight)["verdict"] is Verdict.INCONCLUSIVE
    rows = np.concatenate([0.93 * honest(seed) for seed in range(20)])
    claimed = CLAIM.model_copy(update={"epsilon": 20.2})  # of 100 releases at sigma 5
    assert judge_spread(uploads(rows), described((0,)), claimed)["verdict"] is Verdict.VIOLATION


def test_honest_noise_is_never_flagged() -> None:
    """At 1 % per exchange, 200 of them give 7 or more with probability 0.4 %."""
    found = [judge_spread(uploads(honest(s)), described(), CLAIM)["verdict"] for s in range(200)]
    assert found.count(Verdict.VIOLATION) <= 6
    assert found.count(Verdict.INCONCLUSIVE) == 0


@pytest.mark.parametrize(
    ("mutant", "verdict"), [(None, Verdict.NOT_DETECTED), ("halved", Verdict.VIOLATION)]
)
def test_of_uploaded_weights_the_change_is_judged(
    mutant: str | None, verdict: Verdict, tmp_path: Path
) -> None:
    rows = honest(1) if mutant is None else halved(honest(1))
    upload = Upload(kind="f.Update", field="change", holds="weights")
    place = Place(kind="f.Model", field="weights")
    exchange = described().model_copy(update={"upload": upload, "sent": place, "claim": CLAIM})
    writer = ExchangeWriter(tmp_path / "weights", exchange)
    for number, round_rows in enumerate(rows, 1):
        began = np.full(WIDTH, 1000.0 * number)
        writer.sent(number, "f.Model", {"weights": began}, range(len(round_rows)))
        for client, row in enumerate(round_rows):
            writer.received(number, "f.Update", {"change": began + row}, client)
    writer.close()
    assert findings(tmp_path / "weights")["claim_noise"].verdict is verdict


def test_masked_uploads_show_no_noise() -> None:
    masked = [Message(1, Clients(((0, 6),)), torch.zeros(6, WIDTH), CHANGE, "masked", masked=True)]
    assert judge_spread(masked, described(), CLAIM)["verdict"] is Verdict.INCONCLUSIVE


# ------------------------------------------------------------------------------------ the algebra


@pytest.mark.parametrize("continuous", [False, True])
def test_one_sample_is_the_quotient_of_two_gradients(continuous: bool) -> None:
    rng = np.random.default_rng(0)
    sample = rng.normal(size=12) if continuous else (rng.random(12) < 0.4) * 1.0
    error = rng.normal(size=5)
    (found,) = samples_of_change(np.outer(error, sample), error, 1)
    assert found == pytest.approx(sample)


def test_several_binary_samples_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    samples = (rng.random((6, 40)) < 0.2) * 1.0
    errors = rng.normal(size=(16, 6))
    found = samples_of_change(errors @ samples, errors.sum(1), 6)
    assert {tuple(row) for row in found} == {tuple(row) for row in samples}


def test_a_unit_that_only_one_sample_turned_on_shows_it() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(3, 12))
    errors = rng.normal(size=(8, 3))
    errors[:2, 1:] = 0
    found = samples_of_change(errors @ samples, errors.sum(1), 3)
    assert found[0] == pytest.approx(samples[0])


def test_without_a_bias_the_direction_is_left() -> None:
    sample = np.array([0.0, 2.0, 1.0])
    (found,) = samples_of_change(np.outer([-1.0, 3.0], sample), np.zeros(0), 1)
    assert found == pytest.approx(sample / np.linalg.norm(sample))


# ------------------------------------------------------------------------- the writer and its view


def small(path: Path, **more: Any) -> ExchangeWriter:
    layers = (Layer(name="W", shape=(2, 3)), Layer(name="b", shape=(2,)))
    first = FirstLayer(weight="W", bias="b")
    given = {"upload": UPLOAD, "layers": layers, "first_layer": first, **more}
    return ExchangeWriter(path, Exchange(name="small", clients=3, **given))


def test_the_writer_keeps_what_each_party_saw(tmp_path: Path) -> None:
    writer = small(tmp_path / "x")
    writer.sent(1, "f.Model", {"weights": np.arange(8.0)}, range(3))
    for client in range(3):
        writer.received(1, "f.Update", {"change": np.full(8, client)}, client, {"change": "masked"})
    writer.opened(1, "f.Update", {"change": np.full(8, 3.0)}, range(3))
    writer.close()
    folder = tmp_path / "x" / "transcript"
    server = list(view(folder, Adversary.parse("server")))
    assert [seen.header.kind for seen in server] == [
        "f.Model",
        *["f.Update"] * 3,
        "f.Update.sum",
    ]
    own = list(view(folder, Adversary.parse("client:2")))
    assert [seen.header.kind for seen in own] == ["f.Model", "f.Update"]
    assert server[0].header.payload == 3 * 64
    assert broken_link(folder) is None


def test_of_masked_uploads_attacks_read_the_sum(tmp_path: Path) -> None:
    writer = small(tmp_path / "x")
    rng = np.random.default_rng(0)
    samples = {client: (rng.random((1, 3)) < 0.5) * 1.0 for client in range(3)}
    samples[0][0], samples[1][0], samples[2][0] = [1, 0, 0], [0, 1, 0], [0, 0, 1]
    for client in range(3):
        noise = rng.integers(2**31, size=8)
        writer.received(1, "f.Update", {"change": noise}, client, {"change": "masked"})
    writer.opened(1, "f.Update", {"change": np.array([1.0, 1, 1, 2, 2, 2, 3, 6])}, range(3))
    writer.truth(samples)
    writer.close()
    found = findings(tmp_path / "x")["first_layer_samples"]
    assert found.details["exact_samples"] == 0
    assert found.value is not None
    assert found.value.value == pytest.approx(3**-0.5)  # everybody's mean, and no one's sample


def test_uploaded_weights_are_read_as_changes(tmp_path: Path) -> None:
    upload = Upload(kind="f.Update", field="change", holds="weights")
    writer = small(tmp_path / "x", upload=upload, sent=Place(kind="f.Model", field="weights"))
    rng = np.random.default_rng(0)
    before = rng.normal(size=8)
    writer.sent(1, "f.Model", {"weights": before}, range(3))
    samples = {client: rng.normal(size=(1, 3)) for client in range(3)}
    for client, rows in samples.items():
        error = rng.normal(size=2)
        change = np.concatenate([np.outer(error, rows[0]).ravel(), error])
        writer.received(1, "f.Update", {"change": before + change}, client)
    writer.truth(samples)
    writer.close()
    assert findings(tmp_path / "x")["first_layer_samples"].details["exact_samples"] == 1


def test_a_folder_with_something_in_it_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        small(tmp_path)


# ------------------------------------------------------------------------------- bad foreign.yaml


def removed(tree: dict[str, Any]) -> None:
    del tree["upload"]


def misspelt(tree: dict[str, Any]) -> None:
    tree["cleints"] = 3


def no_layer(tree: dict[str, Any]) -> None:
    tree["first_layer"]["weight"] = "W9"


def flat_layer(tree: dict[str, Any]) -> None:
    tree["first_layer"]["weight"] = "b1"


def transposed(tree: dict[str, Any]) -> None:
    tree["first_layer"]["order"] = "inputs_outputs"


def too_small(tree: dict[str, Any]) -> None:
    tree["layers"] = tree["layers"][:2]


def no_such_kind(tree: dict[str, Any]) -> None:
    tree["upload"]["kind"] = "fedavg.Gradient"


def nothing_sent(tree: dict[str, Any]) -> None:
    tree["upload"]["holds"] = "weights"
    del tree["sent"]


def percent(tree: dict[str, Any]) -> None:
    tree["claim"] = {"epsilon": 1, "delta": 5, "clip_l2": 1, "sigma": 1}


def later_format(tree: dict[str, Any]) -> None:
    tree["format"] = 3


BAD = [
    (removed, "upload: found nothing; expected a mapping"),
    (misspelt, "cleints: found an unknown key"),
    (no_layer, "found 'W9' unknown; expected a layer of 2 dimensions out of W1, b1, W2, b2"),
    (flat_layer, "found 'b1' of shape [32]"),
    (transposed, "a bias of 32 numbers; expected 60"),
    (too_small, "has 2051 numbers per client in round 1; layers: add up to 1952"),
    (no_such_kind, "kinds found: fedavg.Update"),
    (nothing_sent, "sent: found nothing"),
    (percent, "claim.delta: found 5; expected a number"),
    (later_format, "format: found 3; expected 2"),
]


@pytest.mark.parametrize(
    ("break_", "message_text"), BAD, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_bad_description_is_answered_in_a_line_or_two(
    plain: Path,
    tmp_path: Path,
    break_: Callable[[dict[str, Any]], None],
    message_text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tree = yaml.safe_load((plain / "foreign.yaml").read_text())
    break_(tree)
    (tmp_path / "foreign.yaml").write_text(yaml.safe_dump(tree))
    shutil.copytree(plain / "transcript", tmp_path / "transcript")
    assert exit_code(monkeypatch, str(tmp_path)) == 2
    said = capsys.readouterr().err
    assert message_text in said
    assert len(said.strip().splitlines()) <= 2


def exit_code(monkeypatch: pytest.MonkeyPatch, path: str) -> int:
    monkeypatch.setattr("sys.argv", ["securefg", "audit", path])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


@pytest.mark.parametrize("text", ["[1, 2", "just words", ""])
def test_a_description_that_is_no_mapping_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "foreign.yaml").write_text(text)
    assert exit_code(monkeypatch, str(tmp_path)) == 2
    assert "foreign.yaml" in capsys.readouterr().err


def test_truth_of_another_width_is_refused(tmp_path: Path) -> None:
    EXCHANGE(tmp_path / "x")
    np.savez(tmp_path / "x" / "private" / "truth.npz", **{"0": np.ones((1, 7))})
    with pytest.raises(ConfigError, match=r"client 0 has an array of shape \(1, 7\)"):
        audit(tmp_path / "x", Plan())


def test_the_command_audits_an_exchange(plain: Path) -> None:
    result = CliRunner().invoke(app, ["audit", str(plain), "--fail-on", "LEAK"])
    assert result.exit_code == 1
    assert "NOT PRIVATE" in result.output
