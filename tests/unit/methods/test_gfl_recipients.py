"""GFL-APPNP with sums that only their recipients open: the plain run, unread by the server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from securefg.engines.endpoint import Endpoint
from securefg.engines.inprocess import InProcess
from securefg.federation.channel import Channel
from securefg.federation.roles import Replies
from securefg.foundation.errors import ConfigError, MaskingRefused, PrivacyError, ProtocolError
from securefg.methods.gfl_appnp import algorithm as gfl_appnp
from securefg.methods.gfl_appnp.messages import Call, Globals, Parts, SealedSums, Sums
from securefg.privacy.defences.plain import Plain
from securefg.privacy.ledger import Ledger, read_ledger
from securefg.privacy.noise import SeededNoise
from securefg.privacy.policy import Policy
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Adversary, view
from securefg.runs import runner
from securefg.runs.assembly import prepare, start_engine
from securefg.runs.execution import Outcome
from securefg.runs.folder import RunFolder
from securefg.runs.observing import RoundReport, Silent
from securefg.secagg.client import SecureClients
from securefg.secagg.messages import Unmask
from securefg.settings.config import RunConfig
from tests.small import config

SMALL = "data.csbm={task: dnc, num_nodes: 20, degree: 10, num_features: 12}"
MASKED = (
    "method.sums=recipients",
    "privacy.secure_aggregation={malicious: false, dropout: 0.34, masked_fields: [Parts.parts]}",
)
PARTS, SUM = "Parts.parts", "gfl_appnp.Parts.sum.parts"
ALL_MASKED = ("method.sums=recipients", "privacy.secure_aggregation={malicious: false}")


def v2(root: Path, *overrides: str) -> RunConfig:
    fixed = ("partition={name: one_node}", "training.weight_decay=0", "training.lr=0.5")
    return config(root, *fixed, SMALL, *overrides, "method.jacobian=none", method="gfl_appnp")


def losses(run: Outcome) -> list[float]:
    return [line["val_loss"] for line in run.folder.metrics()]


def test_sums_under_masks_give_the_plain_run_up_to_the_grid(tmp_path: Path) -> None:
    larger = "data.csbm.num_nodes=30"  # three train: fewer are never unmasked
    plain = runner.start(v2(tmp_path / "plain", larger))
    masked = runner.start(v2(tmp_path / "masked", *ALL_MASKED, larger))
    assert losses(masked) == pytest.approx(losses(plain), abs=1e-4)
    assert losses(masked)[0] != losses(masked)[-1]
    assert masked.summary is not None
    assert masked.summary.masked["Parts.parts"]["opened_by"] == "recipients"
    assert masked.summary.masked["Update.weights"]["opened_by"] == "server"


def test_parts_with_distributed_noise_beside_fewer_trainers_finish_every_round(
    tmp_path: Path,
) -> None:
    """A quorum of all 30 clients would abort the session of the three that train."""
    noise = (
        "privacy.field_rules={Parts.parts: {mechanism: distributed_discrete, noise_multiplier: 1}}"
    )
    run = runner.start(v2(tmp_path, *ALL_MASKED, noise, "data.csbm.num_nodes=30"))
    assert run.summary is not None
    assert run.summary.aborted_rounds == 0
    assert run.summary.test_accuracy is not None


def test_the_layout_of_the_hosts_changes_nothing(tmp_path: Path) -> None:
    models = []
    for hosts in (1, 3):
        run = runner.start(v2(tmp_path / str(hosts), *MASKED, f"engine.hosts={hosts}"))
        models.append((run.folder.path / "model.safetensors").read_bytes())
    assert models[0] == models[1]


def test_parts_are_booked_as_masked_for_recipients_and_bound_nothing(tmp_path: Path) -> None:
    run = runner.start(v2(tmp_path, *MASKED, "training.rounds=1"))
    booked = {r.mechanism.field: r.mechanism for r in read_ledger(run.folder.ledger_path)}
    assert booked.keys() == {"Parts.parts", "Update.weights"}
    assert booked["Parts.parts"].rule == "masked"
    assert booked["Parts.parts"].opened_by == "recipients"
    assert booked["Update.weights"].rule == "plain"
    assert run.summary is not None
    assert "Parts.parts" in run.summary.epsilon["client"].because


def contexts_at_hosts(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """What hosts are told as their sums, opened, round by round."""
    contexts: list[torch.Tensor] = []
    whole = gfl_appnp.Users.handle

    def spied(self: gfl_appnp.Users, request: Message, turn: Turn) -> Message:
        if isinstance(request, SealedSums):
            contexts.append(request.context)
        return whole(self, request, turn)

    monkeypatch.setattr(gfl_appnp.Users, "handle", spied)
    return contexts


def test_the_servers_view_holds_neither_a_representation_nor_a_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = contexts_at_hosts(monkeypatch)
    run = runner.start(v2(tmp_path, *MASKED, "training.rounds=2", "engine.hosts=1"))
    scale = prepare(run.folder.config()).policy.masked["Parts.parts"].grid.scale
    fields: dict[str, list[torch.Tensor]] = {}
    for seen in view(run.folder.transcript, Adversary("server")):
        for name, value in (seen.fields or {}).items():
            if isinstance(value, torch.Tensor):
                fields.setdefault(f"{seen.header.kind}.{name}", []).append(value)
    assert "gfl_appnp.Representation.hidden" not in fields
    passed_on = fields["gfl_appnp.SealedSums.context"]
    assert all(torch.equal(a, b) for a, b in zip(passed_on, fields[SUM], strict=True))
    for sealed, opened in zip(passed_on, contexts, strict=True):
        assert sealed.dtype == torch.int32
        assert float(opened.abs().max()) < 2
        assert int((sealed / scale - opened).abs().lt(1).sum()) <= 2  # of 60, by chance
    words = torch.cat([v.flatten() for v in fields["gfl_appnp.Parts.parts"]]).numpy()
    counts = np.bincount(words.astype("<i4").view(np.uint8), minlength=256)
    assert np.abs(counts - counts.mean()).max() < 6 * counts.mean() ** 0.5


@pytest.mark.parametrize(("plain_kind", "masked_kind"), [(Globals, Call), (Sums, SealedSums)])
def test_a_host_that_fails_in_any_step_is_missing_from_the_sums_as_in_the_plain_run(
    plain_kind: type[Message],
    masked_kind: type[Message],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = gfl_appnp.Users.handle

    def fragile(self: gfl_appnp.Users, request: Message, turn: Turn) -> Message:
        fails = isinstance(request, (plain_kind, masked_kind)) and turn.round == 2
        if fails and 0 in self._clients:
            raise ValueError("gone")
        return whole(self, request, turn)

    monkeypatch.setattr(gfl_appnp.Users, "handle", fragile)
    plain = runner.start(v2(tmp_path / "plain", "engine.hosts=4"))
    masked = runner.start(v2(tmp_path / "masked", *MASKED, "engine.hosts=4"))
    assert masked.summary is not None
    assert masked.summary.aborted_rounds == 0
    assert [line["dropped"] for line in masked.folder.metrics()] == [0, 5, 5, 5]
    assert losses(masked) == pytest.approx(losses(plain), abs=1e-4)


def test_a_host_that_is_away_at_the_unmasking_takes_no_sum_and_the_round_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SecureClients.handle

    def fragile(self: SecureClients, request: Message, turn: Turn) -> Message:
        if isinstance(request, Unmask) and turn.round == 2 and 0 in turn.clients.numbers():
            raise ValueError("gone")
        return whole(self, request, turn)

    monkeypatch.setattr(SecureClients, "handle", fragile)
    run = runner.start(v2(tmp_path, *MASKED, "engine.hosts=4"))
    assert run.summary is not None
    assert run.summary.aborted_rounds == 0
    assert [line["dropped"] for line in run.folder.metrics()] == [0, 10, 10, 10]  # and at Sums


def test_too_many_drop_outs_abort_the_round_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gfl_appnp.Users.handle

    def fragile(self: gfl_appnp.Users, request: Message, turn: Turn) -> Message:
        if isinstance(request, Call) and turn.round == 2 and 0 not in self._clients:
            raise ValueError("gone")
        return whole(self, request, turn)

    monkeypatch.setattr(gfl_appnp.Users, "handle", fragile)
    run = runner.start(v2(tmp_path, *MASKED, "engine.hosts=3"))
    aborted = [bool(line["aborted"]) for line in run.folder.metrics()]
    assert aborted == [False, True, False, False]


class CrashAfterThree(Silent):
    def round_done(self, report: RoundReport) -> None:
        if report.round == 3:
            raise KeyboardInterrupt


def test_a_crash_between_checkpoints_changes_nothing(tmp_path: Path) -> None:
    whole = runner.start(v2(tmp_path / "whole", *MASKED))
    with pytest.raises(KeyboardInterrupt):
        runner.start(v2(tmp_path / "broken", *MASKED), CrashAfterThree())
    (path,) = (tmp_path / "broken").glob("run-*")
    resumed = runner.resume(RunFolder.open(path))
    models = [run.folder.path / "model.safetensors" for run in (whole, resumed)]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_noise_on_parts_gives_a_finite_epsilon(tmp_path: Path) -> None:
    noise = ("privacy.mechanism=local_gaussian", "privacy.noise_multiplier=8")
    extra = ("privacy.noise_rng=seeded", "training.rounds=1", "method.upload=update")
    run = runner.start(v2(tmp_path, *MASKED, *noise, *extra))
    assert run.summary is not None
    assert run.summary.epsilon["client"].epsilon > 0
    (parts,) = {
        r.mechanism for r in read_ledger(run.folder.ledger_path) if r.mechanism.field == PARTS
    }
    assert (parts.rule, parts.opened_by) == ("local_gaussian", "recipients")


# ---------------------------------------------------------------------------------- refusals


def test_jacobians_for_recipients_are_refused_with_what_they_would_weigh(tmp_path: Path) -> None:
    paper = "data.csbm={task: dnc}"
    wanted = config(tmp_path, "partition={name: one_node}", paper, *MASKED, method="gfl_appnp")
    # 200 clients, 20 of them labelled, 64 (100 + 1) numbers of 4 bytes
    with pytest.raises(ConfigError, match=r"20 labelled clients from each of 200, is 99 MiB"):
        prepare(wanted)


def test_sums_of_one_or_two_contributors_are_refused(tmp_path: Path) -> None:
    experiment = prepare(v2(tmp_path, *MASKED))
    run, whole = experiment.config, torch.combinations(torch.arange(3, 20)).T
    whole = torch.cat([whole, whole.flip(0)], dim=1)
    alone = replace(experiment.public, edge_index=whole)  # 0, 1, 2 have no sums: nothing to show
    assert gfl_appnp.plan_releases(run.method, run.training, alone)
    pair = torch.tensor([[0, 1], [1, 0]])
    two = replace(experiment.public, edge_index=torch.cat([whole, pair], dim=1))
    with pytest.raises(ConfigError, match=r"the sums of 2 clients .* fewer than 3 contributors"):
        gfl_appnp.plan_releases(run.method, run.training, two)


@pytest.mark.parametrize(
    ("secure", "message"),
    [
        ("null", "Parts.parts is for its recipients alone"),
        (
            "{malicious: false, masked_fields: [Update.weights]}",
            "Parts.parts is for its recipients alone",
        ),
    ],
)
def test_parts_never_leave_without_masks(secure: str, message: str, tmp_path: Path) -> None:
    wanted = v2(tmp_path, "method.sums=recipients", f"privacy.secure_aggregation={secure}")
    with pytest.raises(ConfigError, match=message):
        prepare(wanted)


def test_a_server_that_may_lie_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MaskingRefused, match="the others cannot check"):
        prepare(v2(tmp_path, *MASKED, "privacy.secure_aggregation={malicious: true}"))


def test_the_channel_seals_no_part_without_masks() -> None:
    policy = Policy({"Parts.parts": Plain()}, 1e-5, "client", None, True)
    channel = Channel(policy, SeededNoise(0), Ledger(2))
    with pytest.raises(PrivacyError, match="has no masks"):
        channel.seal(Parts(parts=torch.ones(2, 2, 3)), Turn(1, 1, Clients.of([0, 1])))


def test_a_server_gets_neither_the_parts_nor_their_sum() -> None:
    replies = Replies(Parts(parts=torch.ones(2, 2, 3)), Clients.of([0, 1]), ())
    with pytest.raises(ProtocolError, match=r"use \.forward"):
        replies.each("parts")
    with pytest.raises(ProtocolError, match="recipients alone"):
        replies.sum("parts")


def test_a_sum_to_open_is_refused_where_nothing_is_masked(tmp_path: Path) -> None:
    experiment = prepare(v2(tmp_path))
    folder = RunFolder.create(experiment.config, lambda path: None, False)
    engine = start_engine(experiment, folder, 1, None)
    assert isinstance(engine, InProcess)
    endpoint: Endpoint = next(iter(engine._endpoints.values()))
    sealed = SealedSums(context=torch.zeros(20, 2, dtype=torch.int32), own=torch.zeros(20))
    with pytest.raises(ProtocolError, match="does not mask"):
        endpoint._open_sums(sealed, Turn(1, 1, endpoint.clients))
