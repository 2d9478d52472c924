"""Commands that meet one another, or a machine that gives too little: a line, and nothing lost."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from audits.findings.file import is_whole
from securefg.protocol.transcript import broken_link
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.settings.config import load_config
from tests.forks import command, ended, in_a_fork
from tests.small import config, tree
from tests.unit.runs.interrupted import NOISE, interrupted


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return interrupted(tmp_path_factory.mktemp("stopped"), NOISE)


@pytest.fixture
def run(stopped: RunFolder, tmp_path: Path) -> RunFolder:
    """Interrupted after five of eight rounds."""
    path = tmp_path / "runs" / stopped.path.name
    shutil.copytree(stopped.path, path)
    settings = yaml.safe_load((path / "config.yaml").read_text())
    settings["output"]["root"] = str(tmp_path / "runs")
    (path / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    return RunFolder(path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return runner.start(config(tmp_path_factory.mktemp("runs"), "training.rounds=2")).folder


def told(log: Path) -> str:
    """What a command said: one line or two, and no traceback."""
    text = log.read_text()
    assert "Traceback" not in text, text
    assert len(text.strip().splitlines()) <= 2, text
    return text


def together(tmp_path: Path, *commands: list[str]) -> list[tuple[int, str]]:
    logs = [tmp_path / f"log-{number}" for number in range(len(commands))]
    pairs = zip(logs, commands, strict=True)
    children = [in_a_fork(command(log, *words, "--quiet")) for log, words in pairs]
    return [(ended(child), told(log)) for child, log in zip(children, logs, strict=True)]


def whole(path: Path) -> None:
    """A finished run of eight rounds, each told once, and nothing beside it."""
    run = RunFolder.open(path)
    assert [line["round"] for line in run.metrics()] == list(range(1, 9))
    assert broken_link(run.transcript, run.summary().transcript_chain) is None
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_of_three_that_resume_one_does(run: RunFolder, tmp_path: Path) -> None:
    before = run.metrics()[-1]["epsilon"]["client"]
    ends = together(tmp_path, *[["run", "--resume", str(run.path)]] * 3)
    assert sorted(code for code, _ in ends) == [0, 2, 2], ends
    for code, text in ends:
        assert code == 0 or "in use by process" in text or "has finished" in text
    whole(run.path)
    epsilon = run.summary().epsilon["client"].epsilon
    assert epsilon is not None
    assert epsilon > before


def test_one_that_resumes_and_one_that_starts_afresh_do_not_meet(
    run: RunFolder, tmp_path: Path
) -> None:
    settings = tmp_path / "same.yaml"
    shutil.copy(run.path / "config.yaml", settings)
    resume, fresh = ["run", "--resume", str(run.path)], ["run", str(settings), "--fresh"]
    ends = together(tmp_path, resume, fresh, resume, fresh)
    codes = [code for code, _ in ends]
    assert set(codes) <= {0, 2}, ends
    assert 0 in codes
    whole(run.path)


def test_a_run_at_work_is_not_audited(tmp_path: Path) -> None:
    settings, log = tmp_path / "long.yaml", tmp_path / "log"
    content = tree(tmp_path / "runs")
    content["training"]["rounds"] = 3000
    settings.write_text(yaml.safe_dump(content))
    child = in_a_fork(command(tmp_path / "run-log", "run", str(settings), "--quiet"))
    while not (found := list((tmp_path / "runs").glob("long-*/metrics.jsonl"))):
        time.sleep(0.02)
    folder = found[0].parent
    for verb in ("audit", "report"):
        log = tmp_path / verb
        code = ended(in_a_fork(command(log, verb, str(folder), "--quiet")))
        assert (code, "Traceback" in log.read_text()) == (2, False), log.read_text()
        assert "in use by process" in told(log) or "has not finished" in told(log)
    os.kill(child, signal.SIGTERM)
    assert ended(child) == 128 + signal.SIGTERM
    assert not (folder / "audit").exists()


def limited(limit: Callable[[], None], log: Path, *words: str) -> tuple[int, str]:
    def work() -> None:
        run = command(log, *words)
        limit()
        run()

    return ended(in_a_fork(work)), told(log)


def few_descriptors() -> None:
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 3, hard))
    filled: list[int] = []
    with suppress(OSError):
        while True:  # gaps below the highest are filled, too
            filled.append(os.open(os.devnull, os.O_RDONLY))
    for left in filled[-2:]:  # enough to read a config
        os.close(left)


def little_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20, resource.RLIM_INFINITY))


def small_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (900, resource.RLIM_INFINITY))


def no_privileges() -> None:
    """Even the superuser keeps to a folder's permissions without its capabilities."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    assert ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()) == 0


def settings_in(tmp_path: Path, num_nodes: int = 120, num_features: int = 30) -> Path:
    content = tree(tmp_path / "runs")
    content["data"]["csbm"] |= {"num_nodes": num_nodes, "num_features": num_features}
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_too_few_descriptors_are_named(tmp_path: Path) -> None:
    words = ["run", str(settings_in(tmp_path)), "--quiet"]
    load_config(Path(words[1]), [])  # what a config imports takes descriptors of its own
    code, said = limited(few_descriptors, tmp_path / "log", *words)
    assert (code, "Too many open files" in said) == (1, True), said
    left = list((tmp_path / "runs").glob("[!.]*"))
    again = ["run", "--resume", str(left[0]), "--quiet"] if left else words
    assert ended(in_a_fork(command(tmp_path / "again", *again))) == 0


def test_too_little_memory_is_named(tmp_path: Path) -> None:
    words = ["run", str(settings_in(tmp_path, 20_000, 2_000)), "--quiet"]
    code, said = limited(little_memory, tmp_path / "log", *words)
    assert (code, "memory" in said) == (1, True), said
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("verb", ["run", "resume", "audit"])
def test_a_place_that_cannot_be_written_to_is_named(
    verb: str, run: RunFolder, finished: RunFolder, tmp_path: Path
) -> None:
    audited = tmp_path / "finished"
    shutil.copytree(finished.path, audited)
    places = {"run": tmp_path / "runs", "resume": run.path, "audit": audited}
    words = {
        "run": ["run", str(settings_in(tmp_path))],
        "resume": ["run", "--resume", str(run.path)],
        "audit": ["audit", str(audited)],
    }[verb]
    (places[verb] / ".lock").unlink(missing_ok=True)
    before = sorted(places[verb].iterdir())
    places[verb].chmod(0o555)
    try:
        code, said = limited(no_privileges, tmp_path / "log", *words, "--quiet")
    finally:
        places[verb].chmod(0o755)
    assert (code, "Permission denied" in said) == (1, True), said
    assert sorted(places[verb].iterdir()) == before
    assert ended(in_a_fork(command(tmp_path / "again", *words, "--quiet"))) in (0, 3)


def test_an_audit_on_a_full_disk_is_a_line_and_no_cleaner(
    finished: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "finished"
    shutil.copytree(finished.path, path)
    words = ["audit", str(path), "--only", "promises", "--quiet", "--trials", "1000"]
    code, said = limited(small_files, tmp_path / "log", *words)
    assert (code, "File too large" in said) == (1, True), said
    assert not is_whole(path / "audit" / "findings.json")
    assert [entry for entry in path.rglob(".*") if entry.name != ".lock"] == []
    assert ended(in_a_fork(command(tmp_path / "again", *words))) in (0, 3)
    assert is_whole(path / "audit" / "findings.json")
