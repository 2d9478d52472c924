"""Mutated frames, packets, transcripts, ledgers, checkpoints and run folders."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
import torch

from securefg.foundation.errors import RunFolderError
from securefg.privacy.ledger import read_ledger
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope
from securefg.protocol.transcript import Adversary, broken_link, view
from securefg.reports.exports import as_markdown
from securefg.reports.results import read_results
from securefg.runs import runner
from securefg.runs.checkpoint import last_checkpoint
from securefg.runs.folder import RunFolder
from securefg.site.packets import Packet, read_route
from tests.fuzz.mutations import answered, many, mutated
from tests.small import config
from tests.unit.runs.interrupted import NOISE, interrupted

BODY = codec.encode_fields({"x": torch.arange(6.0).reshape(2, 3), "n": 3, "name": "a"})
FRAME = codec.frame(Envelope(1, 2, 3, "server", "client-0", "m.Update", Clients.of([0, 1]), BODY))
ROUTE = json.dumps({"job": "j", "sender": "a", "receiver": "b", "number": 3, "content": {}})


@many(150, 25_000)
def test_frames(seed: int) -> None:
    with answered():
        found = codec.unframe(mutated(FRAME, seed))
        found.clients.numbers()
        codec.decode_fields(found.body)


@many(80, 6_000)
def test_packets(seed: int) -> None:
    with answered():
        read_route(Packet(mutated(ROUTE.encode(), seed), b"", b"", b""))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return interrupted(tmp_path_factory.mktemp("stopped"), NOISE)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return runner.start(config(tmp_path_factory.mktemp("runs"), "training.rounds=2")).folder


@many(40, 2_000)
def test_transcripts(stopped: RunFolder, tmp_path: Path, seed: int) -> None:
    data = (stopped.transcript / "messages.bin").read_bytes()
    spoilt = mutated(data, seed)
    (tmp_path / "messages.bin").write_bytes(spoilt)
    with answered(tmp_path):
        for seen in view(tmp_path, Adversary.parse("server")):
            seen.clients.numbers()
    with answered(tmp_path):
        broken = broken_link(tmp_path)
        assert broken is not None or data.startswith(spoilt)


@many(60, 4_000)
def test_ledgers(stopped: RunFolder, tmp_path: Path, seed: int) -> None:
    data = stopped.ledger_path.read_bytes()
    spoilt = mutated(data, seed)
    (tmp_path / "ledger.jsonl").write_bytes(spoilt)
    whole = list(read_ledger(stopped.ledger_path))
    with answered(tmp_path):
        assert list(read_ledger(tmp_path / "ledger.jsonl")) == whole[: spoilt.count(b"\n")]


@many(40, 2_000)
def test_checkpoints(stopped: RunFolder, tmp_path: Path, seed: int) -> None:
    """A checkpoint of which a byte changed is never the one that is used."""
    folder = tmp_path / f"c{seed}"
    shutil.copytree(stopped.checkpoints, folder)
    files = sorted(path for path in (folder / "round-000004").rglob("*") if path.is_file())
    path = random.Random(seed).choice(files)
    before = path.read_bytes()
    path.write_bytes(mutated(before, seed))
    with answered(tmp_path):
        found = last_checkpoint(folder, stopped.config().hash)
        assert found is not None
        said = found.path.name == "round-000002" or path.read_bytes() == before
        assert said or same_state(before, path)
    shutil.rmtree(folder)


def same_state(before: bytes, path: Path) -> bool:
    """Other bytes for the same JSON, such as a blank more, are no damage."""
    try:
        return path.name == "state.json" and json.loads(before) == json.loads(path.read_bytes())
    except ValueError:
        return False


@many(15, 600)
def test_run_folders(finished: RunFolder, tmp_path: Path, seed: int) -> None:
    files = sorted(p for p in finished.path.rglob("*") if p.is_file() and p.name != ".lock")
    path = random.Random(seed).choice(files)
    before = path.read_bytes()
    path.write_bytes(mutated(before, seed))
    around = sorted(finished.path.parent.iterdir())
    try:
        with answered(finished.path):
            as_markdown(read_results(finished))
    finally:
        path.write_bytes(before)
    assert sorted(finished.path.parent.iterdir()) == around


@many(6, 150)
def test_resumed_folders(stopped: RunFolder, tmp_path: Path, seed: int) -> None:
    """Whatever was changed, a run that goes on tells no smaller epsilon than was told before."""
    run = RunFolder(tmp_path / f"r{seed}" / stopped.path.name)
    shutil.copytree(stopped.path, run.path)
    stored_epsilon = run.metrics()[-1]["epsilon"]["client"]
    names = ["ledger.jsonl", "metrics.jsonl", "attempts.jsonl", "transcript/messages.bin"]
    path = run.path / random.Random(seed).choice(names)
    path.write_bytes(mutated(path.read_bytes(), seed))
    with answered(run.path):
        summary = runner.resume(run).summary
        assert summary is not None
        epsilon = summary.epsilon["client"].epsilon
        assert epsilon is not None
        assert epsilon >= stored_epsilon
        assert broken_link(run.transcript, summary.transcript_chain) is None
    shutil.rmtree(run.path.parent)


def test_a_refusal_is_an_answer(stopped: RunFolder) -> None:
    with pytest.raises(RunFolderError):
        last_checkpoint(stopped.checkpoints, "another config")
