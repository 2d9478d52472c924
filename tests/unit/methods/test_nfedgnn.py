"""nFedGNN: users can be spread over hosts at will, sit out rounds, and add noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from securefg.federation.roles import Cohort, PublicInfo, Replies
from securefg.foundation.errors import ConfigError, MaskingRefused
from securefg.methods.nfedgnn.algorithm import LatentServer
from securefg.methods.nfedgnn.messages import Latents, Learnt
from securefg.methods.nfedgnn.settings import Settings
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.protocol.transcript import read_transcript
from securefg.runs import runner
from securefg.settings.execution import TrainingSettings
from tests.small import config

METHOD = "method={name: nfedgnn}"
USERS = "partition={name: one_node}"


def released(root: Path, *overrides: str) -> dict[str, torch.Tensor]:
    folder = runner.start(config(root, *overrides)).folder
    return safetensors.torch.load_file(folder.path / "model.safetensors")


@pytest.mark.parametrize(
    "method",
    ["init: shared", "init: private", "network: gat", "average: true"],
)
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_the_layout_of_the_hosts_changes_nothing(
    method: str, participation: float, tmp_path: Path
) -> None:
    chosen = (f"method={{name: nfedgnn, {method}}}", USERS)
    share = f"training.participation={participation}"
    one, four = (
        released(tmp_path / hosts, *chosen, share, f"engine.hosts={hosts}") for hosts in "14"
    )
    assert torch.equal(one["logits"], four["logits"])


def test_the_uplink_is_sixteen_floats_per_user_and_round(tmp_path: Path) -> None:
    summary = runner.start(config(tmp_path, METHOD, USERS)).summary
    assert summary is not None
    assert summary.bytes.up.payload == 4 * 120 * 16 * 4


def test_masking_is_refused_since_the_server_needs_every_latent(tmp_path: Path) -> None:
    with pytest.raises(MaskingRefused, match=r"set method: \{upload: neighbourhood_sums"):
        runner.start(config(tmp_path, METHOD, USERS, "privacy.secure_aggregation={}"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["keep", "zero"])
def test_some_users_can_sit_out_a_round(missing: str, tmp_path: Path) -> None:
    method = f"method={{name: nfedgnn, missing: {missing}}}"
    run = runner.start(config(tmp_path, method, USERS, "training.participation=0.5"))
    assert run.summary is not None
    assert run.summary.bytes.up.payload == 4 * 60 * 16 * 4


class HalfTheUsers(Cohort):
    """Asked for latents, even users answer with ones and odd ones are silent."""

    num_clients = 4

    def __init__(self) -> None:
        self.asked_to_learn: list[int] = []

    def ask(self, request: Message, reply: type[Any], clients: Clients | None = None) -> Any:
        if reply is Latents:
            return Replies(Latents(latent=torch.ones(2, 16)), Clients.of([0, 2]), ())
        assert clients is not None
        self.asked_to_learn = clients.numbers()
        return Replies(Learnt(number=1, weights=None), clients, ())


@pytest.mark.parametrize(("missing", "wanted"), [("keep", [1, 5, 1, 5]), ("zero", [1, 0, 1, 0])])
def test_a_silent_users_last_latent_is_kept_or_counts_as_none(
    missing: str, wanted: list[int]
) -> None:
    info = PublicInfo(
        num_nodes=4,
        num_features=3,
        num_classes=2,
        num_clients=4,
        seed=0,
        device=torch.device("cpu"),
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]),
        known_labels=torch.tensor([0, 1, -1, -1]),
    )
    cohort = HalfTheUsers()
    settings = Settings.model_validate({"name": "nfedgnn", "missing": missing})
    server = LatentServer(info, settings, TrainingSettings(), cohort)
    before = server.state()
    server.restore({**before, "received": torch.full((4, 16), 5.0)})
    server.round(1)
    assert server.state()["received"][:, 0].tolist() == wanted
    assert cohort.asked_to_learn == [0, 2]


def test_a_gat_uploads_eight_heads(tmp_path: Path) -> None:
    summary = runner.start(config(tmp_path, "method={name: nfedgnn, network: gat}", USERS)).summary
    assert summary is not None
    assert summary.bytes.up.payload == 4 * 120 * 128 * 4


def test_users_of_cnfgnn_upload_their_weights_and_all_hold_the_mean(tmp_path: Path) -> None:
    cnfgnn = "method={name: nfedgnn, average: true}"
    folder = runner.start(config(tmp_path, cnfgnn, USERS)).folder
    records = list(read_transcript(folder.transcript))
    up = folder.summary().bytes.up.payload
    assert up == 4 * 120 * (16 + 30 * 16) * 4
    sent = [r.fields()["weights"] for r in records if r.kind == "nfedgnn.Learnt" and r.round == 1]
    calls = [r.fields() for r in records if r.kind == "nfedgnn.Call"]
    assert "weights" not in calls[0]
    tensors = [value for value in sent if isinstance(value, torch.Tensor)]
    broadcast = calls[1]["weights"]
    assert isinstance(broadcast, torch.Tensor)
    assert torch.allclose(broadcast, torch.cat(tensors).mean(0), atol=1e-6)


def test_masked_weights_of_cnfgnn_have_the_same_mean(tmp_path: Path) -> None:
    masks = "privacy.secure_aggregation={malicious: false, masked_fields: [Learnt.weights]}"
    small = ("method={name: nfedgnn, average: true, hidden: 4}", USERS, "training.rounds=2")
    broadcast = []
    for root, more in (("plain", ()), ("masked", (masks,))):
        folder = runner.start(config(tmp_path / root, *small, *more)).folder
        records = list(read_transcript(folder.transcript))
        calls = [r.fields() for r in records if r.kind == "nfedgnn.Call"]
        broadcast.append(calls[-1]["weights"])
        sent = [r.fields()["weights"] for r in records if r.kind == "nfedgnn.Learnt"]
        assert {value.dtype for value in sent if isinstance(value, torch.Tensor)} == {
            torch.float32 if root == "plain" else torch.int32
        }
    plain, masked = broadcast
    assert isinstance(plain, torch.Tensor)
    assert isinstance(masked, torch.Tensor)
    assert torch.allclose(plain, masked, atol=1e-4)


def test_averaged_weights_must_start_alike(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="average: true wants init: shared"):
        config(tmp_path, "method={name: nfedgnn, average: true, init: private}", USERS)


def test_noise_on_the_latents_is_accounted_per_user(tmp_path: Path) -> None:
    noise = "privacy={mechanism: local_gaussian, noise_multiplier: 2}"
    summary = runner.start(config(tmp_path, METHOD, USERS, noise)).summary
    assert summary is not None
    assert summary.epsilon["client"].epsilon == pytest.approx(4.37718, abs=1e-4)


SUMS = "method={name: nfedgnn, upload: neighbourhood_sums, smoothness: 0, missing: zero}"


def test_sums_over_neighbourhoods_train_as_latents_do_where_every_sum_is_released(
    tmp_path: Path,
) -> None:
    dense = "data.csbm.degree=20"  # so that no node has fewer than two neighbours
    latents = "method={name: nfedgnn, smoothness: 0}"
    each = released(tmp_path / "each", latents, USERS, dense)
    sums = released(tmp_path / "sums", SUMS, USERS, dense)
    assert torch.allclose(each["logits"], sums["logits"], atol=1e-4)


def test_masked_sums_hide_the_parts_and_the_summary_says_what_they_give_away(
    tmp_path: Path,
) -> None:
    masks = (
        "privacy.secure_aggregation={malicious: false}",
        "training.rounds=2",
        "data.csbm.num_nodes=40",
    )
    plain = runner.start(config(tmp_path / "plain", SUMS, USERS, *masks[1:])).folder
    run = runner.start(config(tmp_path / "masked", SUMS, USERS, *masks)).folder
    parts = [
        r.fields()["parts"]
        for r in read_transcript(run.transcript)
        if r.kind.endswith("Parts") and r.up
    ]
    for value in parts:
        assert isinstance(value, torch.Tensor)
        assert value.dtype == torch.int32
        assert (value == 0).float().mean() < 0.01  # unmasked, most of it is zero
    logits = [
        safetensors.torch.load_file(r.path / "model.safetensors")["logits"] for r in (plain, run)
    ]
    assert torch.allclose(*logits, atol=1e-3)
    summary = run.summary()
    share = summary.method_facts["latents_exposed_by_algebra"]
    assert 0 < share <= 1
    assert summary.recovered_by_algebra.contributions_recoverable == round(2 * 40 * share)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("network: gat, smoothness: 0, missing: zero", "attention compares every two latents"),
        ("smoothness: 1, missing: zero", "smoothness > 0"),
        ("smoothness: 0", "missing: keep"),
        ("smoothness: 0, missing: zero, average: true", "average: true"),
    ],
)
def test_what_needs_single_latents_is_refused_with_sums(
    more: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=why):
        config(tmp_path, f"method={{name: nfedgnn, upload: neighbourhood_sums, {more}}}", USERS)
