"""A site's home that was cloned is named by the server as soon as both of its copies answered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from securefg.flare.server_run import STOP
from securefg.flare.standings import FILE, Standings
from securefg.foundation.errors import ProtocolError, RunFailed, RunFolderError
from securefg.site.packets import Packet
from tests.small import config
from tests.unit.flare.federation_world import Deliver, World

PLAIN = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}"
MASKED = "privacy.secure_aggregation={}"


def stop_after(world: World, packets: int) -> None:
    """Ask the server to stop once so many packets went out."""
    stop = world.kits.server / "securefg_runs"
    sent = 0

    def between(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        nonlocal sent
        sent += 1
        if sent == packets:
            (run,) = (path for path in stop.iterdir() if not path.name.startswith("."))
            (run / "private" / STOP).touch()
        return deliver(site, packet)

    world.between = between


def test_home_cloned_before_a_submission_is_named_at_the_next(tmp_path: Path) -> None:
    """Site 2 answers the first submission, and a copy of it from before answers the second."""
    world = World(tmp_path, config(tmp_path, PLAIN, "training.rounds=4"))
    job = world.job()
    home, clone = world.kits.home("site-2"), tmp_path / "clone"
    shutil.copytree(home, clone)
    stop_after(world, 8)
    world.run(job)
    folder = world.kits.server / "securefg_runs" / job.run
    assert json.loads((folder / "private" / "outcome.json").read_text())["finished"] is False
    (folder / "private" / STOP).unlink()
    shutil.rmtree(home)
    shutil.copytree(clone, home)
    world.between = lambda site, packet, deliver: deliver(site, packet)
    with pytest.raises(RunFailed, match=r"site-2: found books that end at request 0 of this run"):
        world.run(world.job(), job_id="again")


def test_home_of_every_site_unchanged_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, PLAIN, MASKED, "training.rounds=4"))
    job = world.job()
    stop_after(world, 20)
    world.run(job)
    folder = world.kits.server / "securefg_runs" / job.run
    (folder / "private" / STOP).unlink()
    world.between = lambda site, packet, deliver: deliver(site, packet)
    assert world.run(world.job(), job_id="again").summary().rounds == 4
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    assert {line["site"] for line in lines} == set(world.assignment)


def test_standing_of_site_is_the_last_line_of_its_books(tmp_path: Path) -> None:
    """What a site tells beside its answer is made of what it booked, and of nothing else."""
    world = World(tmp_path, config(tmp_path, PLAIN, "training.rounds=2"))
    job = world.job()
    folder = world.run(job).path
    for site in world.assignment:
        booked = world.booked(site)
        told = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
        own = {line["count"]: line["link"] for line in told if line["site"] == site}
        assert own == {0: ""} | {n: line["link"] for n, line in enumerate(booked, 1)}


A, B = "a" * 64, "b" * 64


def test_standings_of_two_answers_at_one_request_name_the_site(tmp_path: Path) -> None:
    Standings(tmp_path).note("bank", [3, A])
    Standings(tmp_path).note("bank", [3, A])
    with pytest.raises(ProtocolError, match="bank: found two different books at request 3"):
        Standings(tmp_path).note("bank", [3, B])
    Standings(tmp_path).note("other", [3, B])


def test_standings_that_went_ahead_and_back_name_the_site(tmp_path: Path) -> None:
    """A copy that answered more often is found when the first one answers again."""
    standings = Standings(tmp_path)
    standings.note("bank", [3, A])
    standings.note("bank", [5, B])
    with pytest.raises(ProtocolError, match="bank: found books that end at request 4"):
        standings.note("bank", [4, A])


@pytest.mark.parametrize(
    "told",
    [None, [], [1], [1, A, A], [-1, A], [True, A], [1.0, A], [1, "x"], [1, 5], {}, [2**60, A]],
)
def test_standings_of_nonsense_are_refused(told: object) -> None:
    with pytest.raises(ProtocolError, match="bank: found the standing"):
        Standings().note("bank", told)


@pytest.mark.parametrize("text", ["{}\n", "[]\n", "x\n", '{"site":"a","count":-1,"link":""}\n'])
def test_standings_file_that_was_damaged_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(RunFolderError, match="expected standings"):
        Standings(tmp_path)
