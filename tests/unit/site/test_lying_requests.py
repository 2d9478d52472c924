"""Requests by which a lying server got more than a site's plan has, or another answer than others.

Each test states what a real site once did.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from securefg.protocol import codec, envelopes
from securefg.site.run import SiteRun
from securefg.site.taking_up import CANNOT
from tests.small import config
from tests.unit.flare.federation_world import World
from tests.unit.site.lying_server import FAILURE, SITE, LyingServer
from tests.unit.site.test_check_then_compute import (
    FEDGL,
    NOISE,
    PUBLIC,
    SMALL,
    globals_of,
    is_answer,
    other_shards,
)

GRAPH = "method={name: fedgl, pseudo_labels: true, pseudo_graph: true, warmup: 1}"
GAT = "method={name: ppfl_gat, alignment: reference, start: shared}"


def lying(tmp_path: Path, *changes: str) -> LyingServer:
    return LyingServer(World(tmp_path, config(tmp_path, SMALL, "training.rounds=50", *changes)))


def test_site_scores_after_a_refused_request_are_not_told_again(tmp_path: Path) -> None:
    """Once each refused request opened another round of scores: 20 models for one training."""
    server = lying(tmp_path, FEDGL)
    request = globals_of(server.world)
    assert is_answer(server.ask("fedgl.Globals", request))
    site_results = []
    for seed in range(5):
        model = torch.randn(request["weights"].shape, generator=torch.Generator().manual_seed(seed))
        site_results.append(
            server.measure("fedgl.Globals", request | {"weights": model})["results"][0]
        )
        assert server.ask("fedgl.Globals", request | {"index_size": 7}) == FAILURE
    assert [bool(one["scores"]) for one in site_results] == [True, False, False, False, False]
    assert server.host.calls == 2
    assert is_answer(server.ask("fedgl.Globals", request))
    assert server.measure("fedgl.Globals", request)["results"][0]["scores"]


def test_site_scores_of_the_last_model_are_booked_as_such(tmp_path: Path) -> None:
    server = lying(tmp_path, FEDGL)
    request = globals_of(server.world)
    assert is_answer(server.ask("fedgl.Globals", request))
    for at_end in (False, True):
        answer = server.measure("fedgl.Globals", request, at_end=at_end)
        assert answer["results"][0]["scores"]
    assert server.measure("fedgl.Globals", request, at_end="true") == FAILURE  # type: ignore[arg-type]
    lines = (server.world.kits.home(SITE) / "scores.jsonl").read_text().splitlines()
    assert [json.loads(line)["at_end"] for line in lines] == [False, True]


def test_site_refusal_with_a_long_name_writes_a_short_line(tmp_path: Path) -> None:
    """Once the names of unknown fields were written out in full, up to the size of a request."""
    server = lying(tmp_path, FEDGL)
    request = globals_of(server.world) | {"x" * 3_000_000: 1}
    assert server.ask("fedgl.Globals", request) == FAILURE
    assert (server.world.kits.home(SITE) / "refusals.jsonl").stat().st_size < 5_000


def test_site_refusals_that_cannot_be_written_answer_and_count_the_same(tmp_path: Path) -> None:
    """Once the error left `handle`: another answer, at once, and no count."""
    world = World(tmp_path, config(tmp_path, SMALL, FEDGL, "training.rounds=50"))
    world.policy(SITE, "{max_refusals: 2, failure_seconds: 10}")
    now = [0.0]
    server = LyingServer(
        world, clock=lambda: now[0], sleep=lambda wait: now.__setitem__(0, now[0] + wait)
    )
    (world.kits.home(SITE) / "refusals.jsonl").mkdir()
    request = globals_of(world)
    server.host.fail = ValueError("secret")
    assert server.ask("fedgl.Globals", request) == FAILURE
    assert now[0] == 10.0
    server.host.fail = None
    for _ in range(2):
        assert server.ask("fedgl.Globals", request | {"index_size": 7}) == FAILURE
    assert server.ask("fedgl.Globals", request) == FAILURE
    assert server.host.calls == server.num_booked() == 1
    assert now[0] == 40.0


def test_clients_long_text_is_not_kept() -> None:
    """Once 256 texts of any length stayed in memory with their ranges, before any check."""
    envelopes._read_ranges.cache_clear()
    text = ",".join(map(str, range(0, 20_000, 2)))
    assert len(codec.Clients.parse(text)) == 10_000
    assert envelopes._read_ranges.cache_info().currsize == 0
    assert len(codec.Clients.parse("0-3,7")) == 5
    assert envelopes._read_ranges.cache_info().currsize == 1


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_site_pseudo_graph_of_any_integers_is_the_same_graph(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    """Once hosts failed on short integers that the bounds admit."""
    server = lying(tmp_path, GRAPH)
    request, answers = globals_of(server.world), []
    ring = torch.arange(1, 41) % 40
    for kind in (torch.int64, dtype):
        graph = {
            "graph_counts": torch.ones(40).to(kind),
            "graph_columns": ring.to(kind),
            "graph_values": torch.ones(40),
        }
        told = server.ask("fedgl.Globals", request | graph, round=1, step=len(answers) + 1)
        assert is_answer(told)
        answers.append(codec.decode_fields(codec.unframe(server.blob).body))
    assert torch.equal(answers[0]["weights"], answers[1]["weights"])


@pytest.mark.parametrize("privacy", ["privacy={}", NOISE], ids=["plain", "noised"])
def test_site_rows_that_overflow_tell_nothing_of_its_rotation(privacy: str, tmp_path: Path) -> None:
    """Once the SVD of a client's rows failed where a mean, rotated by private rows, overflowed."""
    settings = (SMALL, "training.rounds=50", "training.local_epochs=1", GAT, *PUBLIC, privacy)
    answers_by_name: dict[str, list[bool]] = {}
    for name in ("one", "other"):
        world = World(tmp_path / name, config(tmp_path / name, *settings))
        own_shards = [
            world.experiment.shards[n]
            for n in next(iter(world.assignment[SITE].values())).numbers()
        ]
        shards = None if name == "one" else other_shards(world.config, own_shards)
        server = LyingServer(world, shards)
        for step in range(20):
            size = 3.4e38 * 1.3 ** (step - 19)
            mean = torch.full((world.experiment.public.num_public, 16), size)
            known = torch.ones(len(mean), dtype=torch.bool)
            number = server.round + 1
            request = {"number": number, "upload": True, "made": 0, "mean": mean, "known": known}
            answer = is_answer(server.ask("public_rows.Mean", request))
            answers_by_name.setdefault(name, []).append(answer)
    assert answers_by_name == {"one": [True] * 20, "other": [True] * 20}


def test_site_job_that_fails_on_data_is_refused_at_a_multiple_of_the_period(
    tmp_path: Path,
) -> None:
    """Once a refusal after the shards were read left as soon as it was known."""
    world = World(tmp_path, config(tmp_path, SMALL, FEDGL))
    world.policy(SITE, "failure_seconds: 10")
    (path,) = (world.kits.home(SITE) / "shards").iterdir()
    path.write_bytes(b"no shards")
    waited: list[float] = []
    job = world.job()
    site = SiteRun(world.site_kit(SITE), job, "job", clock=lambda: 3.0, sleep=waited.append)
    server = LyingServer.__new__(LyingServer)
    server.site, server.number = site, 0
    from tests.unit.site.lying_server import server_key

    server.signer = server_key()
    begin = {"do": "begin", "digest": job.digest, "attempt": 1, "after_round": 0}
    assert server.tell(begin) == {"refused": CANNOT}
    assert waited == [10.0]
