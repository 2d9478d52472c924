"""The pool books every end of a point: done, cached, failed, and processes that died."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from securefg.foundation.errors import RunFolderError
from securefg.runs import runner
from securefg.runs.observing import Observer
from securefg.settings.config import RunConfig
from securefg.sweep import Point, pool, read_failures, sweep_points
from securefg.sweep.cache import find_run, lock_point
from securefg.sweep.display import Finished, PlainLines, Running, Silence, Status
from tests.forks import fork_worker
from tests.small import config


@dataclass(frozen=True)
class Marks:
    """Leaves a line per execution; odd seeds die, seed 4 breaks."""

    folder: Path

    def finished(self, config: RunConfig) -> bool:
        return (self.folder / f"{config.seed}.done").exists()

    def execute(self, config: RunConfig, observer: Observer) -> bool:
        with (self.folder / f"{config.seed}.tries").open("a") as file:
            file.write("x")
        if config.seed % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if config.seed == 4:
            raise ZeroDivisionError("no\nreason")
        (self.folder / f"{config.seed}.done").touch()
        return True


@dataclass
class Kept(Silence):
    last: Status | None = None

    def show(self, status: Status) -> None:
        self.last = status


@pytest.fixture(autouse=True)
def _quick_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "launch", fork_worker)


def points(root: Path, *seeds: int) -> list[Point]:
    return [Point(f"s{seed}", config(root, f"seed={seed}")) for seed in seeds]


def test_every_point_ends_in_one_of_the_books(tmp_path: Path) -> None:
    shown = Kept()
    outcome = sweep_points(points(tmp_path, 0, 1, 2, 4), tmp_path, 2, Marks(tmp_path), shown)
    assert sorted(outcome.done) == ["s0", "s2"]
    reasons = {failure.key: failure.reason for failure in outcome.failed}
    assert reasons == {
        "s1": "its process died 3 times, the last time by signal SIGKILL",
        "s4": "ZeroDivisionError: no reason",
    }
    assert {f.key for f in read_failures(tmp_path)} == {"s1", "s4"}
    assert "Traceback" in next(f.details for f in outcome.failed if f.key == "s4")
    assert (tmp_path / "1.tries").read_text() == "xxx"
    assert shown.last is not None
    assert shown.last.ended == shown.last.total == 4


def test_a_point_that_was_mended_is_no_longer_kept_as_failed(tmp_path: Path) -> None:
    sweep_points(points(tmp_path, 4), tmp_path, 1, Marks(tmp_path))
    (tmp_path / "4.done").touch()
    outcome = sweep_points(points(tmp_path, 4, 6), tmp_path, 1, Marks(tmp_path))
    assert outcome.cached == ("s4",)
    assert outcome.done == ("s6",)
    assert not read_failures(tmp_path)


def test_equal_configs_are_one_point(tmp_path: Path) -> None:
    twice = [*points(tmp_path, 0), Point("again", config(tmp_path, "name=other"))]
    assert sweep_points(twice, tmp_path, 2, Marks(tmp_path)).done == ("s0",)
    assert (tmp_path / "0.tries").read_text() == "x"


def test_a_lock_is_held_by_one_alone(tmp_path: Path) -> None:
    with lock_point(tmp_path, "abc", lambda: True) as held:
        assert held
        with lock_point(tmp_path, "abc", lambda: True) as second:
            assert not second
    with lock_point(tmp_path, "abc", lambda: True) as held:
        assert held


def test_the_words_of_a_status() -> None:
    status = Status(10, 3, 1, 1, (Running("a", 3, 9, 1.0),), 75.0)
    assert status.words() == "4 of 10 done (1 cached), 1 running, 1 failed, about 1 min 15 s left"
    assert Status(1, 1, 0, 0, (), 0.0).words() == "1 of 1 done, 0 running, 0 failed"


def test_finished_lines_are_short_and_have_the_time_left() -> None:
    ended = (Finished("curve · none seed 0", 42.0), Finished("x" * 200, 100.0))
    status = Status(10, 2, 1, 0, (), 320.0, ended)
    first, second = status.finished_lines(0, 80)
    assert first == "2 of 10  in 42 s, about 5 min left  curve · none seed 0"
    assert second.startswith("3 of 10  in 2 min, about 5 min left  xxx")
    assert len(second) == 80
    assert status.finished_lines(1, 80) == [second]
    assert "all done" in Status(3, 2, 1, 0, (), 0.0, ended).finished_lines(1, 80)[0]


def test_plain_lines_tell_each_finished_point_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines(Console(width=80))
    done = (Finished("a", 1.0), Finished("b", 1.0))
    for status in (Status(2, 0, 0, 0, (), None), *[Status(2, 2, 0, 0, (), 0.0, done)] * 3):
        lines.show(status)
    assert [line[-1] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]


def test_a_run_made_under_another_default_is_not_taken_for_todays(tmp_path: Path) -> None:
    chosen = config(tmp_path, "training.rounds=1")
    folder = runner.start(chosen).folder
    assert find_run(tmp_path, chosen.hash) is not None
    path = folder.path / "config.yaml"
    path.write_text(path.read_text().replace("hidden: 16", "hidden: 17"))
    with pytest.raises(RunFolderError, match="or a default since then"):
        find_run(tmp_path, chosen.hash)
