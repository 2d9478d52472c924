"""Kills audits and curves with SIGKILL at random moments until they end, and compares.

    python tests/e2e/kill_audits.py FOLDER audit|curve NUM_KILLS SEED

Everything is under noise and masks. Exits 1 where an audit ends with other verdicts than an
undisturbed one, where one that was broken off passes for whole, where a run of the curve tells a
smaller epsilon than its undisturbed twin, has a transcript that is not whole, or opened other sums.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import yaml

from audits.curves.command import draw_curve
from audits.findings.file import is_whole
from audits.findings.record import Verdict
from audits.findings.stored import read_findings
from audits.plan import Plan
from audits.run import audit
from securefg.protocol.transcript import broken_link, read_transcript
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.sweep import pool
from tests.e2e.kill_and_sweep import gone
from tests.forks import fork_worker
from tests.small import config, tree

WEIGHTS = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}"
MASKED = "privacy={mechanism: distributed_discrete, noise_multiplier: 3, secure_aggregation: {}}"
PLAN = Plan(only=("promises", "membership_loss", "training_labels"), trials=1000)


def in_a_fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def kill_all(work: Callable[[], object], draws: random.Random, longest: float) -> int:
    """Begin, and kill: at times a worker alone, then all. Returns how many kills hit the living."""
    child, kills = in_a_fork(work), 0
    time.sleep(draws.uniform(0, longest))
    workers = _children(child)
    if workers and draws.random() < 0.5:
        os.kill(draws.choice(workers), signal.SIGKILL)
        kills += 1
        time.sleep(draws.uniform(0, longest / 2))
        workers = _children(child)
    os.kill(child, signal.SIGKILL)
    kills += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert gone(workers), "workers outlived their parent"
    return kills


def _children(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def finish(work: Callable[[], object]) -> None:
    assert os.waitpid(in_a_fork(work), 0)[1] == 0, "it does not end even undisturbed"


def verdicts(path: Path) -> dict[tuple[str, str, str], Verdict]:
    found = read_findings(path / "audit" / "findings.json")
    return {(f.attack, f.adversary, f.metric): f.verdict for f in found}


def audits(folder: Path, num_kills: int, draws: random.Random) -> int:
    """One run, audited again and again; what was broken off never passes for whole."""
    run = runner.start(config(folder, "training.rounds=6", WEIGHTS, MASKED)).folder
    began = time.monotonic()
    finish(lambda: audit(run.path, PLAN))
    longest, whole, kills, broken = time.monotonic() - began, verdicts(run.path), 0, 0
    path = run.path / "audit" / "findings.json"
    while kills < num_kills:
        path.unlink(missing_ok=True)
        kills += kill_all(lambda: audit(run.path, PLAN), draws, longest)
        if path.is_file() and verdicts(run.path).items() != whole.items():
            broken += 1
            assert not is_whole(path), "a part passes for the whole"
    finish(lambda: audit(run.path, PLAN))
    assert verdicts(run.path) == whole, (verdicts(run.path), whole)
    assert is_whole(path)
    assert broken_link(run.transcript, run.summary().transcript_chain) is None
    print(f"kills {kills}, of which {broken} left a part of an audit")
    return 0


def curve_file(folder: Path) -> Path:
    settings = tree(folder / "unused")
    settings["method"] = {"name": "fedgl", "pseudo_labels": False, "pseudo_graph": False}
    settings["method"]["weighting"] = "equal"
    settings["training"]["rounds"] = 8
    (folder / "small.yaml").write_text(yaml.safe_dump(settings))
    seeded = {"unit": "client", "noise_rng": "seeded"}
    masked = {**seeded, "secure_aggregation": {}}
    defences = [
        {"name": "local_gaussian", "epsilon": [10.0], "privacy": seeded},
        {"name": "distributed_discrete", "epsilon": [10.0, 50.0], "privacy": masked},
    ]
    sweep = {"config": "small.yaml", "label": "small", "defences": defences}
    sweep["attacks"] = ["membership_loss"]
    path = folder / "curve_small.yaml"
    path.write_text(yaml.safe_dump({"sweeps": [sweep], "seeds": 1, "trials": 1000}))
    return path


def curves(folder: Path, num_kills: int, draws: random.Random) -> int:
    """A curve that is killed and drawn again, beside one that nobody disturbed."""
    pool.launch = fork_worker  # type: ignore[assignment]
    path, kills, rounds_lost = curve_file(folder), 0, 0
    began = time.monotonic()
    finish(lambda: draw_curve(path, folder / "whole", 2))
    longest = time.monotonic() - began
    attempt = 0
    while kills < num_kills:
        attempt += 1
        root = folder / f"broken-{attempt}"
        for _ in range(min(4, num_kills - kills)):
            kills += kill_all(lambda root=root: draw_curve(path, root, 2), draws, longest / 2)
        finish(lambda root=root: draw_curve(path, root, 2))
        rounds_lost += sum(
            compared(RunFolder(whole), RunFolder(root / whole.relative_to(folder / "whole")))
            for whole in sorted((folder / "whole" / "curve_small" / "runs").glob("small-*"))
        )
        assert list((root / "curve_small" / "runs").glob(".small-*")) == [], "left behind"
    print(f"kills {kills}, {attempt} curves, rounds lost {rounds_lost}")
    return 0


def compared(whole: RunFolder, run: RunFolder) -> int:
    """Raise where a broken run tells less or other than its twin; how many rounds it lost."""
    theirs, mine = whole.summary(), run.summary()
    assert broken_link(run.transcript, mine.transcript_chain) is None, run.path
    for unit, claim in theirs.epsilon.items():
        found = mine.epsilon[unit].epsilon
        assert claim.epsilon is None or found is None or found >= claim.epsilon * (1 - 1e-9)
        assert claim.epsilon is not None or found is None
    lost = [line["round"] for line in run.metrics() if line["aborted"]]
    first = min(lost, default=99)
    wanted = {at: body for at, body in sums(whole).items() if at[0] < first}
    assert wanted.items() <= sums(run).items(), f"{run.path}: other sums"
    if not lost:
        assert sums(whole) == sums(run)
    assert is_whole(run.path / "audit" / "findings.json")
    assert verdicts(run.path).keys() == verdicts(whole.path).keys(), run.path
    return len(lost)


def sums(run: RunFolder) -> dict[tuple[int, str], bytes]:
    records = [record for record in read_transcript(run.transcript) if record.sender == "sum"]
    return {(record.round, record.kind): bytes(record.body) for record in records}


if __name__ == "__main__":
    where, what, kill_count, chosen = sys.argv[1:]
    main = {"audit": audits, "curve": curves}[what]
    Path(where).mkdir(parents=True, exist_ok=True)
    sys.exit(main(Path(where), int(kill_count), random.Random(int(chosen))))
