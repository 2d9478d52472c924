"""Recordings that were edited, or that leave something out, earn no milder verdict."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import securefg
from audits.findings.record import Finding, Verdict
from audits.foreign import ForeignTruth
from audits.games.trained_members import trained_members
from audits.plan import Plan
from audits.run import audit
from securefg.foundation.errors import ConfigError, RunFolderError
from securefg.protocol.exchange import read_exchange
from securefg.protocol.transcript import Adversary, Record, TranscriptWriter, read_transcript
from tests.unit.audits.foreign_networks import HERE, Convolutions, draw_digits, write_record

INPUTS, CLASSES, CLIENTS = 5, 3, 6
MEMBERS = "network_members"


def write_linear(path: Path, seed: int = 0, rounds: int = 2) -> Path:
    """Record a softmax regression on random samples."""
    rng = np.random.default_rng(seed)
    samples = {k: rng.normal(size=(2, INPUTS)).astype(np.float32) for k in range(CLIENTS)}
    labels = {k: rng.integers(CLASSES, size=2) for k in range(CLIENTS)}
    with securefg.record(path, holds="change", classes=CLASSES) as recording:
        for number in range(1, rounds + 1):
            weights = {"w": np.zeros((CLASSES, INPUTS), np.float32), "b": np.zeros(CLASSES)}
            recording.send(number, weights, range(CLIENTS))
            for client, rows in samples.items():
                wrong = np.full((2, CLASSES), 1 / CLASSES)
                wrong[np.arange(2), labels[client]] -= 1
                change = {"w": -wrong.T @ rows, "b": -wrong.sum(0)}
                recording.upload(client, number, change)
        recording.truth(samples, labels)
    return path


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    return write_linear(tmp_path / "linear")


def edit_description(path: Path, **changes: Any) -> None:
    where = path / "foreign.yaml"
    tree = {**yaml.safe_load(where.read_text()), **changes}
    where.write_text(yaml.safe_dump({key: value for key, value in tree.items() if value != "-"}))


def edit_records(path: Path, edit: Callable[[list[Record]], list[Record]]) -> None:
    """Write the records anew with a chain that is whole."""
    records = edit(list(read_transcript(path / "transcript")))
    (path / "transcript" / "messages.bin").unlink()
    writer = TranscriptWriter(path / "transcript")
    for record in records:
        writer.append(record)
    writer.close()
    edit_description(path, chain=writer.chain)


def edit_private(path: Path, name: str, **changes: np.ndarray) -> None:
    where = path / "private" / name
    np.savez(where, **{**np.load(where), **changes})


def by_attack(path: Path, *only: str, **plan: Any) -> dict[str, Finding]:
    return {found.attack: found for found in audit(path, Plan(only=only, **plan)).findings}


# ------------------------------------------------------------------------------- what is left out


def test_recording_without_a_last_link_leaves_integrity_open(linear: Path) -> None:
    """Its end may have been cut off, which leaves a chain that is whole."""
    edit_records(linear, lambda records: records[:-1])
    edit_description(linear, chain="-")
    assert read_exchange(linear).chain is None
    integrity = by_attack(linear, "promises")["integrity"]
    assert integrity.verdict is Verdict.INCONCLUSIVE
    assert "chain" in integrity.because


def test_recording_with_a_thinned_upload_is_refused(linear: Path) -> None:
    def thin(records: list[Record]) -> list[Record]:
        return [replace(r, thinned=True, body=b"") if r.up and r.round == 1 else r for r in records]

    edit_records(linear, thin)
    with pytest.raises(ConfigError, match="round 1: found a message without its content"):
        audit(linear, Plan())


def test_recording_that_replaced_another_keeps_none_of_its_findings(
    linear: Path, tmp_path: Path
) -> None:
    """Findings about another recording say nothing, and an audit of a part would keep them."""
    assert by_attack(linear)
    other = write_linear(tmp_path / "other", seed=1)
    shutil.rmtree(linear / "transcript")
    shutil.copytree(other / "transcript", linear / "transcript")
    shutil.copy(other / "foreign.yaml", linear / "foreign.yaml")
    with pytest.raises(RunFolderError, match="findings about another run"):
        by_attack(linear, "promises")
    assert by_attack(linear)  # all of it anew


# ------------------------------------------------------------------------------ impossible values


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": 10**9}, "clients"),
        ({"layers": [{"name": "w", "shape": [-3, -6]}]}, "shape"),
        ({"classes": 10**9, "output_layer": "-"}, "classes"),
    ],
)
def test_description_with_impossible_sizes_is_refused(
    changes: dict[str, Any], message: str, linear: Path
) -> None:
    edit_description(linear, **changes)
    with pytest.raises(ConfigError, match=message):
        audit(linear, Plan())


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("truth.npz", {"-1": np.ones((2, INPUTS))}, "client '-1'"),
        ("truth.npz", {"01": np.ones((2, INPUTS))}, "client '01'"),
        ("truth.npz", {"99": np.ones((2, INPUTS))}, "client '99'"),
        ("labels.npz", {"-1": np.zeros(2, int)}, "client '-1'"),
        ("truth.npz", {"0": np.full((2, INPUTS), np.nan)}, "finite"),
        ("truth.npz", {"0": np.full((2, INPUTS), np.inf)}, "finite"),
        ("truth.npz", {"0": np.ones((0, INPUTS))}, "samples"),
        ("labels.npz", {"0": np.zeros(1, int)}, "found 1 labels of 2 samples"),
        ("labels.npz", {"0": np.zeros(3, int)}, "found 3 labels of 2 samples"),
        ("labels.npz", {"0": np.full(2, 0.5)}, "whole numbers"),
    ],
)
def test_truth_with_impossible_entries_is_refused(
    name: str, changes: dict[str, np.ndarray], message: str, linear: Path
) -> None:
    edit_private(linear, name, **changes)
    with pytest.raises(ConfigError, match=message):
        audit(linear, Plan())


@pytest.mark.parametrize(
    "held",
    [
        {"samples": np.float32(1), "labels": np.int64(0)},
        {"samples": np.full((1, INPUTS), np.nan), "labels": np.array([0])},
        {"samples": np.ones((1, INPUTS)), "labels": np.array([0.5])},
    ],
)
def test_held_out_with_impossible_entries_is_refused(held: dict[str, Any], linear: Path) -> None:
    np.savez(linear / "private" / "held_out.npz", **held)
    with pytest.raises(ConfigError, match=r"held_out\.npz"):
        audit(linear, Plan())


# ------------------------------------------------------------------------- questions of membership


def members_asked(path: Path) -> tuple[set[bytes], set[bytes]]:
    """Return pairs of a client and a sample that are asked about as members, and as others."""
    truth = ForeignTruth.from_path(path)
    game = trained_members(truth, Adversary.parse("server"), np.random.default_rng(0))
    asked = game.question
    pairs = [
        bytes([client]) + sample.tobytes()
        for client, sample in zip(asked.clients, asked.samples, strict=True)  # type: ignore[attr-defined]
    ]
    sides: list[set[bytes]] = [
        {pair for pair, is_member in zip(pairs, game.truth, strict=True) if is_member == side}
        for side in (1, 0)
    ]
    return sides[0], sides[1]


def pairs_held(path: Path) -> set[bytes]:
    truth = ForeignTruth.from_path(path)
    return {bytes([k]) + row.tobytes() for k, rows in truth.inputs.items() for row in rows}


def write_digits(path: Path, data: list[tuple[np.ndarray, np.ndarray]]) -> Path:
    torch.manual_seed(0)
    write_record(path, Convolutions(), data)
    return path


def test_members_among_held_out_samples_are_not_asked_as_others(tmp_path: Path) -> None:
    """They would look like members, rightly, and hide a leak."""
    first, second, outside = draw_digits(2, 60)
    outside = tuple(np.concatenate([o[:30], a[:30]]) for o, a in zip(outside, first, strict=True))
    path = write_digits(tmp_path / "x", [first, second, outside])  # type: ignore[list-item]
    members, others = members_asked(path)
    assert members
    assert others
    assert not others & pairs_held(path)


def test_samples_that_two_clients_hold_are_not_asked_as_others(tmp_path: Path) -> None:
    first, second, outside = draw_digits(2, 60)
    second = tuple(np.concatenate([b[:30], a[:30]]) for b, a in zip(second, first, strict=True))
    path = write_digits(tmp_path / "x", [first, second, outside])  # type: ignore[list-item]
    (path / "private" / "held_out.npz").unlink()
    members, others = members_asked(path)
    assert members
    assert others
    assert not others & pairs_held(path)


def test_members_of_clients_that_sent_nothing_are_not_asked(tmp_path: Path) -> None:
    """No attack can read anything of them: they would only hide the others' leak."""
    data = draw_digits(4, 40)
    path = write_digits(tmp_path / "x", data[:2] + data[-1:])
    edit_description(path, clients=4)
    for name, part in (("truth.npz", 0), ("labels.npz", 1)):
        edit_private(path, name, **{str(k): data[k][part] for k in (2, 3)})
    members, others = members_asked(path)
    assert {pair[0] for pair in members | others} == {0, 1}


def test_leak_stands_beside_audits_with_another_network_or_data(tmp_path: Path) -> None:
    """Whoever tries networks and data until the verdict is mild takes nothing back."""
    data = draw_digits(2, 100)
    path = write_digits(tmp_path / "x", data)
    network = f"{HERE}:Convolutions"
    assert by_attack(path, MEMBERS, network=network)[MEMBERS].verdict is Verdict.LEAK
    blind = by_attack(path, MEMBERS, network=f"{HERE}:Blind")[MEMBERS]
    assert blind.verdict is Verdict.LEAK
    assert f"--network {HERE}:Blind" in blind.words
    others = tmp_path / "others"
    others.mkdir()
    for name, part in (("truth.npz", 0), ("labels.npz", 1)):
        np.savez(others / name, **{str(k): data[1 - k][part] for k in range(2)})
    again = by_attack(path, MEMBERS, network=network, data=others)[MEMBERS]
    assert again.verdict is Verdict.LEAK
    assert f"--data {others}" in again.words


def test_attacks_that_lack_the_network_were_not_asked_for(tmp_path: Path) -> None:
    """The auditor left them out: the recording gives them what they read."""
    path = write_digits(tmp_path / "x", draw_digits(2, 20))
    found = by_attack(path, MEMBERS)[MEMBERS]
    assert (found.unmet, found.measured) == ("not_asked", False)
    assert "--network" in found.because
    assert by_attack(path, MEMBERS, network=f"{HERE}:Convolutions")[MEMBERS].unmet == ""
