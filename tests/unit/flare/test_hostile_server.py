"""A server that owns its key and lies: it gets what the plan has in it, and no more."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope
from securefg.site.certificates import Signer
from securefg.site.packets import REQUEST, Packet, Route, seal_packet
from securefg.site.policy import POLICY_FILE
from tests.small import config
from tests.unit.flare.federation_world import Deliver, World, certificates

Change = Callable[[Envelope], Envelope]
SERVER = Signer.load(certificates() / "localhost" / "startup")


def resealed(packet: Packet, site: str, content: dict[str, Any], blob: bytes) -> Packet:
    number = json.loads(packet.header)["number"]
    return seal_packet(SERVER, REQUEST, Route("job", "localhost", site, number), content, blob)


def asks(packet: Packet, do: str = "answer") -> bool:
    return bool(json.loads(packet.header)["content"]["do"] == do)


def changed(packet: Packet, site: str, change: Change) -> Packet:
    blob = codec.frame(change(codec.unframe(packet.blob)))
    content = json.loads(packet.header)["content"] | {"lengths": [len(blob)]}
    return resealed(packet, site, content, blob)


def with_index(size: int) -> Change:
    def change(envelope: Envelope) -> Envelope:
        fields = codec.decode_fields(envelope.body)
        if "index_size" not in fields:
            return envelope
        return dataclasses.replace(
            envelope, body=codec.encode_fields(fields | {"index_size": size})
        )

    return change


def instead(**changes: Any) -> Change:
    return lambda envelope: dataclasses.replace(envelope, **changes)


BEYOND: list[tuple[Change, str]] = [
    (instead(clients=Clients(((0, 3),))), "asked for the clients 0-2"),
    (instead(clients=Clients(((1, 2),))), "asked for the clients 1"),
    (instead(clients=Clients(((0, 10**12),))), "wanted clients below"),
    (instead(clients=Clients(())), "asked for the clients"),
    (instead(round=50), "the plan has 15 rounds"),
    (instead(round=-1), "the plan has 15 rounds"),
    (instead(step=10**6), "the plan has 15 rounds"),
    (instead(step="1"), "wanted numbers"),
    (instead(round=1, step=1), "was answered before"),
    (instead(receiver="../x"), "came to client-0"),
    (with_index(10**9), "index_size is 1000000000; the plan has"),
    (with_index(-1), "index_size is -1"),
    (with_index(119), "index_size: found 119; expected whole numbers from 120 to 120"),
]
FAILURE = {"results": [{"failed": True}], "lengths": [0]}


def test_requests_beyond_the_plan_are_refused_and_nothing_is_booked(tmp_path: Path) -> None:
    """One honest round, then in every round another wish."""
    plain = "method={name: fedgl, pseudo_labels: true, pseudo_graph: false}"
    world = World(tmp_path, config(tmp_path, "training.rounds=15", plain))
    refusal_reasons: list[str] = []

    def lie(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        number = codec.unframe(packet.blob).round - 2 if asks(packet) else -1
        if site == "site-1" and 0 <= number < len(BEYOND):
            packet = changed(packet, site, BEYOND[number][0])
            reply = deliver(site, packet)
            assert reply is not None
            assert json.loads(reply.header)["content"] == FAILURE
            refusal_reasons.append(world.noted(site)[-1]["reason"])
            assert BEYOND[number][1] in refusal_reasons[-1], (
                BEYOND[number][1],
                refusal_reasons[-1],
            )
            return reply
        return deliver(site, packet)

    world.between = lie
    world.run()
    assert len(refusal_reasons) == len(BEYOND)
    rounds = {line["request"]["round"] for line in world.booked("site-1")}
    assert rounds == {1, 15}


def test_a_round_is_answered_once_and_no_more_rounds_than_planned(tmp_path: Path) -> None:
    """The server asks again and again, as if every time were the first."""
    world = World(tmp_path, config(tmp_path, "training.rounds=2"))
    answered_numbers: list[str] = []

    def again(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        reply = deliver(site, packet)
        if site == "site-1" and asks(packet):
            for more in range(3):
                number = json.loads(packet.header)["number"] + more / 10 + 0.1
                answered_numbers.append(str(number))
                route = Route("job", "localhost", site, json.loads(packet.header)["number"])
                content = json.loads(packet.header)["content"]
                repeated = seal_packet(SERVER, REQUEST, route, content, packet.blob)
                assert deliver(site, repeated) is None
        return reply

    world.between = again
    world.run()
    assert len(answered_numbers) > 0
    assert len(world.left("site-1")) == len(world.left("site-2"))


def test_a_field_leaves_no_oftener_than_planned_over_all_submissions(tmp_path: Path) -> None:
    """The server says that it never got beyond the start, and has the run done once more."""
    world = World(tmp_path, config(tmp_path, "training.rounds=2"))
    world.policy("site-1", "submissions: 2")
    for _ in range(3):
        path, error = world.start(world.job()).execute()
        if error is None:
            shutil.rmtree(path)
    assert "taken up 2 times; allowed here: 2" in str(error)
    weights = [line for line in world.left("site-1") if "Update.weights" in line]
    assert len(weights) == 4


def test_crafted_models_are_scored_once_a_round_without_the_training_loss(tmp_path: Path) -> None:
    """Finite differences of a told loss were a client's gradient: now a second model gets none."""
    world = World(tmp_path, config(tmp_path, "training.rounds=2"))
    scores: list[Any] = []

    def probe(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        reply = deliver(site, packet)
        if site == "site-1" and asks(packet, "measure"):
            if reply is None:
                return None  # the server is behind: it used these numbers itself
            scores.append(json.loads(reply.header)["content"]["results"][0]["scores"])
            number = json.loads(packet.header)["number"]
            for more in range(1, 4):
                route = Route("job", "localhost", site, number + more)
                content = json.loads(packet.header)["content"]
                crafted = deliver(site, seal_packet(SERVER, REQUEST, route, content, packet.blob))
                if crafted is not None:
                    assert json.loads(crafted.header)["content"]["results"] == [{"scores": []}]
        return reply

    world.between = probe
    world.run(world.job(has_truth=False))
    assert scores[0]
    wanted = {"client", "val_loss", "val_correct", "val_count", "test_correct", "test_count"}
    wanted |= {"val_precision", "test_precision"}
    assert all(set(score) == wanted for told in scores for score in told)
    assert all(score["val_loss"] == round(score["val_loss"], 2) for t in scores for score in t)


def with_weights(count: int) -> Change:
    """A model that fits no network."""

    def change(envelope: Envelope) -> Envelope:
        fields = codec.decode_fields(envelope.body) | {"weights": torch.zeros(count)}
        return dataclasses.replace(envelope, body=codec.encode_fields(fields))

    return change


def test_what_goes_wrong_at_a_site_is_told_without_its_files_and_sizes(tmp_path: Path) -> None:
    """FLARE sends the text of an exception back to whoever asked."""
    world = World(tmp_path, config(tmp_path, "training.rounds=3"))
    home, failure_contents = str(world.kits.home("site-1")), list[dict[str, Any]]()

    def meddle(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        if site == "site-1" and asks(packet, "measure") and not failure_contents:
            reply = deliver(site, changed(packet, site, with_weights(7)))
            assert reply is not None
            failure_contents.append(json.loads(reply.header)["content"])
            return reply
        return deliver(site, packet)

    world.between = meddle
    world.run(world.job(has_truth=False))
    assert failure_contents == [FAILURE]
    (noted,) = world.noted("site-1")  # the site itself can read what it was
    assert noted["at"] == "request"
    assert "fedgl.Globals.weights: found the shape (7,); expected (" in noted["reason"]
    (world.kits.home("site-1") / POLICY_FILE).unlink()
    world.between = lambda site, packet, deliver: deliver(site, packet)
    shutil.rmtree(world.kits.server / "securefg_runs")
    _, error = world.start(world.job(), "again").execute()
    assert "site-1 refuses: no policy of this site: its home/site_policy.yaml" in str(error)
    assert home not in str(error)


NONSENSE: list[dict[str, Any]] = [
    {"do": "answer"},
    {"do": "answer", "to": "site-1", "hosts": "client-0", "lengths": []},
    {"do": "answer", "to": "site-1", "hosts": ["client-0", "client-0"], "lengths": [0, 0]},
    {"do": "answer", "to": "site-1", "hosts": [[]], "lengths": [0]},
    {"do": "answer", "to": "site-1", "hosts": ["client-0"], "lengths": [-1]},
    {"do": "answer", "to": "site-1", "hosts": ["client-0"], "lengths": [0.5]},
    {"do": "load", "to": "site-1", "hosts": ["client-0"], "lengths": [0], "tag": "../../x"},
    {"do": "save", "to": "site-1", "hosts": ["client-0"], "lengths": [0], "tag": ""},
    {"do": "exec", "to": "site-1", "hosts": ["client-0"], "lengths": [0]},
    {"do": "begin", "digest": 3, "attempt": "x", "after_round": None},
    {},
]


def test_nonsense_of_the_server_is_refused_in_words(tmp_path: Path) -> None:
    rounds = len(NONSENSE) + 1
    plain = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false}"
    world = World(tmp_path, config(tmp_path, f"training.rounds={rounds}", plain))
    left, seen = iter(NONSENSE), list[dict[str, Any]]()

    def babble(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        content = next(left, None) if site == "site-1" and asks(packet) else None
        if content is None:
            return deliver(site, packet)
        reply = deliver(site, resealed(packet, site, content, b""))
        assert reply is not None
        seen.append(json.loads(reply.header)["content"])
        return reply

    world.between = babble
    world.run()
    assert len(seen) == len(NONSENSE)
    assert all({"failed": True} in told["results"] for told in seen)
    assert all(told == FAILURE for told in seen if len(told["results"]) == 1)
    assert len(world.noted("site-1")) == len(NONSENSE)
    assert {line["request"]["round"] for line in world.booked("site-1")} == {rounds}
