"""A local federation is not waited for when nothing can come any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.flare import local
from securefg.flare.kits import Kits
from securefg.flare.local import LocalProcesses

pytest.importorskip("nvflare")


def test_a_job_that_does_not_begin_is_given_up(tmp_path: Path) -> None:
    nobody = LocalProcesses(Kits(tmp_path / "kits"), tmp_path / "logs")
    assert local.Watch(nobody, 60).look(started=False) is None
    lost = local.Watch(nobody, 0).look(started=False)
    assert lost == "the job did not begin within 0 s of its submission"


def test_a_begun_job_whose_process_stays_away_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "LOOK_SECONDS", -1.0)
    watch = local.Watch(LocalProcesses(Kits(tmp_path / "kits"), tmp_path / "logs"), 60)
    assert [watch.look(started=True) for _ in range(3)] == [
        None,
        None,
        "the job's process at the server ended without a word",
    ]
