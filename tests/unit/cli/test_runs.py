"""Small comforts: what to do with a run that is there, and clearing up."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from small import config
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.foundation.errors import ConfigError, InputError, RunFolderError
from securefg.runs.observing import RoundReport, Silent
from securefg.runs.runner import resume, start


class Stop(Silent):
    def round_done(self, report: RoundReport) -> None: ...

    def stop_requested(self) -> bool:
        return True


def old(folder: Path) -> None:
    hour_ago = time.time() - 3600
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (hour_ago, hour_ago))


def test_a_finished_run_says_what_to_do_and_an_unfinished_one_how_to_go_on(tmp_path: Path) -> None:
    settings = config(tmp_path)
    start(settings, Stop())
    with pytest.raises(RunFolderError, match=r"--resume .* goes on with it"):
        start(settings)
    (path,) = tmp_path.iterdir()
    from securefg.runs.folder import RunFolder

    resume(RunFolder.open(path))
    with pytest.raises(RunFolderError, match="securefg audit") as told:
        start(settings)
    assert "--resume" not in str(told.value)
    with pytest.raises(RunFolderError, match=r"nothing is left to resume.*securefg audit"):
        resume(RunFolder.open(path))


def test_settings_of_a_resumed_run_cannot_be_changed(tmp_path: Path) -> None:
    start(config(tmp_path), Stop())
    (path,) = tmp_path.iterdir()
    done = CliRunner().invoke(app, ["run", "--resume", str(path), "--set", "training.rounds=9"])
    assert isinstance(done.exception, InputError)
    assert "goes on as it was begun" in str(done.exception)


def test_runs_are_listed_and_cleared_up_only_when_told(tmp_path: Path) -> None:
    start(config(tmp_path, "name=done"))
    start(config(tmp_path, "name=half"), Stop())
    start(config(tmp_path, "name=busy"), Stop())
    half = next(tmp_path.glob("half-*"))
    old(half)

    def list_runs(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["runs", str(tmp_path), *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert "3 runs" in list_runs()
    assert "would remove" in list_runs("--clean", "unfinished")
    assert half.is_dir()
    list_runs("--clean", "unfinished", "--yes")
    assert not half.exists()
    assert next(tmp_path.glob("busy-*")).is_dir()  # written to a moment ago: it may be running
    done = next(tmp_path.glob("done-*"))
    assert (done / "checkpoints").is_dir()
    list_runs("--clean", "checkpoints", "--yes")
    assert not (done / "checkpoints").exists()
    assert (next(tmp_path.glob("busy-*")) / "checkpoints").is_dir()
    assert isinstance(CliRunner().invoke(app, ["runs", "nowhere"]).exception, InputError)


def test_what_no_run_of_a_curve_could_do_is_refused_before_the_first(tmp_path: Path) -> None:
    import yaml
    from small import tree

    from audits.curves.command import draw_curve

    (tmp_path / "base.yaml").write_text(yaml.safe_dump(tree(tmp_path / "x")))
    masked = {
        "name": "secagg",
        "privacy": {"secure_aggregation": {"masked_fields": ["Nothing.here"]}},
    }
    sweep = {"config": "base.yaml", "defences": [{"name": "none"}, masked]}
    (tmp_path / "curve.yaml").write_text(yaml.safe_dump({"sweeps": [sweep], "seeds": 1}))
    with pytest.raises(ConfigError, match="secagg"):
        draw_curve(tmp_path / "curve.yaml", tmp_path / "curves", 1)
    assert not list(tmp_path.glob("curves/**/config.yaml"))


def test_interrupted_release_with_books_is_not_cleared_up(tmp_path: Path) -> None:
    """It may have been sent, and a later erasure would not count it."""
    start(config(tmp_path), Stop())
    (path,) = tmp_path.iterdir()
    (path / "erasure.json").write_text("{}")
    old(path)
    cleared = CliRunner().invoke(app, ["runs", str(tmp_path), "--clean", "unfinished", "--yes"])
    assert cleared.exit_code == 0, cleared.output
    assert path.is_dir()
