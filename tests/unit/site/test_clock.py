"""A clock that ran ahead is corrected by the site's operator, on record and without new budget."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.foundation.errors import BooksDamaged, BudgetExceeded, ConfigError
from securefg.foundation.log import Log
from securefg.privacy.ledger import Mechanism, Release
from securefg.protocol.codec import Clients
from securefg.site.books import LOGS, Booked, SiteBooks, open_books
from securefg.site.certificates import BadCertificate, Root, Signer
from securefg.site.clock import KEY, open_book
from securefg.site.policy import Budget, SitePolicy
from tests.forged_log import forge_log, set_back_head
from tests.small import config
from tests.unit.flare.federation_world import World, certificates

NOON = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(hours=1)
AHEAD = NOON + datetime.timedelta(days=32)
NOISED = Mechanism("Update.weights", "local_gaussian", noise_multiplier=5.0)
FLOOR = SitePolicy(budget_per_month=Budget(epsilon=8), budget_total=None)


def signer(site: str = "site-1") -> Signer:
    return Signer.load(certificates() / site / "startup")


def root() -> Root:
    return Root.load(certificates() / "site-1" / "startup")


def spend(books: SiteBooks, times: int) -> None:
    releases = [Release(NOISED, Clients(((0, 1),)), 1, 1)] * times
    books.book("run", 1, [Booked("host", "kind", 1, 1, releases)])


@pytest.fixture
def books(tmp_path: Path) -> SiteBooks:
    """Return books that were written to 32 days ahead, by the clock that was set back since."""
    open_books(tmp_path)
    spend(SiteBooks(tmp_path, lambda: NOON), 50)
    spend(SiteBooks(tmp_path, lambda: AHEAD), 50)
    return SiteBooks(tmp_path, lambda: NOON)


def test_clock_set_back_without_correction_locks_books(books: SiteBooks) -> None:
    with pytest.raises(BooksDamaged, match="securefg deploy clock"):
        spend(books, 1)


def test_correction_of_clock_lifts_the_lock_with_a_record(books: SiteBooks) -> None:
    assert books.correct_clock(signer(), "the time server was wrong") == 1
    spend(books, 1)
    lines = open_book(books.home / "ledger.jsonl", lambda: NOON).lines()
    assert [KEY in line for line in lines] == [False, False, True, False]
    assert lines[2][KEY]["reason"] == "the time server was wrong"
    assert lines[2][KEY]["site"] == "site-1"
    assert len(books.releases()) == 3
    books.check_corrections("site-1", root())


def test_correction_of_clock_gives_no_budget_anew(books: SiteBooks) -> None:
    ahead = SiteBooks(books.home, lambda: AHEAD).spent("client", 1e-5).epsilon
    books.correct_clock(signer(), "reason")
    month = books.spent("client", 1e-5).epsilon
    assert month == pytest.approx(9.99726, abs=2e-3)  # all 100 releases, sigma 5
    assert month > ahead
    with pytest.raises(BudgetExceeded):
        books.check(FLOOR, {NOISED: 1})
    later = SiteBooks(books.home, lambda: NOON + datetime.timedelta(days=40))
    assert later.spent("client", 1e-5).epsilon == pytest.approx(ahead)  # those written ahead stay


def test_correction_with_nothing_ahead_is_refused(books: SiteBooks) -> None:
    books.correct_clock(signer(), "reason")
    with pytest.raises(ConfigError, match="clock: found no book that is ahead"):
        books.correct_clock(signer(), "reason")


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_correction_without_reason_is_refused(books: SiteBooks, reason: str) -> None:
    with pytest.raises(ConfigError, match="reason: found"):
        books.correct_clock(signer(), reason)


def test_correction_of_all_books_takes_each_once(tmp_path: Path) -> None:
    open_books(tmp_path)
    for name in LOGS:
        open_book(tmp_path / name, lambda: AHEAD).append([{"run": "run"}])
    assert SiteBooks(tmp_path, lambda: NOON).correct_clock(signer(), "reason") == 3


def test_correction_signed_by_another_site_is_refused(books: SiteBooks) -> None:
    books.correct_clock(signer("site-2"), "reason")
    with pytest.raises(BadCertificate, match="site-2"):
        books.check_corrections("site-1", root())


def rewrite(path: Path, change: str) -> None:
    """Write the book's chain anew with another correction, as its owner could."""
    entries = [
        {key: line[key] for key in line if key != "link"}
        for line in open_book(path, lambda: NOON).lines()
    ]
    if change == "reason":
        entries[2][KEY]["reason"] = "another"
    elif change == "time":
        entries[2]["time"] = (NOON - datetime.timedelta(days=1)).isoformat()
    elif change == "unsigned":
        del entries[2][KEY]
    elif change == "moved":
        entries.insert(1, entries.pop(2))
        entries[0]["time"] = AHEAD.isoformat()
    elif change == "not a record":
        entries[2][KEY] = [1]
    forge_log(path, "book ledger", entries)
    set_back_head(path)


@pytest.mark.parametrize("change", ["reason", "time", "unsigned", "moved", "not a record"])
def test_correction_changed_with_its_chain_is_refused(books: SiteBooks, change: str) -> None:
    books.correct_clock(signer(), "reason")
    path = books.home / "ledger.jsonl"
    rewrite(path, change)
    with pytest.raises(BooksDamaged, match="found a line that sets the clock back"):
        open_book(path, lambda: NOON).lines()


def test_log_without_checker_refuses_time_that_goes_back(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path, "log", shared=True, clock=lambda: NOON)
    log.create()
    log.append([{"a": 1}])
    back = (NOON - datetime.timedelta(hours=1)).isoformat()
    forge_log(path, "log", [{"time": NOON.isoformat(), "a": 1}, {"time": back, "a": 2}])
    set_back_head(path)
    with pytest.raises(Exception, match=r"found .* after "):
        Log(path, "log", shared=True, clock=lambda: NOON).lines()


def test_site_with_correction_of_another_site_takes_no_part(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, "training.rounds=1"))
    job = world.job()
    home = world.kits.home("site-1")
    open_book(home / "scores.jsonl", lambda: AHEAD).append(
        [{"run": "x", "round": 1, "at_end": False, "clients": "0"}]
    )
    SiteBooks(home).correct_clock(signer("site-2"), "reason")
    with pytest.raises(Exception, match="site-1"):
        world.run(job)
    reasons = (home / "refusals.jsonl").read_text()
    assert "site-2" in json.loads(reasons.splitlines()[-1])["reason"]


def test_clock_command_corrects_the_books_of_a_kit(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, "training.rounds=1"))
    world.job()
    kit, home = world.kits.path / "site-1", world.kits.home("site-1")
    open_book(home / "jobs.jsonl", lambda: AHEAD).append([{"run": "x", "submission": 1}])
    refused = CliRunner().invoke(app, ["deploy", "clock", str(kit), "--reason", " "])
    assert refused.exit_code != 0
    done = CliRunner().invoke(app, ["deploy", "clock", str(kit), "--reason", "wrong clock"])
    assert "1 books corrected" in done.output
    assert SiteBooks(home).jobs()[0]["run"] == "x"
