"""A run goes on only from records that fit together, and never with a smaller epsilon."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from securefg.foundation.errors import RunFolderError, SecurefgError
from securefg.foundation.log import read_log
from securefg.privacy.ledger import LOG, Ledger, ledger_file, read_ledger
from securefg.protocol.transcript import TranscriptWriter, broken_link
from securefg.runs import runner
from securefg.runs.checkpoint import STATE, _seal_state, read_progress
from securefg.runs.execution import Run
from securefg.runs.folder import RunFolder
from tests.forged_log import forge_log
from tests.forks import ended, in_a_fork
from tests.unit.runs.interrupted import NOISE, SEEDED, interrupted


@pytest.fixture(scope="module", params=[NOISE, SEEDED], ids=["fresh noise", "seeded noise"])
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return interrupted(tmp_path_factory.mktemp("stopped"), request.param)


@pytest.fixture
def run(stopped: RunFolder, tmp_path: Path) -> RunFolder:
    """A copy to be spoilt."""
    path = tmp_path / stopped.path.name
    shutil.copytree(stopped.path, path)
    return RunFolder(path)


def lines_of(path: Path, keep: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(keep(path.read_bytes().splitlines(keepends=True))))


def flip(path: Path, place: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 4
    path.write_bytes(bytes(data))


def reseal(checkpoint: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a checkpoint's state as one would who makes the digest anew."""
    state = json.loads((checkpoint / STATE).read_text())
    del state["digest"]
    change(state)
    (checkpoint / STATE).write_text(json.dumps(_seal_state(state)))


def epsilon(folder: RunFolder) -> float:
    found = folder.summary().epsilon["client"].epsilon
    assert found is not None
    return found


def test_what_is_whole_goes_on_and_counts_what_was_lost(run: RunFolder, stopped: RunFolder) -> None:
    booked_epsilons = [line["epsilon"]["client"] for line in run.metrics()]
    summary = runner.resume(run).summary
    assert summary is not None
    assert broken_link(run.transcript, summary.transcript_chain) is None
    assert epsilon(run) > max(booked_epsilons)
    fresh = run.config().privacy.noise_rng == "system"
    lines = len(run.ledger_path.read_text().splitlines())
    assert lines == 3 * (9 if fresh else 8)  # round 5 was sent twice where its noise was fresh


@pytest.mark.parametrize(
    ("owner", "step"),
    [(Run, "_trim_metrics"), (TranscriptWriter, "__init__"), (Ledger, "resume")],
    ids=["metrics", "transcript", "ledger"],
)
def test_a_kill_while_a_run_is_taken_up_leaves_what_can_be_taken_up(
    owner: type, step: str, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = getattr(owner, step)

    def cut_and_die(*arguments: Any, **named: Any) -> None:
        cut(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, cut_and_die)
        assert ended(in_a_fork(lambda: runner.resume(run))) == -signal.SIGKILL
    assert runner.resume(run).summary is not None


@pytest.mark.parametrize("lines", [0, 1, 11, 13])
def test_a_ledger_that_was_cut_is_refused(run: RunFolder, lines: int) -> None:
    """The checkpoint has 12 lines; the transcript and the metrics tell of all 15."""
    lines_of(run.ledger_path, lambda every: every[:lines])
    before = run.ledger_path.read_bytes()
    with pytest.raises(RunFolderError, match=r"ledger\.jsonl: .*missing"):
        runner.resume(run)
    assert run.ledger_path.read_bytes() == before
    assert len((run.path / "attempts.jsonl").read_text().splitlines()) == 1


def test_a_ledger_that_was_taken_away_is_refused(run: RunFolder) -> None:
    run.ledger_path.unlink()
    with pytest.raises(RunFolderError, match=r"ledger\.jsonl: 12 of 12 releases are missing"):
        runner.resume(run)


def test_a_ledger_forged_with_its_chain_is_refused(run: RunFolder) -> None:
    """Whoever writes the chain anew still contradicts the checkpoints."""
    entries = [entry for entry, _ in read_log(run.ledger_path, LOG)]
    for entry in entries:
        entry["mechanism"]["noise_multiplier"] = 100.0
    ledger_file(run.ledger_path).replace(entries)
    with pytest.raises(RunFolderError, match="not the ledger that the checkpoint of round"):
        runner.resume(run)


def test_with_nothing_but_metrics_left_a_smaller_epsilon_is_refused(run: RunFolder) -> None:
    run.ledger_path.write_text("")
    shutil.rmtree(run.transcript)
    shutil.rmtree(run.checkpoints)
    with pytest.raises(RunFolderError, match=r"(add up to an epsilon|messages of round 5)"):
        runner.resume(run)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_a_transcript_cut_below_the_checkpoint_is_refused(run: RunFolder, share: float) -> None:
    path = run.transcript / "messages.bin"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(RunFolderError, match="transcript: messages are missing"):
        runner.resume(run)


def test_a_changed_message_is_refused(run: RunFolder) -> None:
    flip(run.transcript / "messages.bin", 0.2)
    with pytest.raises(RunFolderError, match="transcript"):
        runner.resume(run)


def test_metrics_that_were_taken_away_are_refused(run: RunFolder) -> None:
    lines_of(run.metrics_path, lambda every: every[:2] + every[3:])
    with pytest.raises(RunFolderError, match=r"metrics\.jsonl: round 3 is missing"):
        runner.resume(run)


def test_an_emptied_list_of_attempts_makes_no_attempt_twice(run: RunFolder) -> None:
    (run.path / "attempts.jsonl").write_text("")
    runner.resume(run)
    assert json.loads((run.path / "attempts.jsonl").read_text())["attempt"] == 2


FILES = ["server.safetensors", "best.bin", "state.json", "hosts/client-1.safetensors"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0.02, 0.5, 0.98])
def test_one_flipped_bit_falls_back_to_the_checkpoint_before(
    run: RunFolder, name: str, place: float
) -> None:
    flip(run.checkpoints / "round-000004" / name, place)
    with pytest.warns(UserWarning, match="round-000004 is damaged: .*goes on from round-000002"):
        summary = runner.resume(run).summary
    assert summary is not None
    assert summary.rounds == 8
    assert [line["round"] for line in run.metrics()] == list(range(1, 9))
    assert broken_link(run.transcript, summary.transcript_chain) is None


def test_the_fallback_ends_in_the_model_of_an_unbroken_run(run: RunFolder, tmp_path: Path) -> None:
    if run.config().privacy.noise_rng == "system":
        pytest.skip("fresh noise gives another model every time")
    whole = interrupted(tmp_path / "whole", SEEDED, after=99)
    flip(run.checkpoints / "round-000004" / "best.bin")
    with pytest.warns(UserWarning, match="damaged"):
        runner.resume(run)
    models = [folder.path / "model.safetensors" for folder in (whole, run)]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert epsilon(run) == epsilon(whole)


@pytest.mark.parametrize("name", ["best.bin", "hosts/client-0.safetensors", "state.json"])
def test_a_file_that_is_missing_is_damage_too(run: RunFolder, name: str) -> None:
    (run.checkpoints / "round-000004" / name).unlink()
    with pytest.warns(UserWarning, match="round-000004 is damaged"):
        runner.resume(run)


def test_where_no_checkpoint_is_whole_the_run_is_refused(run: RunFolder) -> None:
    for path in run.checkpoints.glob("round-*/best.bin"):
        flip(path)
    with pytest.raises(RunFolderError, match=r"no checkpoint is whole \(round-000004: best\.bin"):
        runner.resume(run)


def test_a_damaged_checkpoint_still_tells_how_far_the_ledger_went(run: RunFolder) -> None:
    """A ledger cut to the older checkpoint is not believed because the newer one is damaged."""
    flip(run.checkpoints / "round-000004" / "best.bin")
    lines_of(run.ledger_path, lambda every: every[:6])
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(RunFolderError, match="6 of 12 releases"),
    ):
        runner.resume(run)


@pytest.mark.parametrize(
    "changes",
    [
        *({key: "x"} for key in ("round", "seq", "up", "ledger_lines", "transcript_position")),
        *({key: "x"} for key in ("best_score", "best_loss", "seconds")),
        *({"round": value} for value in (-3, 3, 4.0, 10**9)),
        {"more": 1},
    ],
    ids=str,
)
def test_a_state_that_no_run_writes_is_none_though_its_digest_fits(
    changes: dict[str, object], run: RunFolder
) -> None:
    path = run.checkpoints / "round-000004"
    assert read_progress(path) is not None
    reseal(path, lambda state: state["progress"].update(changes))
    assert read_progress(path) is None


def test_so_is_one_without_a_list_of_files(run: RunFolder) -> None:
    path = run.checkpoints / "round-000004"
    reseal(path, lambda state: state.update(files=None))
    assert read_progress(path) is None


@pytest.mark.parametrize("name", ["server.safetensors", "hosts/client-0.safetensors"])
@pytest.mark.parametrize("content", [b"no state", safetensors.torch.save({"x": torch.zeros(2)})])
def test_parties_states_of_another_shape_are_a_line(
    name: str, content: bytes, run: RunFolder
) -> None:
    path = run.checkpoints / "round-000004"
    (path / name).write_bytes(content)
    reseal(path, lambda state: state["files"].update({name: hashlib.sha256(content).hexdigest()}))
    with pytest.raises(SecurefgError, match=r"not th|keeps no state"):
        runner.resume(run)


@pytest.mark.parametrize("key", ["round", "step", "attempt"])
@pytest.mark.parametrize("value", ["1", None, 1.5, [], float("nan")], ids=str)
def test_a_release_of_no_round_is_refused(key: str, value: object, run: RunFolder) -> None:
    *before, last = (entry for entry, _ in read_log(run.ledger_path, LOG))
    forge_log(run.ledger_path, LOG, [*before, {**last, key: value}])
    with pytest.raises(RunFolderError, match=r"ledger\.jsonl:15: not a release"):
        list(read_ledger(run.ledger_path))


@pytest.mark.parametrize(
    "change",
    [
        *({"noise_multiplier": value} for value in ("x", float("nan"), float("inf"), [])),
        *({"steps": value} for value in ("x", None, -1, 1.5)),
        *({"sampling": value} for value in (None, -0.1, 1.1, float("nan"))),
        *({"num_rows": "1"}, {"field": None}, {"rule": 1}, {"per": "moon"}, {"protects": "x"}),
        *({"node": None}, {"edge": {"noise_multiplier": float("inf")}}, {"more": 1}),
    ],
    ids=str,
)
def test_a_release_with_noise_that_no_rule_adds_is_refused(
    change: dict[str, object], run: RunFolder
) -> None:
    """An infinite noise would make the epsilon of the whole ledger zero."""
    *before, last = (entry for entry, _ in read_log(run.ledger_path, LOG))
    forged = {**last, "mechanism": {**last["mechanism"], **change}}
    forge_log(run.ledger_path, LOG, [*before, forged])
    with pytest.raises(RunFolderError, match=r"ledger\.jsonl:15: not a release: mechanism"):
        list(read_ledger(run.ledger_path))


def test_a_run_is_broken_and_resumed_again_and_again(tmp_path: Path) -> None:
    from tests.unit.runs.interrupted import CrashAfter

    run = interrupted(tmp_path, NOISE)
    booked_epsilon = run.metrics()[-1]["epsilon"]["client"]
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            runner.resume(run, CrashAfter(5))
        again = run.metrics()[-1]["epsilon"]["client"]
        assert again > booked_epsilon
        booked_epsilon = again
    runner.resume(run)
    assert epsilon(run) > booked_epsilon
