"""Records that mixed up rounds are refused, and what no attack reads is listed by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import securefg
from audits.findings.record import Finding, Verdict
from audits.plan import Plan
from audits.run import audit
from securefg.foundation.errors import ConfigError
from securefg.protocol.exchange import (
    Claim,
    Exchange,
    ExchangeWriter,
    Layer,
    OutputLayer,
    Place,
    Upload,
)

UPLOAD = Upload(kind="f.Update", field="w", holds="weights")
ROW = np.arange(4.0)


def written(folder: Path, messages: list[tuple[Any, ...]], **more: Any) -> Path:
    """Write messages: ("sent", round, row) or ("got", round, client, row)."""
    keys: dict[str, Any] = {"upload": UPLOAD, "sent": Place(kind="f.Model", field="w"), **more}
    layers = (Layer(name="w", shape=(2, 2)),)
    exchange = Exchange(name="f", clients=2, layers=layers, **keys)
    writer = ExchangeWriter(folder, exchange)
    for what, number, *rest in messages:
        if what == "sent":
            writer.sent(number, "f.Model", {"w": rest[0]}, range(2))
        else:
            writer.received(number, "f.Update", {"w": rest[1]}, rest[0])
    writer.close()
    return folder


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (
            [("sent", 1, ROW), ("got", 1, 0, ROW), ("got", 1, 0, ROW + 1)],
            "two uploads of client 0",
        ),
        (
            [("sent", 1, ROW), ("got", 1, 0, ROW), ("sent", 1, ROW + 1), ("got", 1, 1, ROW)],
            "two different sent models",
        ),
        ([("sent", 1, ROW), ("got", 1, 0, ROW), ("got", 2, 0, ROW)], "no sent model"),
        ([("sent", 1, ROW[:3]), ("got", 1, 0, ROW)], "has 3 numbers"),
        ([("sent", 1, ROW), ("got", 1, 5, ROW)], "client 5"),
        ([("sent", 1, ROW), ("got", 1, 0, ROW.astype(np.int64))], "floating-point"),
    ],
)
def test_record_with_mixed_up_messages_is_refused(
    messages: list[tuple[Any, ...]], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        audit(written(tmp_path / "x", messages), Plan())


def test_record_with_one_model_sent_twice_is_audited(tmp_path: Path) -> None:
    messages = [("sent", 1, ROW), ("sent", 1, ROW), ("got", 1, 0, ROW), ("got", 1, 1, ROW)]
    assert audit(written(tmp_path / "x", messages), Plan()).findings


def test_output_layer_of_other_width_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="classes: found 3; expected 2"):
        written(tmp_path / "x", [], classes=3, output_layer=OutputLayer(weight="w"))


def by_attack(folder: Path) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in audit(folder, Plan()).findings:
        found.setdefault(finding.attack, []).append(finding)
    return found


def record_conv(folder: Path, claim: Claim | None = None) -> Path:
    rng = np.random.default_rng(0)
    arrays = {"conv": rng.normal(size=(2, 1, 3, 3)), "scale": np.array(1.0), "seen": np.array(3)}
    with securefg.record(folder, claim=claim) as recording:
        for number in (1, 2):
            recording.send(number, arrays, range(3))
            for client in range(3):
                upload = {**arrays, "conv": rng.normal(size=(2, 1, 3, 3))}
                recording.upload(client, number, upload, metrics={"loss": 0.1 * client})
                recording.reply(client, number, {"accuracy": 0.5})
    return folder


def test_conv_and_buffers_pass_and_unread_fields_are_listed(tmp_path: Path) -> None:
    findings_by_attack = by_attack(record_conv(tmp_path / "x"))
    unread = {finding.metric for finding in findings_by_attack["unread_field"]}
    assert {
        "recorded.Update.metric.loss",
        "recorded.Update.buffer.seen",
        "recorded.Reply.metric.accuracy",
        "recorded.Update.weights",
    } <= unread
    (samples,) = findings_by_attack["first_layer_samples"]
    assert samples.verdict is Verdict.INCONCLUSIVE
    assert "which weights multiply features is not known" in samples.because
    assert "claim_coverage" not in findings_by_attack


def test_claim_beside_unnoised_metrics_covers_not_all(tmp_path: Path) -> None:
    claim = Claim(epsilon=4, delta=1e-5, clip_l2=1, sigma=5)
    (finding,) = by_attack(record_conv(tmp_path / "x", claim))["claim_coverage"]
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "recorded.Update.metric.loss" in finding.because


def test_labels_outside_the_classes_are_refused(tmp_path: Path) -> None:
    with securefg.record(tmp_path / "x", holds="change", classes=2) as recording:
        recording.upload(0, 1, {"w": np.ones((2, 2)), "b": np.ones(2)})
        recording.truth({0: np.ones((1, 2))}, {0: np.array([2])})
    with pytest.raises(ConfigError, match="expected classes from 0 to 1"):
        audit(tmp_path / "x", Plan())
