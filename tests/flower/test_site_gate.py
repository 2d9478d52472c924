"""The client mod: what leaves, what is booked, and that every failure looks alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from flwr.app import ArrayRecord, Message, MessageType, MetricRecord

from securefg.flower import SiteGate, open_site
from securefg.flower.gate import REFUSED
from securefg.site.books import SiteBooks
from tests.flower.world import MODEL, answer, context, task

SECRET = "patient 4711"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return open_site(tmp_path / "site", clip_l2=1.0, noise_multiplier=2.5)


def trained(message: Message, _: Any) -> Message:
    arrays = {name: value + 1 for name, value in MODEL.items()}
    return answer(message, arrays, loss=0.25, **{"num-examples": 412})


def refused(reply: Message) -> bool:
    return reply.has_error() and (reply.error.code, reply.error.reason) == (2, REFUSED)


def booked(home: Path) -> int:
    return len(SiteBooks(home).releases())


def test_gate_noises_and_books_and_drops_metrics(home: Path) -> None:
    reply = SiteGate()(task(), context(home), trained)
    assert not reply.has_error()
    metrics = reply.content["metrics"]
    assert isinstance(metrics, MetricRecord)
    assert dict(metrics) == {"num-examples": 1}
    arrays = reply.content["arrays"]
    assert isinstance(arrays, ArrayRecord)
    assert {name: array.numpy().shape for name, array in arrays.items()} == {
        "w": (3, 40),
        "b": (3,),
    }
    noise = np.concatenate([array.numpy().ravel() for array in arrays.values()])
    assert 2 < noise.std() < 9  # sigma is 5, over 123 numbers
    assert booked(home) == 1


def test_gate_five_rounds_cost_what_the_calculator_says(home: Path) -> None:
    for number in range(5):
        assert not SiteGate()(task(number=number + 1), context(home), trained).has_error()
    spent = SiteBooks(home).spent("client", 1e-5, None).epsilon
    assert spent == pytest.approx(3.8486, abs=1e-3)


def test_gate_budget_stops_over_all_runs(home: Path) -> None:
    answers = [SiteGate()(task(), context(home, run=run), trained) for run in range(20)]
    sent = [not one.has_error() for one in answers]
    assert sent == [True] * 17 + [False] * 3
    assert all(refused(one) for one in answers[17:])
    assert booked(home) == 17


@pytest.mark.parametrize("kind", [MessageType.EVALUATE, MessageType.QUERY, "evaluate.mine"])
def test_gate_other_messages_are_refused_unread(kind: str, home: Path) -> None:
    called: list[int] = []

    def spy(message: Message, _: Any) -> Message:
        called.append(1)
        return trained(message, _)

    assert refused(SiteGate()(task(kind=kind), context(home), spy))
    assert not called
    assert booked(home) == 0


@pytest.mark.parametrize("error", [ValueError(SECRET), SystemExit(SECRET), KeyboardInterrupt()])
def test_gate_failed_training_is_booked_and_tells_nothing(error: BaseException, home: Path) -> None:
    def failing(message: Message, _: Any) -> Message:
        raise error

    reply = SiteGate()(task(), context(home), failing)
    assert refused(reply)
    assert SECRET not in repr(reply.error)
    assert booked(home) == 1


@pytest.mark.parametrize("error", [None, ValueError(SECRET)])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("group_id", SECRET),
        ("message_id", SECRET),
        ("message_type", "train.4711"),
        ("run_id", 4711),
        ("src_node_id", 4711),
        ("dst_node_id", 4711),
    ],
)
def test_gate_reply_has_nothing_that_the_app_wrote_into_its_task(
    field: str, value: Any, error: Exception | None, home: Path
) -> None:
    def writing(message: Message, _: Any) -> Message:
        reply = trained(message, _)
        message.metadata.__dict__[f"_{field}"] = value
        if error is not None:
            raise error
        return reply

    reply = SiteGate()(task(), context(home), writing)
    assert "4711" not in repr(reply.metadata)
    assert reply.has_error() == (error is not None)


def test_gate_without_a_home_sends_nothing(tmp_path: Path) -> None:
    assert refused(SiteGate()(task(), context(None), trained))
    assert refused(SiteGate()(task(), context(tmp_path / "nowhere"), trained))


def test_gate_takes_no_settings_from_the_run(home: Path) -> None:
    run_config = {"securefg-home": "/elsewhere", "noise_multiplier": 0.0, "clip_l2": 1e9}
    reply = SiteGate()(task(), context(home, **run_config), trained)
    assert not reply.has_error()
    mechanism = SiteBooks(home).releases()[0]["releases"][0]["mechanism"]
    assert mechanism["noise_multiplier"] == 2.5


def test_gate_below_the_floor_sends_nothing(tmp_path: Path) -> None:
    home = open_site(tmp_path / "site", clip_l2=1.0, noise_multiplier=0.5)
    assert refused(SiteGate()(task(), context(home), trained))
    lines = (home / "refusals.jsonl").read_text().splitlines()
    reasons = [json.loads(line)["reason"] for line in lines]
    assert any("noise multiplier 0.5; wanted 1" in reason for reason in reasons)


def test_gate_damaged_settings_send_nothing(home: Path) -> None:
    (home / "gate.yaml").write_text(yaml.safe_dump({"clip_l2": 1.0, "noise_multiplier": 0}))
    assert refused(SiteGate()(task(), context(home), trained))


@pytest.mark.parametrize(
    ("came", "noise"), [(np.array(3), 0), (np.array(3.0), 200)], ids=["sent", "averaged"]
)
def test_gate_batch_norm_counter_leaves_as_it_came(came: Any, noise: float, home: Path) -> None:
    model = {**MODEL, "seen": came, "scale": np.array(1.0, np.float32)}

    def counting(message: Message, _: Any) -> Message:
        return answer(message, {**model, "seen": np.array(412)})

    reply = SiteGate()(task(model), context(home), counting)
    arrays = reply.content["arrays"]
    assert isinstance(arrays, ArrayRecord)
    assert abs(arrays["seen"].numpy() - 3) <= noise
    assert (arrays["seen"].numpy() == 3) == (noise == 0)
    assert arrays["scale"].numpy().shape == ()


@pytest.mark.parametrize(
    "arrays",
    [
        {"w": MODEL["w"]},
        {**MODEL, SECRET: MODEL["b"]},
        {"w": MODEL["w"], "b": np.zeros(4, np.float32)},
        {"w": MODEL["w"], "b": np.zeros(3, np.int64)},
    ],
)
def test_gate_other_arrays_are_refused_and_booked(arrays: dict[str, Any], home: Path) -> None:
    reply = SiteGate()(task(), context(home), lambda message, _: answer(message, arrays))
    assert refused(reply)
    assert booked(home) == 1


def test_gate_budget_stops_repeated_refusals(home: Path) -> None:
    trainings: list[int] = []

    def unfit(message: Message, _: Any) -> Message:
        trainings.append(1)
        return answer(message, {"w": MODEL["w"]})

    assert all(refused(SiteGate()(task(), context(home, run=run), unfit)) for run in range(20))
    assert (booked(home), len(trainings)) == (17, 17)
    assert refused(SiteGate()(task(), context(home, run=21), trained))


def test_gate_nan_update_is_noised_like_others(home: Path) -> None:
    broken = {name: value * np.nan for name, value in MODEL.items()}
    reply = SiteGate()(task(), context(home), lambda message, _: answer(message, broken))
    arrays = reply.content["arrays"]
    assert isinstance(arrays, ArrayRecord)
    assert all(np.isfinite(array.numpy()).all() for array in arrays.values())


def test_gate_app_cannot_change_the_base_in_place(home: Path) -> None:
    def hostile(message: Message, _: Any) -> Message:
        shifted = {name: np.full_like(value, 1e6) for name, value in MODEL.items()}
        message.content["arrays"] = answer(message, shifted).content["arrays"]
        return answer(message, shifted)

    reply = SiteGate()(task(), context(home), hostile)
    arrays = reply.content["arrays"]
    assert isinstance(arrays, ArrayRecord)
    assert max(np.abs(array.numpy()).max() for array in arrays.values()) < 100
