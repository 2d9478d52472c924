"""Finished runs, each made once for all tests, and a copy of one to spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from securefg.runs.folder import RunFolder
from tests.unit.reports.runs import MakeRun, run


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    root, made = tmp_path_factory.mktemp("reports"), dict[tuple[str, ...], RunFolder]()

    def make(*overrides: str) -> RunFolder:
        if overrides not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SECUREFG_CACHE", str(root / "cache"))
                made[overrides] = run(root / str(len(made)), *overrides)
        return made[overrides]

    return make


@pytest.fixture
def spoilt(make_run: MakeRun, tmp_path: Path) -> RunFolder:
    """A copy of the plain run, to be changed by the test."""
    without_page = shutil.ignore_patterns("report.html")
    return RunFolder.open(
        Path(shutil.copytree(make_run().path, tmp_path / "copy", ignore=without_page))
    )
