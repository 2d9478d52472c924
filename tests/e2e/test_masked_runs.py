"""Whole runs under masks: the same model on every engine, and nothing secret is written."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from securefg.foundation.errors import ConfigError, MaskingRefused, RoundAborted
from securefg.protocol.transcript import Adversary, Record, read_transcript, view
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from tests.small import config
from tests.unit.secagg.session_world import everything_made

MASKED = "privacy.secure_aggregation={}"
LOUVAIN = "partition={name: louvain, num_clients: 8}"
PART = "training.participation=0.6"
EQUAL = "method={name: fedgl, weighting: equal}"
STAGES = {
    "messages.Advertise",
    "messages.Keys",
    "messages.Roster",
    "messages.Again",
    "messages.Shares",
    "messages.Deliver",
    "messages.Ready",
    "fedgl.UpdateCount",
    "fedgl.UpdateCensus",
    "fedgl.UpdateCensus.sum",
    "fedgl.Globals",
    "fedgl.Update",
    "messages.Survivors",
    "messages.Agreed",
    "messages.Unmask",
    "messages.Revealed",
    "fedgl.Update.sum",
}


def finished(root: Path, *overrides: str) -> RunFolder:
    return runner.start(config(root, *overrides)).folder


def model(run: RunFolder) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(run.path / "model.safetensors")


def records(run: RunFolder) -> list[Record]:
    return list(read_transcript(run.transcript))


def epsilons(run: RunFolder) -> list[float]:
    claims = run.summary().epsilon.values()
    return [math.inf if c.epsilon is None else c.epsilon for c in claims]


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return finished(tmp_path_factory.mktemp("masked"), MASKED, "training.rounds=2")


@pytest.mark.parametrize(
    "method",
    [
        "name: fedgl, weighting: clients",
        "name: fedgl, weighting: clients, fusion: renormalised",
        "name: fedgl, weighting: equal, upload: update",
        "name: fedgl, weighting: nodes, pseudo_labels: false, pseudo_graph: false",
        "name: fedgl, pseudo_labels: false, pseudo_graph: false",
    ],
)
def test_fedgl_masked_with_the_same_settings_gives_the_plain_model(
    method: str, tmp_path: Path
) -> None:
    settings, alone = f"method={{{method}}}", "privacy.secure_aggregation={min_holders: 1}"
    plain = model(finished(tmp_path / "plain", "training.rounds=1", settings))
    masked_model = model(finished(tmp_path / "masked", "training.rounds=1", settings, alone))
    assert (plain["weights"] - masked_model["weights"]).abs().max() < 1e-5
    assert plain["weights"].abs().max() > 0.1
    if "pseudo_labels" in plain:
        assert torch.equal(plain["pseudo_labels"], masked_model["pseudo_labels"])
        assert bool((plain["pseudo_labels"] >= 0).any())


def test_fedgl_masked_by_default_counts_clients_alike_and_says_so(
    masked: RunFolder, tmp_path: Path
) -> None:
    same = finished(tmp_path, "method.weighting=clients", MASKED, "training.rounds=2")
    assert torch.equal(model(masked)["weights"], model(same)["weights"])
    assert masked.summary().chosen["method.weighting"].startswith("clients: ")
    assert same.summary().chosen == {}


def test_every_engine_gives_the_same_masked_model_and_bytes(
    masked: RunFolder, tmp_path: Path
) -> None:
    apart = finished(tmp_path, MASKED, "training.rounds=2", "engine.name=processes")
    models = [(run.path / "model.safetensors").read_bytes() for run in (masked, apart)]
    assert models[0] == models[1]
    assert masked.summary().bytes == apart.summary().bytes


def test_masks_differ_between_two_runs_and_the_models_do_not(
    masked: RunFolder, tmp_path: Path
) -> None:
    again = finished(tmp_path, MASKED, "training.rounds=2")
    uploads = [
        [r.fields()["weights"] for r in records(run) if r.kind == "fedgl.Update"]
        for run in (masked, again)
    ]
    assert not any(torch.equal(a, b) for a, b in zip(*uploads, strict=True))
    assert (masked.path / "model.safetensors").read_bytes() == (
        again.path / "model.safetensors"
    ).read_bytes()


def test_the_transcript_has_every_stage_and_the_sums(masked: RunFolder) -> None:
    kinds = Counter(r.kind for r in records(masked))
    assert kinds.keys() == STAGES
    assert kinds["messages.Revealed"] == 3 * 3  # holders are counted once, then two rounds
    assert kinds["fedgl.Update.sum"] == 2


def test_a_server_that_is_trusted_saves_the_agreement(tmp_path: Path) -> None:
    secure = "privacy.secure_aggregation={malicious: false}"
    run = finished(tmp_path, secure, "training.rounds=1")
    assert {r.kind for r in records(run)} == STAGES - {"messages.Survivors", "messages.Agreed"}


def test_revealed_shares_are_on_no_record_but_their_size_is_counted(masked: RunFolder) -> None:
    for record in records(masked):
        assert "shares" not in record.fields()
        if record.kind == "messages.Revealed":
            assert record.fields().keys() == {"which"}
            assert record.payload >= 3 * 33  # a share for each of three clients crossed the wire


def test_the_server_sees_masked_uploads_and_their_sum(masked: RunFolder) -> None:
    seen = [s for s in view(masked.transcript, Adversary.parse("server")) if s.header.round == 1]
    uploads = [s.fields["weights"] for s in seen if s.header.kind == "fedgl.Update" and s.fields]
    (opened,) = [s.fields for s in seen if s.header.kind == "fedgl.Update.sum"]
    assert opened is not None
    assert len(uploads) == 3
    assert opened["weights"].shape == uploads[0].shape[1:]
    assert opened["weights"].abs().max() < 1000
    for upload in uploads:
        assert upload.dtype == torch.int32
        assert is_uniform(upload.numpy())
    assert not is_uniform((opened["weights"] * 2**20).to(torch.int32).numpy())


def is_uniform(words: np.ndarray) -> bool:
    """Kolmogorov's distance of the words from the uniform law, at a level of 1e-8."""
    ranks = np.sort(words.ravel().astype(np.float64)) / 2**32 + 0.5
    distance = np.abs(ranks - np.arange(len(ranks)) / len(ranks)).max()
    return bool(distance < math.sqrt(math.log(2e8) / (2 * len(ranks))))


def test_a_client_sees_no_other_clients_upload_and_no_sum(masked: RunFolder) -> None:
    for seen in view(masked.transcript, Adversary.parse("client:1")):
        assert not seen.header.kind.endswith(".sum")
        if seen.header.kind == "fedgl.Update":
            assert seen.header.sender == "client-1"


def test_masking_alone_is_booked_as_no_privacy(masked: RunFolder) -> None:
    assert epsilons(masked)
    assert all(math.isinf(epsilon) for epsilon in epsilons(masked))


def test_nothing_secret_is_written_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with everything_made(monkeypatch) as made:
        run = finished(tmp_path, "privacy.secure_aggregation={malicious: true}")
    assert len(made.secrets) > 4 * 3 * 3
    assert len(made.shares) >= 4 * 3 * 3 * 2
    files = [p for p in run.path.rglob("*") if p.is_file() and run.identities not in p.parents]
    assert any(p.name == "messages.bin" for p in files)
    assert any("checkpoints" in p.parts for p in files)
    for path in files:
        assert made.found_in(path.read_bytes()) == [], path
    keys = list(run.identities.iterdir())
    assert len(keys) == 3
    assert all(made.found_in(p.read_bytes()) for p in keys)  # the search finds what is there
    assert all(p.stat().st_mode & 0o077 == 0 for p in keys)


# ----------------------------------------------------------------------------------------- noise


@pytest.mark.parametrize("mechanism", ["distributed_discrete", "local_gaussian"])
def test_noise_under_masks_has_a_finite_epsilon(mechanism: str, tmp_path: Path) -> None:
    privacy = f"privacy={{mechanism: {mechanism}, noise_multiplier: 2.0, secure_aggregation: {{}}}}"
    run = finished(tmp_path, privacy, EQUAL, "training.rounds=1")
    assert epsilons(run)
    assert all(0 < epsilon < math.inf for epsilon in epsilons(run))
    rules = [r.rules for r in records(run) if r.kind == "fedgl.Update"]
    assert {rule for one in rules for rule in one.values()} == {f"{mechanism}, masked"}


def test_seeded_distributed_noise_is_the_same_on_every_run(tmp_path: Path) -> None:
    privacy = (
        "privacy={mechanism: distributed_discrete, noise_multiplier: 2.0, noise_rng: seeded, "
        "secure_aggregation: {}}"
    )
    one, other = (
        finished(tmp_path / name, privacy, EQUAL, "training.rounds=1") for name in ("a", "b")
    )
    assert torch.equal(model(one)["weights"], model(other)["weights"])


# ------------------------------------------------------------------------------------- drop-outs


FAILING = "method.name=tests.contract.failing"


def test_a_round_with_too_few_survivors_is_skipped_and_the_run_goes_on(tmp_path: Path) -> None:
    run = finished(tmp_path, FAILING, MASKED)
    lines: list[dict[str, Any]] = run.metrics()
    assert [bool(line["aborted"]) for line in lines] == [False, True, False, False]
    assert "2 clients answered fedgl.Globals, 3 are needed" in lines[1]["aborted"]
    kinds = Counter((r.round, r.kind) for r in records(run))
    assert kinds[(2, "fedgl.Update.sum")] == kinds[(2, "messages.Revealed")] == 0
    assert kinds[(3, "fedgl.Update.sum")] == 1


def test_a_round_with_too_few_survivors_ends_the_run_where_that_is_asked_for(
    tmp_path: Path,
) -> None:
    with pytest.raises(RoundAborted, match="2 clients answered"):
        finished(tmp_path, FAILING, "privacy.secure_aggregation={on_abort: stop}")


def test_a_drop_out_within_the_threshold_leaves_the_sum_of_the_others(tmp_path: Path) -> None:
    shares = "partition.shares=[0.5, 0.6, 0.7, 0.5]"
    halves = ("method.pseudo_labels=false", "method.pseudo_graph=false", "training.rounds=2")
    plain = finished(tmp_path / "plain", FAILING, shares, *halves)
    run = finished(tmp_path / "masked", FAILING, shares, MASKED, *halves)
    assert [line["aborted"] for line in run.metrics()] == ["", ""]
    (round_2,) = [r for r in records(run) if r.kind == "fedgl.Update.sum" and r.round == 2]
    assert round_2.clients == "1-3"
    (started,) = [r.fields() for r in records(plain) if r.kind == "fedgl.Globals" and r.round == 2]
    sent = [r.fields() for r in records(plain) if r.kind == "fedgl.Update" and r.round == 2]
    assert len(sent) == 3
    wanted = sum(float(f["num_nodes"]) * (f["weights"][0] - started["weights"]) for f in sent)
    assert (round_2.fields()["weights"] - wanted).abs().max() < 0.05
    assert wanted.abs().max() > 1


def test_what_never_changes_is_in_one_sum_of_the_run(tmp_path: Path) -> None:
    """One client is away in round 2: no sum of that round is opened, and nothing follows."""
    shares = "partition.shares=[0.5, 0.6, 0.7, 0.5]"
    run = finished(tmp_path, FAILING, shares, MASKED, "training.rounds=3")
    sums = [r.fields() for r in records(run) if r.kind == "fedgl.Update.sum"]
    assert len(sums) == 2
    assert run.summary().aborted_rounds == 1
    for fields in sums:
        assert "num_nodes" not in fields
        assert fields["predictions"].shape[-1] == 1  # one of two classes
    (census,) = [r for r in records(run) if r.kind == "fedgl.UpdateCensus.sum"]
    assert census.fields().keys() == {"holds"}
    found = run.summary().recovered_by_algebra
    assert found is not None
    assert found.contributions_recoverable == 0


def test_census_without_rows_of_nodes_opens_the_sum_of_sizes_alone(tmp_path: Path) -> None:
    halves = ("method.pseudo_labels=false", "method.pseudo_graph=false")
    run = finished(tmp_path, MASKED, *halves, "training.rounds=2")
    sums = [r.fields() for r in records(run) if r.kind == "fedgl.UpdateCensus.sum"]
    assert [fields.keys() for fields in sums] == [{"num_nodes"}]
    alike = finished(tmp_path, MASKED, *halves, "method.weighting=clients", "training.rounds=2")
    assert not [
        r for r in records(alike) if r.kind.startswith(("fedgl.UpdateCount", "fedgl.UpdateCensus"))
    ]


def test_fewer_survivors_than_the_noise_was_planned_for_abort_the_round(tmp_path: Path) -> None:
    """Five clients lose one; the threshold of four is reached, but five carry the noise."""
    privacy = (
        "privacy={mechanism: distributed_discrete, noise_multiplier: 2.0, "
        "secure_aggregation: {dropout: 0.1}}"
    )
    method = "method={name: tests.contract.failing, weighting: equal}"
    shares = "partition.shares=[0.5, 0.6, 0.7, 0.5, 0.6]"
    run = finished(tmp_path, privacy, method, shares, "training.rounds=2")
    assert "4 clients answered fedgl.Globals, 5 are needed" in run.metrics()[1]["aborted"]


# -------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("error", "overrides", "words"),
    [
        (
            ConfigError,
            ["privacy.secure_aggregation={scale: 1.0e+9}"],
            "the sum could overflow: 3 clients",
        ),
        (
            ConfigError,
            ["privacy.secure_aggregation={masked_fields: [Update.foo]}"],
            "no private field 'Update.foo'; this run sends Update.weights",
        ),
        (
            ConfigError,
            [
                "privacy={mechanism: distributed_discrete, noise_multiplier: 1, "
                "secure_aggregation: {}}",
                "method.weighting=nodes",
            ],
            r"let clients count alike \(method.weighting: clients\)",
        ),
        (
            ConfigError,
            ["method.weighting=nodes", MASKED],
            "method.weighting: found nodes; expected clients under masks",
        ),
        (
            ConfigError,
            [
                "method.weighting=nodes",
                "privacy.secure_aggregation={masked_fields: [Update.weights]}",
            ],
            "method.weighting: found nodes; expected clients under masks",
        ),
        (
            ConfigError,
            ["privacy={mechanism: distributed_discrete, noise_multiplier: 1}", EQUAL],
            "wants secure_aggregation",
        ),
        (
            ConfigError,
            ["privacy.secure_aggregation={min_clients: 2}"],
            "secure_aggregation.min_clients: found 2; expected a whole number of at least 3",
        ),
        (MaskingRefused, ["method={name: alone}", MASKED], "sends no private field"),
    ],
    ids=[
        "overflow",
        "unknown field",
        "weights",
        "weighted rows",
        "weighted rows beside masks",
        "no masks",
        "minimum",
        "nothing to mask",
    ],
)
def test_what_masking_cannot_serve_is_refused_before_anything_is_written(
    error: type[Exception], overrides: list[str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        finished(tmp_path / "runs", *overrides)
    assert not (tmp_path / "runs").exists()


def test_masked_rows_count_holders_once_and_refuse_partial_participation(tmp_path: Path) -> None:
    """A client that is away shows by what is missing which rows are its own."""
    masked = "privacy.secure_aggregation={min_holders: 2}"
    shares = "partition.shares=[0.5, 0.6, 0.7, 0.8, 0.9]"
    run = runner.start(config(tmp_path, masked, shares))
    assert run.summary is not None
    kinds = [record.kind for record in read_transcript(run.folder.transcript)]
    assert kinds.count("fedgl.UpdateCensus.sum") == 1
    assert 0 < run.summary.method_facts["share_of_nodes_released"] <= 1
    with pytest.raises(ConfigError, match=r"training\.participation: found 3 of 5 clients"):
        runner.start(config(tmp_path / "some", masked, shares, "training.participation=0.6"))
    assert not (tmp_path / "some").exists()


def test_distributed_noise_is_shared_by_those_who_train(tmp_path: Path) -> None:
    """GFL-APPNP: all clients take part in a round, the labelled ones alone send a model."""
    run = runner.start(
        config(
            tmp_path,
            "partition={name: one_node}",
            "training.rounds=2",
            "method={name: gfl_appnp, jacobian: none, upload: update, hidden: 8}",
            "privacy={mechanism: local_gaussian, target_epsilon: 8, unit: client, "
            "secure_aggregation: {malicious: false}, "
            "field_rules: {Update.weights: {mechanism: distributed_discrete}}}",
            method="gfl_appnp",
        )
    ).folder
    sums = [record for record in records(run) if record.kind == "gfl_appnp.Update.sum"]
    assert len(sums) == 2
    claims = run.summary().epsilon
    assert claims["client"].epsilon == pytest.approx(8, abs=1e-3)
    infinite = {unit for unit, claim in claims.items() if claim.epsilon is None}
    assert infinite == {"node", "edge"}  # the server is given the graph
    assert all("all edges, given to the server" in claims[unit].because for unit in infinite)


PARTLY_ASKED = {
    "a part of the clients per round": ["method={name: fedavg, weighting: clients}", LOUVAIN, PART],
    "clients with labels alone": ["method={name: gfl_appnp}", "partition={name: one_node}"],
}


@pytest.mark.parametrize("overrides", PARTLY_ASKED.values(), ids=PARTLY_ASKED.keys())
def test_committee_run_that_asks_some_clients_gives_the_plain_model(
    overrides: list[str], tmp_path: Path
) -> None:
    form = "privacy.secure_aggregation={form: committee, corrupt: 0, malicious: false}"
    short = (*overrides, "training.rounds=2")
    plain = model(finished(tmp_path / "plain", *short))
    masked = finished(tmp_path / "masked", *short, form)
    assert masked.summary().aborted_rounds == 0
    for name, value in model(masked).items():
        assert torch.allclose(value, plain[name], atol=1e-5)
