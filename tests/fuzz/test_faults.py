"""Kills, a full disk and concurrent starts: nothing is lost that was told, and a line says why."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from pathlib import Path

import pytest
import yaml

from securefg.protocol.transcript import broken_link, read_transcript
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from tests.forks import command, ended, in_a_fork
from tests.fuzz.mutations import LONG
from tests.small import config, tree

WEIGHTS = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}"
NOISE = "mechanism: distributed_discrete, noise_multiplier: 3, secure_aggregation: {}"
ROUNDS = ("training.rounds=12", "output.checkpoint_every=3", WEIGHTS)


def sums(run: RunFolder) -> dict[tuple[int, str], bytes]:
    """What the server learnt in every round; a repeated one must say the same. At which step it
    comes depends on whether the clients had to agree on keys before."""
    sum_bodies: dict[tuple[int, str], bytes] = {}
    for record in read_transcript(run.transcript):
        if record.sender == "sum":
            body = bytes(record.body)
            assert sum_bodies.setdefault((record.round, record.kind), body) == body
    return sum_bodies


def start_or_resume(root: Path, overrides: tuple[str, ...]) -> None:
    folders = list(root.glob("run-*"))
    if folders:
        if not RunFolder.open(folders[0]).finished:
            runner.resume(RunFolder.open(folders[0]))
    else:
        runner.start(config(root, *overrides))


@pytest.mark.parametrize("rng", ["seeded", "system"])
def test_killed_runs_tell_no_less_than_unbroken_ones(rng: str, tmp_path: Path) -> None:
    overrides = (*ROUNDS, f"privacy={{{NOISE}, noise_rng: {rng}}}")
    began = time.monotonic()
    whole = runner.start(config(tmp_path / "whole", *overrides)).folder
    duration, draws, kills = time.monotonic() - began, random.Random(7), 0
    wanted = 25 if LONG else 3
    for attempt in range(1000):
        root = tmp_path / f"broken-{attempt}"
        while True:
            child = in_a_fork(lambda root=root: start_or_resume(root, overrides))
            if kills < wanted:
                time.sleep(draws.uniform(0, duration))
                os.kill(child, signal.SIGKILL)
            code = ended(child)
            kills += code == -signal.SIGKILL
            if code == 0:
                break
            assert code == -signal.SIGKILL, f"exit code {code}"
        (path,) = root.glob("run-*")
        assert list(root.glob(".run-*")) == []
        run = RunFolder.open(path)
        found, unbroken = run.summary(), whole.summary()
        assert broken_link(run.transcript, found.transcript_chain) is None
        mine, theirs = found.epsilon["client"].epsilon, unbroken.epsilon["client"].epsilon
        assert mine is not None
        assert theirs is not None
        assert mine >= theirs * (1 - 1e-12)
        lost = [line["round"] for line in run.metrics() if line["aborted"]]
        same = {at: body for at, body in sums(whole).items() if at[0] < min(lost, default=99)}
        if rng == "seeded":  # a session that a kill broke off is not held again: its round aborts
            assert same.items() <= sums(run).items()
        if rng == "seeded" and not lost:
            models = [folder.path / "model.safetensors" for folder in (run, whole)]
            assert models[0].read_bytes() == models[1].read_bytes()
        if kills >= wanted:
            break


def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    settings = tree(tmp_path / "runs")
    settings["training"]["rounds"] = 6
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.mark.parametrize("kib", [1, 4, 20, 60, 200] if LONG else [1, 20])
def test_a_full_disk_is_a_line_and_a_run_that_resumes(kib: int, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (kib * 1024, resource.RLIM_INFINITY))
        command(log, "run", str(small(tmp_path)), "--quiet")()

    code, printed_text = ended(in_a_fork(limited)), log.read_text()
    assert "Traceback" not in printed_text, printed_text
    assert code in (0, 1)
    if code:
        assert "File too large" in printed_text
        assert len(printed_text.strip().splitlines()) <= 2
    left = list((tmp_path / "runs").glob("*"))
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.name.endswith(".tmp")]
    words = ["run", "--resume", str(left[0])] if left else ["run", str(small(tmp_path))]
    if not left or not (left[0] / "summary.json").exists():
        assert ended(in_a_fork(command(log, *words, "--quiet"))) == 0, log.read_text()


@pytest.mark.parametrize("flags", [[], ["--fresh"]], ids=["run", "fresh"])
def test_of_concurrent_starts_one_runs_and_the_others_are_told(
    flags: list[str], tmp_path: Path
) -> None:
    path, logs = small(tmp_path), [tmp_path / f"log-{i}" for i in range(4)]
    words = ["run", str(path), "--quiet", *flags]
    codes = [ended(child) for child in [in_a_fork(command(log, *words)) for log in logs]]
    printed_texts = [log.read_text() for log in logs]
    assert not any("Traceback" in text for text in printed_texts), printed_texts
    assert set(codes) <= {0, 2}
    assert 0 in codes
    for code, text in zip(codes, printed_texts, strict=True):
        assert code == 0 or len(text.strip().splitlines()) <= 2
    (folder,) = (tmp_path / "runs").glob("[!.]*")
    assert list((tmp_path / "runs").glob(".small-*")) == []
    run = RunFolder.open(folder)
    assert [line["round"] for line in run.metrics()] == list(range(1, 7))
    assert broken_link(run.transcript, run.summary().transcript_chain) is None


def test_sigterm_ends_with_a_line_and_a_run_that_resumes(tmp_path: Path) -> None:
    log, path = tmp_path / "log", small(tmp_path)
    words = ["run", str(path), "--quiet", "--set", "training.rounds=3000"]
    child = in_a_fork(command(log, *words))
    while not list((tmp_path / "runs").glob("small-*/metrics.jsonl")):
        time.sleep(0.02)
    os.kill(child, signal.SIGTERM)
    assert ended(child) == 128 + signal.SIGTERM, log.read_text()
    assert "continue with: securefg run --resume" in log.read_text()
    (folder,) = (tmp_path / "runs").glob("small-*")
    assert list((folder / "checkpoints").glob("round-*"))
