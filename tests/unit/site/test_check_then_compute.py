"""A real site checks a request, books it, and only then lets its host see it.

Every field of every message of every shipped method is sent with values inside, at and outside its
bounds to two sites that differ in private data and in nothing else. Both give the same kind of
answer to every request, and each books one line for every request that its host saw.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from securefg.data.shard import Shard
from securefg.methods.registry import get_method
from securefg.protocol import codec
from securefg.protocol.bounds import Bound
from securefg.protocol.messages import Message
from securefg.runs.assembly import prepare
from securefg.settings.config import RunConfig, parse_config
from securefg.settings.methods import SHIPPED
from securefg.site.packets import Packet
from tests.small import config
from tests.unit.flare.federation_world import Deliver, World
from tests.unit.site.lying_server import FAILURE, SITE, LyingServer

ROUNDS = 150
SMALL = "data.csbm={task: dnc, num_nodes: 40, degree: 6, graph_signal: 2, mu: 2, num_features: 10}"
ONE_NODE = ("partition={name: one_node}", "engine.hosts=4")
PUBLIC = ("partition={name: public_private, num_clients: 3, public_share: 0.3}",)
NOISE = "privacy={mechanism: local_gaussian, noise_multiplier: 4.0, clip_l2: 1.0, delta: 1.0e-5}"
CASES: dict[str, tuple[str, ...]] = {
    "fedgl": ("method={name: fedgl, warmup: 1}",),
    "fedavg": ("method={name: fedavg}",),
    "fedmlp": ("method={name: fedmlp}", *ONE_NODE),
    "gfl_appnp": ("method={name: gfl_appnp}", *ONE_NODE),
    "nfedgnn": ("method={name: nfedgnn}", *ONE_NODE),
    "nfedgnn sums": (
        "method={name: nfedgnn, smoothness: 0, upload: neighbourhood_sums, missing: zero}",
        *ONE_NODE,
    ),
    "nfedgnn average": ("method={name: nfedgnn, average: true}", *ONE_NODE),
    "ppfl_gat": ("method={name: ppfl_gat, alignment: reference, start: shared}", *PUBLIC),
    "ppfl_deepwalk": ("method={name: ppfl_deepwalk, dim: 8, walk_length: 5}", *PUBLIC),
    "two_sums": ("method={name: two_sums, narrow: 2}", "training.rounds=1"),
    "pseudo_sums": ("method={name: pseudo_sums}", "training.rounds=1", *ONE_NODE),
    "noisy_counts": ("method={name: noisy_counts, counts_share: 0.7}", "training.rounds=1"),
    "alone": ("method={name: alone}",),
    "mlps": ("method={name: mlps}", *ONE_NODE),
    "own_sums": ("method={name: own_sums}",),
    "one_sum": ("method={name: one_sum}", "training.rounds=1"),
    "best_alone": ("method={name: best_alone}",),
    "label_propagation": ("method={name: label_propagation}", *ONE_NODE),
}


def chosen(root: Path, case: str, rounds: int = ROUNDS, seed: int = 0) -> RunConfig:
    first = (SMALL, f"training.rounds={rounds}", "training.local_epochs=1", f"seed={seed}")
    return config(root, *first, *CASES[case])


def honest_requests(world: World) -> dict[str, dict[str, Any]]:
    """By kind, the last request of an honest run to the site; and the released model."""
    request_fields: dict[str, dict[str, Any]] = {}

    def listen(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        content = json.loads(packet.header)["content"]
        if site == SITE and content["do"] in ("answer", "measure"):
            envelope = codec.unframe(bytes(packet.blob)[: content["lengths"][0]])
            request_fields[envelope.kind] = codec.decode_fields(envelope.body)
        return deliver(site, packet)

    world.between = listen
    world.run(world.job(has_truth=False))
    return request_fields


def other_shards(server_config: RunConfig, own_shards: list[Shard]) -> list[Shard]:
    """Other private data of the same public sizes: other nodes, edges, features and labels."""
    if (
        len(own_shards) > 1 or own_shards[0].graph.num_nodes == 1
    ):  # who has labels is public: keep the split
        return [
            replace(
                shard,
                graph=replace(
                    shard.graph,
                    features=torch.rand(shard.graph.features.shape) * 3 - 1,
                    labels=(shard.graph.labels + 1) % shard.graph.num_classes,
                ),
            )
            for shard in own_shards
        ]
    tree = server_config.model_dump(mode="json") | {"seed": 1}
    drawn = prepare(parse_config(tree)).shards
    return [replace(drawn[shard.client], client=shard.client) for shard in own_shards]


def variants(bound: Bound, value: Any, optional: bool) -> Iterator[tuple[bool, Any]]:
    """Values of one field, each with whether it lies within the bound."""
    yield True, value
    if isinstance(value, Tensor):
        yield from _arrays(bound, value)
    elif bound.round == "this":
        yield from ((False, value + 1), (False, -1), (False, 10**9), (False, float(value)))
    elif bound.round == "past":
        yield from ((True, 0), (False, -1), (False, 10**9))
    elif isinstance(value, int):
        yield from ((False, int(bound.low) - 1), (False, int(bound.high) + 1), (False, 10**9))
    else:
        yield from ((True, 0.0), (False, -1.0), (False, 1))
    if not optional:
        yield False, None


def _arrays(bound: Bound, value: Tensor) -> Iterator[tuple[bool, Any]]:
    yield False, torch.cat([value, value])[: len(value) + 1] if value.dim() else value[None]
    yield False, value[None]
    if bound.kind == "truth":
        yield from ((True, torch.zeros_like(value)), (True, torch.ones_like(value)))
        yield False, value.to(torch.int64)
        return
    yield False, value.to(torch.complex64)
    if bound.kind == "real":
        yield False, value.double()
        yield from ((False, _at_first(value, bad)) for bad in (math.nan, math.inf, -math.inf))
        largest = bound.high if bound.high < math.inf else 3e38
        smallest = bound.low if bound.low > -math.inf else -3e38
        yield from ((True, _at_first(value, good)) for good in (largest, smallest))
        if bound.low > -math.inf:
            yield False, _at_first(value, bound.low - 0.5)
        if bound.high < math.inf:
            yield False, _at_first(value, bound.high + 0.5)
        return
    yield False, value.float()
    for at in (0, len(value.reshape(-1)) // 2, -1):
        yield False, _at_first(value, bound.low - 1, at)
        yield False, _at_first(value, bound.high + 1, at)


def _at_first(value: Tensor, number: float, place: int = 0) -> Tensor:
    changed = value.clone()
    changed.reshape(-1)[place] = number
    return changed


def is_answer(content: Mapping[str, Any]) -> bool:
    return content["results"] != FAILURE["results"]


def shape_of_answer(content: Mapping[str, Any], blob: bytes) -> Any:
    """Return everything of an answer but the declared private values in it.

    The link of the site's last line hashes the time and booked public facts: its length counts.
    """
    (result,) = content["results"]
    if "standing" in content:
        count, link = content["standing"]
        content = {**content, "standing": (count, len(link))}
    if "scores" in result:
        return [sorted(score) for score in result["scores"]]
    if not blob:
        return content
    envelope = codec.unframe(blob)
    fields = codec.decode_fields(envelope.body)
    arrays = {n: (v.shape, v.dtype) for n, v in fields.items() if isinstance(v, Tensor)}
    scalars = {n: v for n, v in fields.items() if not isinstance(v, Tensor)}
    return content, envelope.kind, envelope.round, arrays, scalars


@pytest.mark.parametrize("case", CASES)
def test_site_every_field_within_and_beyond_bounds_answers_alike(case: str, tmp_path: Path) -> None:
    rounds = 1 if case in ("two_sums", "pseudo_sums", "noisy_counts", "label_propagation") else 3
    honest = honest_requests(World(tmp_path / "honest", chosen(tmp_path, case, rounds)))
    long = chosen(tmp_path, case)
    first_server = LyingServer(World(tmp_path / "one", long))
    other_world = World(tmp_path / "other", long)
    own = [other_world.experiment.shards[n] for n in first_server.clients.numbers()]
    other = LyingServer(other_world, other_shards(long, own))
    method = get_method(long.method.name)
    bounds = method.bounds(long.method, first_server.world.experiment.public)
    num_checked = 0

    def compare(do: str, kind: str, fields: dict[str, Any], within: bool, about: str) -> None:
        nonlocal num_checked
        num_checked += 1
        seen = []
        for server in (first_server, other):
            calls, lines = server.host.calls, server.num_booked()
            site_reply = getattr(server, do)(kind, fields)
            if not within:
                assert site_reply == FAILURE, about
                assert server.host.calls == calls, about
            assert server.num_booked() - lines == server.host.calls - calls, about
            if not is_answer(site_reply):
                assert site_reply == FAILURE, about
            seen.append(shape_of_answer(site_reply, server.blob))
        assert seen[0] == seen[1], about

    for kind, sent in honest.items():
        message = method.message(kind)
        _require_bounds(message, bounds)
        for name in message.declarations:
            bound = bounds.get((kind, name))
            if bound is None or sent.get(name) is None:
                continue
            for within, changed in variants(bound, sent[name], name in message.optional):
                if message in method.requests:
                    fields = _of_this_round(message, bounds, sent, first_server.round + 1)
                    if bound.round == "this" and type(changed) is int and changed in (1, 2, 3, 4):
                        changed += first_server.round + 1 - sent[name]
                    fields |= {name: changed}
                    compare("ask", kind, fields, within, f"{kind}.{name}: {changed!r:.80}")
                if message is method.release:
                    is_round = bound.round == "this" and type(changed) is int
                    within = 0 <= changed <= long.training.rounds if is_round else within
                    told = f"measure {kind}.{name}: {changed!r:.80}"
                    compare("measure", kind, sent | {name: changed}, within, told)
    assert num_checked >= 4
    assert first_server.host.calls > 0 or case == "label_propagation"
    for server in (first_server, other):
        assert server.num_booked() == server.host.calls


def _of_this_round(
    message: type[Message], bounds: Mapping[tuple[str, str], Bound], sent: dict[str, Any], now: int
) -> dict[str, Any]:
    """The honest fields, with the round that is to come."""
    numbers = {
        name: now
        for name in message.declarations
        if name in sent and (b := bounds.get((message.kind, name))) and b.round == "this"
    }
    return {**sent, **numbers}


def _require_bounds(message: type[Message], bounds: Mapping[tuple[str, str], Bound]) -> None:
    for name, kinds in message.types.items():
        assert (message.kind, name) in bounds or kinds <= {bool, type(None)}, name


def test_cases_every_shipped_method_is_driven() -> None:
    assert {case.partition(" ")[0] for case in CASES} == set(SHIPPED)


# ------------------------------------------------------------------------------------ the attacks


FEDGL = "method={name: fedgl, pseudo_labels: true, pseudo_graph: false, weighting: equal}"


def globals_of(world: World) -> dict[str, Any]:
    """FedGL's first request."""
    size = world.experiment.method.bounds(world.config.method, world.experiment.public)
    length = size["fedgl.Globals", "weights"].shape[0]
    assert length is not None
    num_nodes = world.experiment.public.num_nodes
    return {"weights": torch.full((length,), 0.1), "index_size": num_nodes}


@pytest.mark.parametrize("privacy", ["privacy={}", NOISE], ids=["plain", "noised"])
def test_site_invalid_pseudo_label_tells_nothing_of_held_nodes(
    privacy: str, tmp_path: Path
) -> None:
    """Once a wrong label at a node failed only where the site held it outside training."""
    world = World(tmp_path, config(tmp_path, SMALL, FEDGL, privacy, f"training.rounds={ROUNDS}"))
    server = LyingServer(world)
    request, site_replies = globals_of(world), []
    for node in range(40):
        for wrong in (-2, 99):
            labels = torch.full((40,), -1, dtype=torch.int16)
            labels[node] = wrong
            site_replies.append(server.ask("fedgl.Globals", request | {"pseudo_labels": labels}))
    assert site_replies == [FAILURE] * 80
    assert server.host.calls == server.num_booked() == 0


def test_site_count_of_another_round_is_refused_without_a_look(tmp_path: Path) -> None:
    """Once a count of m nodes failed where the site's largest node was m or more."""
    masked = "privacy.secure_aggregation={min_holders: 1, malicious: true}"
    for name, privacy in (("plain", "privacy={}"), ("masked", masked)):
        world = World(tmp_path / name, config(tmp_path, SMALL, FEDGL, privacy))
        server = LyingServer(world)
        site_replies = [
            server.ask("fedgl.UpdateCount", {"number": number}, round=1, step=number + 1)
            for number in range(45)
        ]
        assert site_replies == [FAILURE] * 45
        assert server.host.calls == server.num_booked() == 0


def test_site_census_not_in_the_plan_is_refused(tmp_path: Path) -> None:
    """Sums of this run are not masked: the plan has no census."""
    world = World(tmp_path, config(tmp_path, SMALL, FEDGL, NOISE))
    server = LyingServer(world)
    assert server.ask("fedgl.UpdateCount", {"number": 1}) == FAILURE
    assert server.host.calls == 0
    assert "the plan of this run has none" in world.noted(SITE)[-1]["reason"]


def test_site_weights_that_overflow_are_answered_as_others(tmp_path: Path) -> None:
    """Once crafted weights gave `Diverged` where a raw activation passed a threshold."""
    world = World(tmp_path, config(tmp_path, SMALL, FEDGL, NOISE, f"training.rounds={ROUNDS}"))
    server, request = LyingServer(world), globals_of(world)
    kinds = set()
    for exponent in range(0, 39, 2):
        weights = torch.full_like(request["weights"], min(10.0**exponent, 3e38))
        site_reply = server.ask("fedgl.Globals", request | {"weights": weights})
        assert is_answer(site_reply)
        fields = codec.decode_fields(codec.unframe(server.blob).body)
        assert all(bool(torch.as_tensor(value).isfinite().all()) for value in fields.values())
        kinds.add(
            tuple(sorted(r["mechanism"]["field"] for r in site_reply["results"][0]["releases"]))
        )
    assert len(kinds) == 1
    assert server.host.calls == server.num_booked() == 20


# --------------------------------------------------------------------------- failures and refusals


def test_site_host_that_fails_books_its_line_and_answers_the_constant(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, SMALL, FEDGL))
    server, request = LyingServer(world), globals_of(world)
    for error in (ValueError("secret 4711"), RuntimeError("x"), MemoryError(), KeyError(3)):
        server.host.fail = error
        assert server.ask("fedgl.Globals", request) == FAILURE
        assert world.noted(SITE)[-1]["at"] == "host"
    assert server.host.calls == server.num_booked() == 4
    assert all(line["releases"] for line in world.booked(SITE))


def test_site_one_refusal_too_many_ends_the_job(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, SMALL, FEDGL))
    world.policy(SITE, "max_refusals: 3")
    server, request = LyingServer(world), globals_of(world)
    assert is_answer(server.ask("fedgl.Globals", request))
    for _ in range(3):
        assert server.ask("fedgl.Globals", request | {"index_size": 7}) == FAILURE
    assert server.ask("fedgl.Globals", request) == FAILURE
    assert server.host.calls == server.num_booked() == 1
    noted = world.noted(SITE)
    assert [line["at"] for line in noted] == ["request", "request", "request", "job"]
    assert "index_size: found 7; expected whole numbers from 40 to 40" in noted[0]["reason"]
    assert "max_refusals: found 3 refused requests" in noted[-1]["reason"]


@pytest.mark.parametrize("seconds", [0.0, 3.0, 9.0, 10.0, 17.0])
def test_site_failure_leaves_at_a_multiple_of_the_period(seconds: float, tmp_path: Path) -> None:
    """How long a host took to fail does not show."""
    world = World(tmp_path, config(tmp_path, SMALL, FEDGL))
    world.policy(SITE, "failure_seconds: 10")
    now = [100.0]

    def sleep(wait: float) -> None:
        now[0] += wait

    server = LyingServer(world, clock=lambda: now[0], sleep=sleep)
    handle = server.host.handle

    def slow(request: Message, turn: Any) -> Message:
        now[0] += seconds
        raise ValueError("late")

    server.host.handle = slow  # type: ignore[method-assign]
    assert server.ask("fedgl.Globals", globals_of(world)) == FAILURE
    assert now[0] == 100.0 + 10.0 * (seconds // 10 + 1)
    server.host.handle = handle  # type: ignore[method-assign]
    before = now[0]
    assert is_answer(server.ask("fedgl.Globals", globals_of(world)))
    assert now[0] == before
    assert server.ask("fedgl.Globals", {"index_size": 40}) == FAILURE
    assert now[0] == before + 10.0


def test_site_request_past_the_budget_is_refused_before_its_host(tmp_path: Path) -> None:
    weights_alone = FEDGL.replace("pseudo_labels: true", "pseudo_labels: false")
    world = World(tmp_path, config(tmp_path, SMALL, weights_alone, NOISE, "training.rounds=30"))
    server, request = LyingServer(world), globals_of(world)
    server.site._taking_up.policy = server.site._policy.model_validate(
        server.site._policy.model_dump() | {"budget_total": {"epsilon": 3}}
    )
    told = [is_answer(server.ask("fedgl.Globals", request)) for _ in range(30)]
    answered = sum(told)
    assert 0 < answered < 30
    assert told == [True] * answered + [False] * (30 - answered)
    assert server.host.calls == server.num_booked() == answered


@pytest.mark.parametrize(
    "change",
    [
        {"round": 0, "step": 0},
        {"round": ROUNDS + 1},
        {"step": 201},
        {"receiver": "client-1"},
        {"kind": "fedgl.Update"},
        {"kind": "fedgl.Nothing"},
        {"kind": "redo/fedgl.Globals"},
        {"kind": "messages.Unmask"},
    ],
    ids=str,
)
def test_site_request_that_breaks_a_rule_never_reaches_its_host(
    change: dict[str, Any], tmp_path: Path
) -> None:
    world = World(tmp_path, config(tmp_path, SMALL, FEDGL, f"training.rounds={ROUNDS}"))
    server = LyingServer(world)
    kind = change.pop("kind", "fedgl.Globals")
    assert server.ask(kind, globals_of(world), **change) == FAILURE
    assert server.host.calls == server.num_booked() == 0
