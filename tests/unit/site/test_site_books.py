"""A site's books grow and nothing else: what was changed, torn or lost is noticed."""

from __future__ import annotations

import datetime
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.flare.server_run import STOP
from securefg.foundation.errors import BooksDamaged, RunFailed
from securefg.foundation.log import read_log
from securefg.privacy.ledger import LOG
from securefg.site.books import SiteBooks, open_books
from securefg.site.clock import open_book
from securefg.site.job import Job, Sizes
from securefg.site.packets import Packet
from securefg.site.policy import JobRefused
from tests.forged_log import set_back_head
from tests.small import config
from tests.unit.flare.federation_world import Deliver, World

NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)


def chain(folder: Path, count: int = 3) -> Path:
    path = folder / "books.jsonl"
    open_book(path).create()
    for number in range(count):
        open_book(path, lambda: NOON).append([{"what": number}])
    return path


def edit_head(path: Path, before: str, after: str) -> None:
    head = path.with_name("books.jsonl.head")
    assert before in head.read_text()
    head.write_text(head.read_text().replace(before, after))


def test_lines_come_back_as_they_were_written_by_any_process(tmp_path: Path) -> None:
    path = chain(tmp_path, 0)
    one, other = open_book(path), open_book(path)
    one.append([{"what": 1}])
    other.append([{"what": 2}, {"what": 3}])
    one.append([{"what": 4}])
    assert [line["what"] for line in other.lines()] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.with_name("books.jsonl.head").unlink(),
        lambda path: path.write_text("".join(path.read_text().splitlines(True)[1:])),
        lambda path: path.write_text("".join(path.read_text().splitlines(True)[:-1])),
        lambda path: path.write_text(path.read_text().replace('"what":1', '"what":7')),
        lambda path: path.write_text(path.read_text()[:-5]),
        lambda path: path.write_text("\n" + path.read_text()),
        lambda path: path.write_text("[" * 10**5 + "\n" + path.read_text()),
        lambda path: path.with_name("books.jsonl.head").write_text("[]"),
        lambda path: edit_head(path, '"length": 3', '"length": "3"'),
        lambda path: edit_head(path, '"length": 3', '"length": -1'),
        lambda path: edit_head(path, '"format": 2', '"format": 1'),
    ],
    ids=[
        *("gone", "emptied", "no head", "first", "last", "changed", "torn", "blank", "deep"),
        *("a list as head", "a text as number", "a negative number", "an older head"),
    ],
)
def test_harm_is_noticed_and_nothing_is_written_any_more(harm: object, tmp_path: Path) -> None:
    path = chain(tmp_path)
    harm(path)  # type: ignore[operator]
    with pytest.raises(BooksDamaged):
        open_book(path, lambda: NOON).lines()
    with pytest.raises(BooksDamaged):
        open_book(path, lambda: NOON).append([{"what": 9}])


def test_what_a_crash_leaves_is_kept_if_whole_and_cut_if_torn(tmp_path: Path) -> None:
    path = chain(tmp_path, 2)
    head = path.with_name("books.jsonl.head")
    before = head.read_text()
    open_book(path, lambda: NOON).append([{"what": 2}])
    head.write_text(before)  # the line was on disk, the head was not
    assert [line["what"] for line in open_book(path, lambda: NOON).lines()] == [0, 1, 2]
    with path.open("a") as file:
        file.write('{"format":2,"ti')
    assert [line["what"] for line in open_book(path, lambda: NOON).lines()] == [0, 1, 2]
    open_book(path, lambda: NOON).append([{"what": 3}])
    assert len(open_book(path, lambda: NOON).lines()) == 4


@settings(max_examples=40)
@given(position=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_no_single_byte_can_be_changed(position: int, byte: int) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = chain(Path(folder))
        raw = bytearray(path.read_bytes())
        position %= len(raw)
        if raw[position] == byte:
            return
        raw[position] = byte
        path.write_bytes(raw)
        with pytest.raises(BooksDamaged):
            open_book(path, lambda: NOON).lines()


def test_a_clock_that_was_set_back_is_refused_and_months_do_not_return(tmp_path: Path) -> None:
    path = chain(tmp_path)
    earlier = open_book(path, lambda: NOON - datetime.timedelta(days=20))
    with pytest.raises(BooksDamaged, match="set the clock"):
        earlier.append([{"what": 9}])
    soon = open_book(path, lambda: NOON - datetime.timedelta(minutes=3))
    soon.append([{"what": 9}])
    times = [line["time"] for line in soon.lines()]
    assert times == sorted(times)


def test_a_site_with_damaged_books_takes_part_in_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, "training.rounds=1"))
    (world.kits.home("site-1") / "ledger.jsonl").unlink()
    with pytest.raises(RunFailed, match=r"site-1 refuses: .*no log"):
        world.run()
    assert all(world.left(site) == [] for site in ("site-2", "site-3"))


def test_two_processes_do_not_both_take_up_a_submission(tmp_path: Path) -> None:
    """A server may start several jobs of one number at a site at the same moment."""
    open_books(tmp_path)
    job = Job("r", 1, "localhost", {}, Sizes(1, 1, 1, 1), {})
    began = threading.Barrier(6)

    def take_up(number: int) -> bool:
        books = SiteBooks(tmp_path)
        began.wait()
        try:
            books.take_up(job, most=5)
        except JobRefused:
            return False
        return True

    def tell(number: int) -> bool:
        books = SiteBooks(tmp_path)
        began.wait()
        return books.book_scores("r", 1, False, "0-1")

    with ThreadPoolExecutor(6) as pool:
        for once in (take_up, tell):
            assert sum(pool.map(once, range(6))) == 1


def test_scores_are_told_once_for_a_round(tmp_path: Path) -> None:
    open_books(tmp_path)
    books = SiteBooks(tmp_path)
    assert books.book_scores("run", 1, False, "0")
    assert not SiteBooks(tmp_path).book_scores("run", 1, False, "0")
    assert books.book_scores("run", 1, True, "0")
    assert books.book_scores("run", 2, False, "0")
    assert len(json.loads((tmp_path / "scores.jsonl.head").read_text())) == 3


def test_what_a_site_keeps_of_a_run_must_fit_together(tmp_path: Path) -> None:
    """A masked run is stopped; then files of one site are lost or put back, and it is submitted
    again: the site takes no part until they are as they were."""
    masked = "privacy.secure_aggregation={min_holders: 1}"
    settings = (masked, "output.checkpoint_every=1", "training.rounds=3")
    world = World(tmp_path, config(tmp_path, *settings))
    home = world.kits.home("site-1")
    first = {path: path.read_bytes() for path in home.glob("ledger.jsonl*")}
    job = world.job()
    server = world.start(job)
    stop = world.kits.server / "securefg_runs" / job.run / "private" / STOP

    def stop_in_round_2(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        if home.joinpath("runs", job.run, "states").exists():
            stop.touch()
        return deliver(site, packet)

    world.between = stop_in_round_2
    assert server.execute()[1] is None
    stop.unlink()
    world.between = lambda site, packet, deliver: deliver(site, packet)
    run_home = home / "runs" / job.run
    (memory,) = (run_home / "memories").glob("*.jsonl")
    count = memory.with_name(f"{memory.name}.head")
    kept = {path: path.read_bytes() for path in (*first, memory, count, run_home / "ledger.jsonl")}

    def refused(why: str) -> None:
        with pytest.raises(RunFailed, match=rf"site-1 refuses: .*{why}"):
            world.run(job_id=f"submission {world.submission}")
        for path, content in kept.items():
            path.write_bytes(content)

    memory.unlink()
    count.unlink()
    refused("the books say that clients 0 sent .* deleted or set back")
    memory.write_bytes(b"".join(memory.read_bytes().splitlines(True)[:-2]))
    set_back_head(memory)
    refused("the books say that clients 0 sent fedgl.Update in round [12], and what they remember")
    for path, content in first.items():
        path.write_bytes(content)  # books that fit one another, from before the run
    refused("releases that the site's books do not have")
    for path, content in first.items():
        path.write_bytes(content)
    (run_home / "ledger.jsonl").unlink()
    refused("ledger.jsonl does not have .* agreed to have opened")

    (run_home / "ledger.jsonl").unlink()  # the books have all of it: it is made anew
    world.run(job_id="the last")
    lines = [entry for entry, _ in read_log(run_home / "ledger.jsonl", LOG)]
    assert lines == [json.loads(line)["release"] for line in world.left("site-1")]


def test_a_site_whose_books_are_gone_is_not_given_new_ones(tmp_path: Path) -> None:
    open_books(tmp_path)
    (tmp_path / "ledger.jsonl").unlink()
    open_books(tmp_path)
    assert not (tmp_path / "ledger.jsonl").exists()
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / "runs").mkdir()
    open_books(tmp_path)
    with pytest.raises(BooksDamaged, match="no log"):
        SiteBooks(tmp_path).releases()
