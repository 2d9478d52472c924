"""Recordings of any loop: what is written, what is refused, and that no torch is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import securefg
from securefg.foundation.errors import ConfigError
from securefg.protocol import codec
from securefg.protocol.exchange import body_parts, is_foreign, read_exchange
from securefg.protocol.recording import Recording
from securefg.protocol.transcript import broken_link, read_transcript

MODEL = {"w": np.ones((2, 3), np.float32), "b": np.zeros(2, np.float32)}


def small(folder: Path, **more: Any) -> Recording:
    return securefg.record(folder, **more)


def test_record_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, securefg\n"
        f"with securefg.record({str(tmp_path / 'x')!r}, holds='change') as r:\n"
        "    r.upload(0, 1, [np.ones((2, 2))])\n"
        "assert 'torch' not in sys.modules, 'torch'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert is_foreign(tmp_path / "x")


def test_record_body_equals_the_codecs() -> None:
    arrays = {"b": np.zeros((1, 3), np.float32), "a": np.ones((1, 2)), "n": np.array([3])}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    assert b"".join(body_parts(arrays)) == codec.encode_fields(tensors)


def test_record_sizes_equal_the_frames(tmp_path: Path) -> None:
    with small(tmp_path / "x") as recording:
        recording.send(1, MODEL, [0, 2])
        recording.upload(2, 1, MODEL)
    for record in read_transcript(tmp_path / "x" / "transcript"):
        clients = codec.Clients.parse(record.clients)
        sizes = codec.Size()
        for receiver in record.receivers:
            parts = (record.seq, record.round, record.step, record.sender, receiver, record.kind)
            sizes += codec.size_of(codec.frame(codec.Envelope(*parts, clients, record.body)))
        assert (record.payload, record.envelope) == (sizes.payload, sizes.envelope)


def test_record_describes_layers_classes_and_training(tmp_path: Path) -> None:
    with small(tmp_path / "x", optimizer="sgd", lr=0.5, steps=4, classes=2) as recording:
        recording.send(1, MODEL, [0, 1])
        recording.upload(1, 1, MODEL)
    exchange_record = read_exchange(tmp_path / "x")
    assert exchange_record.first_layer is not None
    assert (exchange_record.first_layer.weight, exchange_record.first_layer.bias) == ("w", "b")
    assert exchange_record.output_layer is not None
    assert exchange_record.output_layer.weight == "w"
    assert exchange_record.training is not None
    assert (exchange_record.training.steps, exchange_record.training.lr) == (4, 0.5)
    assert exchange_record.clients == 2
    assert broken_link(tmp_path / "x" / "transcript", exchange_record.chain) is None


@pytest.mark.parametrize(
    "first",
    [
        {"conv": np.ones((4, 1, 3, 3)), "conv_bias": np.ones(4), "fc": np.ones((2, 8))},
        {"embedding": np.ones((50, 8)), "norm": np.ones(8), "fc": np.ones((2, 8))},
    ],
    ids=["convolution", "embedding"],
)
def test_record_other_first_layers_are_not_guessed(
    first: dict[str, np.ndarray[Any, Any]], tmp_path: Path
) -> None:
    with small(tmp_path / "x", holds="change") as recording:
        recording.upload(0, 1, first)
    assert read_exchange(tmp_path / "x").first_layer is None


def test_record_batch_norm_buffers_are_fields_of_their_own(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    state = network.state_dict()
    assert state["1.num_batches_tracked"].ndim == 0
    state["scale"] = torch.tensor(2.0)
    with small(tmp_path / "x") as recording:
        recording.send(1, state, [0])
        recording.upload(0, 1, state)
    (_, upload) = read_transcript(tmp_path / "x" / "transcript")
    fields = upload.fields()
    assert set(fields) == {"weights", "buffer.1.num_batches_tracked"}
    assert read_exchange(tmp_path / "x").layers[-1].shape == ()


def test_record_averaged_counter_stays_a_buffer(tmp_path: Path) -> None:
    """A server that averages BatchNorm's counter sends a fraction from the second round on."""
    with small(tmp_path / "x") as recording:
        for number, seen in ((1, np.array(3)), (2, np.array(3.5))):
            recording.send(number, {**MODEL, "seen": seen}, [0])
            recording.upload(0, number, {**MODEL, "seen": np.array(4)})
    sizes = set()
    for message in read_transcript(tmp_path / "x" / "transcript"):
        weights = message.fields()["weights"]
        assert isinstance(weights, torch.Tensor)
        sizes.add(weights.numel())
    assert sizes == {8}


def test_record_second_upload_of_a_round_is_refused(tmp_path: Path) -> None:
    with small(tmp_path / "x", holds="change") as recording:
        recording.upload(0, 1, MODEL)
        with pytest.raises(ConfigError, match="second upload of client 0"):
            recording.upload(0, 1, MODEL)
        recording.upload(0, 2, MODEL)


def test_record_second_model_of_a_round_is_refused(tmp_path: Path) -> None:
    with small(tmp_path / "x") as recording:
        recording.send(1, MODEL, [0])
        recording.send(1, MODEL, [1])
        with pytest.raises(ConfigError, match="second, different sent model"):
            recording.send(1, {"w": MODEL["w"] + 1, "b": MODEL["b"]}, [2])


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"w": np.ones((2, 4)), "b": np.zeros(2)}, "expected those of the first call"),
        ({"b": MODEL["b"], "w": MODEL["w"]}, "expected those of the first call"),
        ({"w": MODEL["w"]}, "expected those of the first call"),
        ({"w": np.array(["x"]), "b": MODEL["b"]}, "expected numbers"),
        ({"w": MODEL["w"] * 1j, "b": MODEL["b"]}, "expected numbers"),
    ],
)
def test_record_other_arrays_are_refused(arrays: dict[str, Any], said: str, tmp_path: Path) -> None:
    with small(tmp_path / "x", holds="change") as recording:
        recording.upload(0, 1, MODEL)
        with pytest.raises(ConfigError, match=said):
            recording.upload(1, 1, arrays)


@pytest.mark.parametrize(("client", "number"), [(-1, 1), (True, 1), (0.0, 1), (0, -1), (0, "1")])
def test_record_bad_numbers_are_refused(client: Any, number: Any, tmp_path: Path) -> None:
    with (
        small(tmp_path / "x", holds="change") as recording,
        pytest.raises(ConfigError, match="found"),
    ):
        recording.upload(client, number, MODEL)
    assert not is_foreign(tmp_path / "x")


@pytest.mark.parametrize("value", ["high", None, {"a": 1}])
def test_record_metric_without_numbers_is_refused(value: Any, tmp_path: Path) -> None:
    with (
        small(tmp_path / "x", holds="change") as recording,
        pytest.raises(ConfigError, match="metric loss"),
    ):
        recording.upload(0, 1, MODEL, metrics={"loss": value})


def test_record_nan_metric_and_weights_are_kept(tmp_path: Path) -> None:
    with small(tmp_path / "x", holds="change") as recording:
        recording.upload(0, 1, {"w": MODEL["w"] * np.nan, "b": MODEL["b"]}, {"loss": np.inf})
    (record,) = read_transcript(tmp_path / "x" / "transcript")
    value = record.fields()["metric.loss"]
    assert isinstance(value, torch.Tensor)
    assert torch.isinf(value).all()


def test_record_wrong_layer_name_is_refused_at_the_first_call(tmp_path: Path) -> None:
    with (
        small(tmp_path / "x", first_layer="nothing") as recording,
        pytest.raises(ConfigError, match="'nothing' unknown"),
    ):
        recording.send(1, MODEL, [0])


def test_record_after_close_is_refused(tmp_path: Path) -> None:
    with small(tmp_path / "x", holds="change") as recording:
        recording.upload(0, 1, MODEL)
    with pytest.raises(ConfigError, match="closed recording"):
        recording.upload(1, 1, MODEL)


def test_record_page_example_leaks_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audits.findings.record import Verdict
    from audits.plan import Plan
    from audits.run import audit

    page = Path("docs/howto/record.md").read_text()
    code, *_ = re.findall(r"```python\n(.*?)```", page, re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/howto/record.md", "exec"), {})
    found = {f.attack: f for f in audit(Path("exchange"), Plan()).findings}
    assert found["first_layer_samples"].verdict is Verdict.LEAK
    assert found["gradient_labels"].verdict is Verdict.LEAK
    unread = [f.metric for f in audit(Path("exchange"), Plan()).findings]
    assert "recorded.Update.metric.num_examples" in unread
