"""A deployed run tells how far it is; a site that goes lowers no threshold."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from securefg.flare.results import publish_run
from securefg.flare.server_run import STOP
from securefg.foundation.errors import RunFailed, RunFolderError
from securefg.runs.folder import PARTIAL, RunFolder
from securefg.site.packets import Packet
from tests.small import config
from tests.unit.flare.federation_world import Deliver, World

FOUR = "partition.shares=[0.5, 0.6, 0.7, 0.8]"
MASKED = "privacy.secure_aggregation={min_holders: 1}"
QUICK = ("engine.patience=1", "engine.timeout=20", "engine.start_within=60")


def status_of(world: World) -> dict[str, Any]:
    (path,) = world.kits.server.glob("securefg_runs/*/private/status.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def lose(world: World, sites: set[str], after: int) -> None:
    """These sites are gone after so many packets."""
    sent = 0

    def between(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        nonlocal sent
        sent += 1
        return None if site in sites and sent > after else deliver(site, packet)

    world.between, world.alive = between, lambda site: site not in sites or sent <= after


def test_status_of_whole_run_has_last_round_and_epsilon(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, FOUR))
    folder = world.run(world.job(has_truth=False))
    run_status, last = status_of(world), folder.metrics()[-1]
    assert (run_status["state"], run_status["round"], run_status["rounds"]) == ("finished", 4, 4)
    assert run_status["epsilon"] == last["epsilon"]
    assert run_status["away"] == {}
    scores = {"train_loss", "val_accuracy", "test_accuracy", "val_loss", "quality"}
    assert not scores & set(run_status)


def test_status_names_site_that_left_the_run(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, FOUR, *QUICK))
    lose(world, {"site-2"}, after=12)
    world.run(world.job(has_truth=False))
    found = status_of(world)
    assert found["state"] == "finished"
    assert list(found["away"]) == ["site-2"]


def test_status_of_run_without_sites_is_failed(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, FOUR, *QUICK))
    lose(world, {"site-1", "site-2", "site-3", "site-4"}, after=12)
    with pytest.raises(RunFailed):
        world.run(world.job(has_truth=False))
    found = status_of(world)
    assert found["state"] == "failed"
    assert found["reason"]


def test_masked_run_dead_sites_lower_no_threshold(tmp_path: Path) -> None:
    """Below the planned cohort rounds are aborted: no sum of fewer clients is opened."""
    five = "partition.shares=[0.5, 0.6, 0.7, 0.8, 0.9]"
    more = (five, MASKED, *QUICK, "training.rounds=3")
    world = World(tmp_path / "a", config(tmp_path, *more))
    lose(world, {"site-1", "site-2", "site-3"}, after=16)
    folder = world.run(world.job(has_truth=False))
    summary, lines = folder.summary(), folder.metrics()
    assert lines[-1]["aborted"]
    assert summary.aborted_rounds >= 1
    assert summary.recovered_by_algebra is not None
    assert summary.recovered_by_algebra.smallest_cohort in (0, 5)
    assert summary.recovered_by_algebra.contributions_recoverable == 0
    assert set(status_of(world)["away"]) == {"site-1", "site-2", "site-3"}


def test_stop_file_of_earlier_job_is_forgotten(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, FOUR))
    job = world.job(has_truth=False)
    private = world.kits.server / "securefg_runs" / job.run / "private"

    def stop(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        if private.is_dir():
            (private / STOP).write_text("first")
        return deliver(site, packet)

    server = world.start(job, "first")
    world.between = stop
    path, error = server.execute()
    assert error is None
    assert status_of(world)["state"] == "interrupted"
    assert status_of(world)["round"] == 1
    assert not RunFolder(path).finished
    world.between = lambda site, packet, deliver: deliver(site, packet)
    world.run(world.job(has_truth=False), "second")
    assert status_of(world)["state"] == "finished"
    assert status_of(world)["submission"] == 2


def test_published_run_is_a_copy_without_private_files(tmp_path: Path) -> None:
    world = World(tmp_path / "world", config(tmp_path, FOUR))
    path, target = world.run(world.job(has_truth=False)).path, tmp_path / "result"
    publish_run(world.kits.server, target)
    here = {x.relative_to(path) for x in path.rglob("*") if x.is_file()}
    there = {x.relative_to(target) for x in target.rglob("*") if x.is_file()}
    left = {str(name).split("/")[0] for name in here - there}
    assert {"private", "checkpoints"} <= left <= {"private", "checkpoints", ".lock"}
    assert (target / "summary.json").read_bytes() == (path / "summary.json").read_bytes()
    # A second name of a file would keep a run from being resumed after a crash.
    assert all((path / name).stat().st_nlink == 1 for name in there)


def test_published_run_without_run_is_nothing(tmp_path: Path) -> None:
    world = World(tmp_path / "world", config(tmp_path, FOUR))
    world.job(has_truth=False)
    publish_run(world.kits.server, tmp_path / "result")
    assert not (tmp_path / "result").exists()


def test_partial_folder_is_refused_by_audits_with_advice(tmp_path: Path) -> None:
    (tmp_path / PARTIAL).write_text("{}")
    with pytest.raises(RunFolderError, match=r"a part of a deployed run.*deploy audit KIT"):
        RunFolder(tmp_path).summary()
