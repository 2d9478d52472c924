"""The recorder: every strategy's messages, rounds by the strategy's own numbers, and the audit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian

from audits.findings.record import Finding, Verdict
from audits.plan import Plan
from audits.run import audit
from securefg.flower import Recorded, SiteGate, SiteNote, add_truth, open_site
from securefg.foundation.errors import ConfigError
from securefg.protocol.exchange import Claim, read_exchange
from securefg.protocol.transcript import read_transcript
from tests.flower.world import MODEL, NearGrid, answer, array_record, context, task

NODES = [10**18 + number for number in range(12)]
RNG = np.random.default_rng(0)
DATA = {node: ((RNG.random((1, 40)) < 0.5) * 1.0, RNG.integers(3, size=1)) for node in NODES}
for rows, _ in DATA.values():
    rows[0, 0] = 1.0


def train(node: int, model: dict[str, Any]) -> dict[str, Any]:
    """One gradient step of a softmax regression on the node's sample."""
    x, y = DATA[node]
    scores = x @ model["w"].T + model["b"]
    error = np.exp(scores) / np.exp(scores).sum(1, keepdims=True) - np.eye(3)[y]
    moved = {"w": error.T @ x, "b": error.sum(0)}
    return {name: (model[name] - 0.1 * moved[name]).astype(np.float32) for name in model}


def app(message: Message, _: Any) -> Message:
    if message.metadata.message_type == MessageType.EVALUATE:
        metrics = MetricRecord({"eval_loss": 0.5, "num-examples": 1})
        return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
    arrays = message.content["arrays"]
    assert isinstance(arrays, ArrayRecord)
    model = {name: array.numpy() for name, array in arrays.items()}
    return answer(message, train(message.metadata.dst_node_id, model), **{"num-examples": 1})


def nodes_with(homes: Path, mod: Any) -> Callable[[Message], Message]:
    def reply(message: Message) -> Message:
        node = message.metadata.dst_node_id
        own = context(homes / str(node))
        own.node_id = node
        found: Message = mod(message, own, app)
        return found

    return reply


def run(out: Path, mod: Any, strategy: Any = None, rounds: int = 5, **description: Any) -> None:
    grid = NearGrid(NODES, nodes_with(out / "sites", mod))
    chosen = strategy or FedAvg(fraction_evaluate=1.0)
    with Recorded(
        grid, out / "exchange", classes=3, optimizer="sgd", lr=0.1, **description
    ) as seen:
        chosen.start(grid=seen, initial_arrays=array_record(MODEL), num_rounds=rounds)
    for node, (x, y) in DATA.items():
        add_truth(out / "exchange", out / "sites" / str(node), x, y)


def findings(out: Path) -> dict[str, Finding]:
    return {one.attack: one for one in audit(out / "exchange", Plan()).findings}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain")
    run(out, SiteNote())
    return out


def gated(out: Path, rounds: int = 5, noise: float = 2.5, **claim: float) -> None:
    for node in NODES:
        open_site(out / "sites" / str(node), clip_l2=1.0, noise_multiplier=noise)
    told = {"epsilon": 3.85, "delta": 1e-5, "clip_l2": 1.0, "sigma": 5.0, **claim}
    run(out, SiteGate(), rounds=rounds, claim=Claim(**told))


def test_recorded_plain_run_leaks_samples_and_labels(plain: Path) -> None:
    found = findings(plain)
    assert found["first_layer_samples"].verdict is Verdict.LEAK
    assert found["gradient_labels"].verdict is Verdict.LEAK
    records = list(read_transcript(plain / "exchange" / "transcript"))
    assert {r.round for r in records} == {1, 2, 3, 4, 5}
    unread = {one.metric for one in audit(plain / "exchange", Plan()).findings}
    assert "recorded.Reply.metric.metrics.eval_loss" in unread


def test_recorded_gated_run_is_bounded_and_its_claim_holds(tmp_path: Path) -> None:
    gated(tmp_path)
    findings_by_attack = findings(tmp_path)
    assert findings_by_attack["claim_accounting"].verdict is Verdict.NOT_DETECTED
    assert findings_by_attack["claim_noise"].verdict is not Verdict.VIOLATION
    for attack in ("first_layer_samples", "gradient_labels"):
        assert findings_by_attack[attack].verdict is not Verdict.LEAK


def test_recorded_budget_ends_the_uploads(tmp_path: Path) -> None:
    gated(tmp_path, rounds=20)
    uploads = [
        record.round
        for record in read_transcript(tmp_path / "exchange" / "transcript")
        if record.kind == "recorded.Update"
    ]
    assert sorted(set(uploads)) == list(range(1, 18))


@pytest.mark.parametrize(
    ("claim", "finding"),
    [
        ({"sigma": 10.0, "epsilon": 1.8}, "claim_noise"),
        ({"epsilon": 1.0}, "claim_accounting"),
        ({"sigma": 0.0969, "epsilon": 50.0}, "claim_accounting"),
    ],
    ids=["half the noise", "too small an epsilon", "classical formula at 50"],
)
def test_recorded_wrong_claim_is_a_violation(
    claim: dict[str, float], finding: str, tmp_path: Path
) -> None:
    gated(tmp_path, **claim)
    assert findings(tmp_path)[finding].verdict is Verdict.VIOLATION


def test_recorded_mod_of_flower_does_not_keep_its_epsilon(tmp_path: Path) -> None:
    """Its noise is that of the classical formula, per release, and five rounds are not added up."""
    mod = LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=10.0, delta=1e-5)
    sigma = math.sqrt(2 * math.log(1.25 / 1e-5)) / 10
    claim = Claim(epsilon=10.0, delta=1e-5, clip_l2=1.0, sigma=sigma, neighbours="remove")
    grid = NearGrid(NODES, nodes_with(tmp_path / "sites", mod))
    with Recorded(grid, tmp_path / "exchange", classes=3, claim=claim) as seen:
        FedAvg(fraction_evaluate=0.0).start(
            grid=seen, initial_arrays=array_record(MODEL), num_rounds=5
        )
    assert findings(tmp_path)["claim_accounting"].verdict is Verdict.VIOLATION


@pytest.mark.parametrize("strategy", [FedAdam, FedMedian])
def test_recorded_other_strategies_are_recorded(strategy: Any, tmp_path: Path) -> None:
    run(tmp_path, SiteNote(), strategy(fraction_evaluate=0.0), rounds=2)
    assert read_exchange(tmp_path / "exchange").clients == 12


def test_recorded_pushed_and_pulled_messages_are_recorded(tmp_path: Path) -> None:
    grid = NearGrid(NODES[:2], lambda message: answer(message, MODEL, loss=0.5))
    with Recorded(grid, tmp_path / "x") as seen:
        ids = seen.push_messages([task(number=4, node=node) for node in NODES[:2]])
        assert len(list(seen.pull_messages(ids))) == 2
    rounds = [record.round for record in read_transcript(tmp_path / "x" / "transcript")]
    assert set(rounds) == {4}
    assert json.loads((tmp_path / "x" / "nodes.json").read_text()) == {
        str(NODES[0]): 0,
        str(NODES[1]): 1,
    }


def test_recorded_second_task_in_a_round_is_refused(tmp_path: Path) -> None:
    grid = NearGrid(NODES[:1], lambda message: answer(message, MODEL))
    with Recorded(grid, tmp_path / "x") as seen:
        seen.send_and_receive([task(node=NODES[0])])
        with pytest.raises(ConfigError, match="second upload"):
            seen.send_and_receive([task(node=NODES[0])])


def test_recorded_errors_are_listed_by_code(tmp_path: Path) -> None:
    def half(message: Message) -> Message:
        if message.metadata.dst_node_id == NODES[0]:
            return Message(Error(code=2, reason="x"), reply_to=message)
        return answer(message, MODEL)

    with Recorded(NearGrid(NODES[:2], half), tmp_path / "x") as seen:
        seen.send_and_receive([task(node=node) for node in NODES[:2]])
    unread = {one.metric for one in audit(tmp_path / "x", Plan()).findings}
    assert "recorded.Reply.metric.error" in unread
