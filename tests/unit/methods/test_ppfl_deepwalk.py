"""Federated DeepWalk: what is exchanged, what is refused, and that runs repeat themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from securefg.federation.roles import Cohort, PublicInfo, Replies, Site
from securefg.foundation.errors import ConfigError, MaskingRefused
from securefg.methods.ppfl.exchange import (
    DEGREE_CAP,
    Aligned,
    ClientRows,
    Mean,
    RotatedRows,
    Rows,
    Trained,
    num_uploads,
)
from securefg.methods.ppfl_deepwalk.algorithm import Client, DeepWalkServer, Settings
from securefg.models.procrustes import align_rows
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.transcript import read_transcript
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig, parse_config
from tests.small import tree

QUICK = "name: ppfl_deepwalk, walk_length: 10, scoring: split"
REFERENCE = f"{{{QUICK}, alignment: reference, start: shared}}"


def config(root: Path, *overrides: str) -> RunConfig:
    whole = tree(root, "ppfl_deepwalk")
    whole["method"] |= {"walk_length": 10, "scoring": "split"}
    whole["partition"] = {"name": "public_private", "num_clients": 3}
    whole["training"] = {"rounds": 3, "local_epochs": 1, "lr": 0.05, "patience": None}
    return parse_config(whole, overrides)


def run(root: Path, *overrides: str) -> RunFolder:
    return runner.start(config(root, *overrides)).folder


def kinds(folder: RunFolder) -> set[str]:
    return {r.kind.partition(".")[2] for r in read_transcript(folder.transcript) if r.up}


# ----------------------------------------------------------------------------------------- server


class Canned(Cohort):
    """Plays clients that reply with prepared rows; `away` lists who drops out in which ask."""

    def __init__(self, rows: torch.Tensor, weights: torch.Tensor | None, away: list[set[int]]):
        self.num_clients, self.requests, self._away = len(rows), [], away
        self._rows, self._weights = rows, weights

    def ask(self, request: Any, reply: Any, clients: Any = None) -> Any:
        gone = self._away[len(self.requests)] if len(self.requests) < len(self._away) else set()
        self.requests.append(request)
        here = [n for n in clients.numbers() if n not in gone]
        if reply is Trained:
            return Replies(Trained(number=request.number), Clients.of(here), ())
        weights = None if self._weights is None else self._weights[here]
        return Replies(reply(rows=self._rows[here], weights=weights), Clients.of(here), ())


def served(
    rows: torch.Tensor,
    weights: torch.Tensor | None = None,
    away: list[set[int]] | None = None,
    **settings: Any,
) -> list[Any]:
    """The requests that three rounds of a server with these clients make."""
    info = PublicInfo(10, 2, 2, len(rows), 0, torch.device("cpu"), num_public=rows.shape[1])
    training = type("T", (), {"rounds": 3, "participation": 1.0})()
    cohort = Canned(rows, weights, away or [])
    server = DeepWalkServer(info, Settings(dim=2, **settings), training, cohort)
    for number in (1, 2, 3):
        server.round(number)
    return cohort.requests


def random_rows(clients: int = 3, nodes: int = 6, dim: int = 2) -> torch.Tensor:
    return torch.randn(clients, nodes, dim, generator=torch.Generator().manual_seed(0))


def test_every_client_gets_the_mean_in_its_own_space() -> None:
    rows = random_rows()
    second = served(rows)[1]
    wanted = (rows[1] + align_rows(rows[0], rows[1]) + align_rows(rows[2], rows[1])) / 3
    assert torch.allclose(second.rows[1], wanted, atol=1e-5)


def test_the_last_round_uploads_nothing() -> None:
    assert [request.upload for request in served(random_rows())] == [True, True, False]
    assert num_uploads(Settings(exchange=False), 10) == 0


def test_who_dropped_out_is_not_in_the_others_mean_and_is_aligned_to_when_last_seen() -> None:
    rows = random_rows()
    third = served(rows, away=[set(), {2}])[2]
    assert third.known.tolist() == [True, True, True]
    assert torch.allclose(third.rows[0], (rows[0] + align_rows(rows[1], rows[0])) / 2, atol=1e-5)
    never = served(rows, away=[{2}, {2}])[2]
    assert never.known.tolist() == [True, True, False]


def test_degrees_weigh_the_rows() -> None:
    rows, weights = random_rows(2), torch.ones(2, 6, 1)
    weights[0, 3] = 0
    second = served(rows, weights, aggregation="degree")[1]
    turned = align_rows(rows[1], rows[0])
    assert torch.allclose(second.rows[0, 3], turned[3], atol=1e-5)
    assert torch.allclose(second.rows[0, 2], (turned[2] + rows[0, 2]) / 2, atol=1e-5)


def test_the_references_mean_is_weighted_and_says_where_nobody_had_a_say() -> None:
    rows, weights = random_rows(2), torch.full((2, 6, 1), 2.0 / DEGREE_CAP)
    weights[:, 4] = 0
    second = served(
        rows * weights, weights, aggregation="degree", alignment="reference", start="shared"
    )[1]
    assert second.known.tolist() == [True] * 4 + [False, True]
    assert torch.allclose(second.mean[0], rows[:, 0].mean(0), atol=1e-6)


# ----------------------------------------------------------------------------------------- client


def test_a_client_rotates_onto_the_mean_and_back() -> None:
    settings = Settings(alignment="reference", start="shared", dim=2)
    own_rows, mean = random_rows(2)
    part = ClientRows(settings, torch.ones(6), torch.zeros(6, 2))
    request = Mean(
        number=2,
        upload=True,
        made=1,
        mean=mean,
        known=torch.tensor([True] * 5 + [False]),
    )
    sent = part.reply(request, own_rows)
    assert isinstance(sent, RotatedRows)
    assert torch.allclose(sent.rows[0], align_rows(own_rows, mean), atol=1e-6)
    received = part.received(request, own_rows)
    assert received is not None
    assert torch.allclose(received[:5], align_rows(mean, own_rows)[:5], atol=1e-5)
    assert torch.equal(received[5], own_rows[5])


def client_of(parsed: RunConfig) -> Client:
    shard = runner.prepare(parsed).shards[0]
    return Client(Site((shard,), parsed.method, parsed.training, 7, torch.device("cpu")))


def test_rows_that_came_are_trained_on_from(tmp_path: Path) -> None:
    client, other = (client_of(config(tmp_path, "training.lr=1e-4")) for _ in range(2))
    turn = Turn(1, 1, Clients.of([0]))
    first = client.handle(Aligned(number=1, upload=True, rows=None, known=None), turn)
    other.handle(Aligned(number=1, upload=True, rows=None, known=None), turn)
    assert isinstance(first, Rows)
    moved = first.rows + 1
    request = Aligned(number=2, upload=True, rows=moved, known=torch.tensor([True]))
    after = client.handle(request, Turn(2, 1, Clients.of([0])))
    assert isinstance(after, Rows)
    assert (after.rows - moved).abs().max() < 0.1
    unknown = Aligned(number=2, upload=True, rows=moved, known=torch.tensor([False]))
    untouched = other.handle(unknown, Turn(2, 1, Clients.of([0])))
    assert isinstance(untouched, Rows)
    assert (untouched.rows - first.rows).abs().max() < 0.1


def test_a_mean_that_was_written_is_not_written_again(tmp_path: Path) -> None:
    client = client_of(config(tmp_path, f"method={REFERENCE}", "training.lr=0.05"))
    own_reply = client.handle(
        Mean(number=1, upload=True, made=0, mean=None, known=None),
        Turn(1, 1, Clients.of([0])),
    )
    assert isinstance(own_reply, RotatedRows)
    mean, known = own_reply.rows[0] * 3, torch.ones(own_reply.rows.shape[1], dtype=torch.bool)
    sent = []
    for number in (2, 3):
        request = Mean(number=number, upload=True, made=1, mean=mean, known=known)
        sent.append(client.handle(request, Turn(number, 1, Clients.of([0]))))
    before, after = sent
    assert isinstance(before, RotatedRows)
    assert isinstance(after, RotatedRows)
    assert not torch.equal(before.rows, after.rows)


# ------------------------------------------------------------------------------------------- runs


def test_a_run_scores_both_classifiers_and_the_alignment(tmp_path: Path) -> None:
    folder = run(tmp_path, "method.scoring=cross_validation")
    scores = folder.summary().local_scores
    assert sorted(scores) == ["0", "1", "2"]
    assert all(set(own) == {"mlp_f1", "svc_f1"} for own in scores.values())
    first, *_, last = (line["extra"] for line in folder.metrics())
    assert set(first) == {"alignment_p1", "alignment_p5", "alignment_p10"}
    assert last["alignment_p1"] > first["alignment_p1"]
    assert kinds(folder) == {"Rows", "Trained"}


def test_without_exchange_nothing_private_leaves(tmp_path: Path) -> None:
    folder = run(tmp_path, "method.exchange=false")
    assert kinds(folder) == {"Trained"}
    merged = run(tmp_path, "method.exchange=false", "centralised=true")
    assert list(merged.summary().local_scores) == ["0"]


def test_pairwise_alignment_cannot_be_masked(tmp_path: Path) -> None:
    with pytest.raises(MaskingRefused, match="only the sum"):
        run(tmp_path, "privacy={secure_aggregation: {}}")


def test_masks_change_nothing_but_the_last_digits(tmp_path: Path) -> None:
    method = f"method={REFERENCE}"
    masks = "privacy={secure_aggregation: {malicious: false, ring_bits: 64}}"
    plain, masked = run(tmp_path, method), run(tmp_path, method, masks)
    losses = [[line["val_loss"] for line in r.metrics()] for r in (plain, masked)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)


def test_degrees_under_masks_alone_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The server would need to know at how many clients a public node has an edge."""
    masks = "privacy={secure_aggregation: {malicious: false}}"
    with pytest.raises(ConfigError, match=r"method\.aggregation: found degree; expected mean"):
        run(tmp_path / "runs", f"method={REFERENCE}", "method.aggregation=degree", masks)
    assert not (tmp_path / "runs").exists()


def test_degrees_under_masks_and_noise_are_summed(tmp_path: Path) -> None:
    noise = "mechanism: local_gaussian, noise_multiplier: 1, unit: row, noise_rng: seeded"
    masks = f"privacy={{{noise}, secure_aggregation: {{malicious: false}}}}"
    folder = run(tmp_path, f"method={REFERENCE}", "method.aggregation=degree", masks)
    sums = [r for r in read_transcript(folder.transcript) if r.kind == f"{RotatedRows.kind}.sum"]
    assert len(sums) > 1
    assert all(r.fields().keys() == {"rows", "weights"} for r in sums)


def test_masked_rows_come_from_every_client_and_without_a_census(tmp_path: Path) -> None:
    folder = run(
        tmp_path, f"method={REFERENCE}", "privacy={secure_aggregation: {malicious: false}}"
    )
    said = list(read_transcript(folder.transcript))
    sums = [r for r in said if r.sender == "sum"]
    assert {r.kind for r in sums} == {f"{RotatedRows.kind}.sum"}
    assert all(r.fields().keys() == {"rows"} for r in sums)
    assert all(r.fields()["rows"].any(1).all() for r in sums)
    assert folder.summary().recovered_by_algebra.holders_recoverable == 0


def test_noise_on_rows_keeps_the_target(tmp_path: Path) -> None:
    noise = "{mechanism: local_gaussian, target_epsilon: 8, unit: row, noise_rng: seeded}"
    folder = run(tmp_path, f"privacy={noise}")
    claim = folder.summary().epsilon["row"]
    assert claim.epsilon == pytest.approx(8, rel=0.02)


def test_a_run_taken_up_again_ends_the_same(tmp_path: Path) -> None:
    class Stop(runner.Silent):
        def stop_requested(self) -> bool:
            return True

    for method in (f"{{{QUICK}}}", REFERENCE):
        parsed = config(tmp_path / "whole", f"method={method}")
        whole = runner.start(parsed).folder
        broken = runner.start(config(tmp_path / "broken", f"method={method}"), Stop())
        assert broken.summary is None
        resumed = runner.resume(broken.folder).folder
        assert resumed.summary().local_scores == whole.summary().local_scores
        one, other = ([m["val_loss"] for m in f.metrics()] for f in (whole, resumed))
        assert one == other


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("partition={name: shares, shares: [0.5, 0.5]}", "no public nodes"),
        ("centralised=true", "no public nodes"),
        ("method.alignment=reference", "allowed: start: shared"),
        ("data={name: cora, label_noise: 0.1}", "would score the wrong labels"),
    ],
)
def test_what_cannot_work_is_refused(override: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=reason):
        run(tmp_path, "method.scoring=cross_validation", override)
