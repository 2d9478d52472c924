"""A site that owns its key and lies: it is named and dropped, the others go on, figures stand."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from securefg.protocol import codec
from securefg.protocol.transcript import read_transcript
from securefg.runs.folder import RunFolder
from securefg.site.certificates import Signer
from securefg.site.packets import REPLY, Packet, Route, seal_packet
from tests.small import config
from tests.unit.flare.federation_world import Deliver, World, certificates

Lie = Callable[[dict[str, Any], bytes], tuple[Any, bytes]]
Said = dict[str, Any]
NOISE = "privacy={mechanism: local_gaussian, noise_multiplier: 2}"
PLAIN_FEDGL = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}"
LIAR = Signer.load(certificates() / "site-2" / "startup")


def told_by_site_2(world: World, lies: list[Lie], do: str = "answer", **job: Any) -> RunFolder:
    """A run in which site 2 signs, round by round, what the next lie makes of its reply."""
    left = iter(lies)

    def between(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        reply = deliver(site, packet)
        if site == "site-2" and json.loads(packet.header)["content"]["do"] == do:
            lie = next(left, None)
            assert reply is not None
            if lie is not None:
                header = json.loads(reply.header)
                content, blob = lie(header["content"], reply.blob)
                route = Route("job", "site-2", "localhost", header["number"])
                return seal_packet(LIAR, REPLY, route, content, blob)
        return reply

    world.between = between
    return world.run(world.job(**job))


def in_the_message(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Lie:
    def lie(content: dict[str, Any], blob: bytes) -> tuple[Any, bytes]:
        envelope = codec.unframe(blob)
        fields = change(codec.decode_fields(envelope.body))
        framed = codec.frame_fields(envelope, fields)
        return {**content, "lengths": [len(framed)]}, framed

    return lie


def in_the_envelope(**changes: Any) -> Lie:
    def lie(content: dict[str, Any], blob: bytes) -> tuple[Any, bytes]:
        framed = codec.frame(dataclasses.replace(codec.unframe(blob), **changes))
        return {**content, "lengths": [len(framed)]}, framed

    return lie


def in_the_claims(change: Callable[[dict[str, Any]], Any]) -> Lie:
    def lie(content: dict[str, Any], blob: bytes) -> tuple[Any, bytes]:
        releases = [change(release) for release in content["results"][0]["releases"]]
        return {**content, "results": [{"releases": releases}]}, blob

    return lie


def without_noise(release: dict[str, Any]) -> dict[str, Any]:
    return {**release, "mechanism": {**release["mechanism"], "noise_multiplier": 1000.0}}


LIES: dict[str, Lie] = {
    "no numbers": in_the_message(
        lambda f: {k: torch.full_like(v, torch.nan) for k, v in f.items()}
    ),
    "another shape": in_the_message(lambda f: {k: v[:, :1] for k, v in f.items()}),
    "more rows": in_the_message(lambda f: {k: torch.cat([v, v]) for k, v in f.items()}),
    "another field": in_the_message(lambda f: {**f, "more": torch.zeros(1, 1)}),
    "no field": in_the_message(lambda f: {}),
    "another sender": in_the_envelope(sender="client-0"),
    "another kind": in_the_envelope(kind="fedgl.Evil"),
    "another round": in_the_envelope(round=77),
    "bytes": lambda content, blob: ({**content, "lengths": [3]}, b"abc"),
    "lengths": lambda content, blob: ({**content, "lengths": [-1, 5]}, blob),
    "no content": lambda content, blob: ([], b""),
    "no results": lambda content, blob: ({}, b""),
    "results": lambda content, blob: ({**content, "results": ["x"]}, blob),
    "a false refusal": lambda c, b: ({"breach": "BudgetExceeded", "reason": "because"}, b""),
    "a false bug": lambda c, b: ({"breach": "SystemExit", "reason": {"a": 1}}, b""),
    "no claims": lambda c, b: ({**c, "results": [{"releases": []}]}, b),
    "claims": lambda c, b: ({**c, "results": [{"releases": [{"mechanism": 3}]}]}, b),
    "claims for others": in_the_claims(lambda r: {**r, "clients": "0-2"}),
    "claims of nobody": in_the_claims(lambda r: {**r, "clients": "7"}),
    "claims of more noise": in_the_claims(without_noise),
    "dropped": lambda c, b: ({**c, "results": [{"dropped": {"x": [1] * 1000}}]}, b""),
}


def test_lies_are_drop_outs_and_change_no_figure(tmp_path: Path) -> None:
    rounds = f"training.rounds={len(LIES) + 1}"
    chosen = config(tmp_path, NOISE, PLAIN_FEDGL, rounds, "engine.patience=1")
    folder = told_by_site_2(World(tmp_path, chosen), list(LIES.values()))
    metrics = folder.metrics()
    assert [line["dropped"] for line in metrics] == [*range(1, len(LIES) + 1), len(LIES)]
    records = [r for r in read_transcript(folder.transcript) if r.kind == "dropped"]
    assert {r.sender for r in records} == {"client-1"}
    reasons = dict(zip(LIES, (r.note for r in records), strict=True))
    assert "not finite" in reasons["no numbers"]
    assert "where most sent" in reasons["another shape"]
    assert "site-2 sent nonsense: no results" in reasons["a false refusal"]
    for name in ("no claims", "claims for others", "claims of nobody", "claims of more noise"):
        assert "claims other releases" in reasons[name], reasons[name]
    honest = World(tmp_path / "honest", chosen).run().metrics()
    assert metrics[-1]["epsilon"] == honest[-1]["epsilon"]  # of the worst client, who is honest


FALSE_SCORES: list[Said] = [
    {"test_correct": 10**9, "test_count": 10**9},
    {"test_correct": 5, "test_count": 4},
    {"val_count": -1},
    {"client": 0},
    {"client": 99},
    {"val_loss": -1.0},
    {"val_loss": "low"},
    {"test_correct": 1.5},
    {"rows": [[1.0]]},
]


def test_false_scores_are_not_used(tmp_path: Path) -> None:
    def lying(score: Said) -> Lie:
        def lie(content: Said, blob: bytes) -> tuple[Any, bytes]:
            told = [{**one, **score} for one in content["results"][0]["scores"]]
            return {**content, "results": [{"scores": told}]}, blob

        return lie

    rounds = len(FALSE_SCORES) - 1  # and one when the run is over
    world = World(tmp_path, config(tmp_path, f"training.rounds={rounds}"))
    lies = [lying(score) for score in FALSE_SCORES]
    folder = told_by_site_2(world, lies, "measure", has_truth=False)
    summary, metrics = folder.summary(), folder.metrics()
    assert sorted(summary.local_test_accuracy.by_client) == ["0", "2"]
    assert all(0 <= line["test_accuracy"] <= 1 for line in metrics)
    ended = json.loads((folder.path / "private" / "outcome.json").read_text())
    assert "scores were not used" in ended["complaints"]["site-2"]
