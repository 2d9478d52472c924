"""The ledger counts every release per client, and a file of it survives a crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from securefg.foundation.errors import RunFolderError
from securefg.privacy.ledger import Ledger, Mechanism, Release, read_ledger
from securefg.protocol.codec import Clients

WEIGHTS = Mechanism("Update.weights", "local_gaussian", noise_multiplier=2.5)
ROWS = Mechanism(
    "Update.rows", "local_gaussian", per="row", noise_multiplier=0.1, num_rows=7, protects=False
)
PLAIN = Mechanism("Update.labels", "plain")


def release(
    mechanism: Mechanism, *clients: int, round: int = 1, step: int = 1, attempt: int = 1
) -> Release:
    return Release(mechanism, Clients.of(list(clients)), round, step, attempt)


RELEASES = [
    release(WEIGHTS, 0, 1, 2),
    release(ROWS, 0, 2, step=2),
    release(PLAIN, 1, round=2, attempt=2),
    release(WEIGHTS, 0, 1, 2, round=3),
]


def stored(path: Path, releases: list[Release]) -> Ledger:
    ledger = Ledger(3, path)
    ledger.record(releases)
    return ledger


def table(ledger: Ledger) -> dict[str, list[int]]:
    return {m.field: ledger.counts(m).tolist() for m in ledger.mechanisms}


# -------------------------------------------------------------------------------------- counting


def test_releases_are_counted_per_mechanism_and_client() -> None:
    ledger = Ledger(3)
    ledger.record(RELEASES)
    assert table(ledger) == {
        "Update.weights": [2, 2, 2],
        "Update.rows": [1, 0, 1],
        "Update.labels": [0, 1, 0],
    }


def test_other_noise_on_the_same_field_is_another_mechanism() -> None:
    ledger = Ledger(1)
    ledger.record([release(WEIGHTS, 0), release(replace(WEIGHTS, noise_multiplier=9.0), 0)])
    assert len(ledger.mechanisms) == 2


def test_profiles_are_distinct_and_leave_out_what_lies_within_another() -> None:
    ledger = Ledger(5)
    ledger.record([release(WEIGHTS, 0, 1, 2, 3), release(WEIGHTS, 0, 1), release(ROWS, 2, 3)])
    found = sorted(ledger.profiles(), key=lambda profile: profile[WEIGHTS])
    assert found == [{WEIGHTS: 1, ROWS: 1}, {WEIGHTS: 2, ROWS: 0}]


def test_clients_with_the_same_releases_are_one_profile() -> None:
    ledger = Ledger(1000)
    ledger.record([Release(WEIGHTS, Clients(((0, 1000),)), 1, 1)])
    assert ledger.profiles() == [{WEIGHTS: 1}]


def test_a_ledger_without_releases_has_no_profile() -> None:
    assert Ledger(3).profiles() == []


def test_counts_that_are_handed_out_cannot_change_the_ledger() -> None:
    ledger = Ledger(1)
    ledger.record([release(WEIGHTS, 0)])
    ledger.counts(WEIGHTS)[:] = 0
    assert ledger.counts(WEIGHTS).tolist() == [1]


# -------------------------------------------------------------------------------------- the file


def test_releases_come_back_from_the_file_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    stored(path, RELEASES)
    assert list(read_ledger(path)) == RELEASES


def test_releases_are_appended_as_they_are_made(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = stored(path, RELEASES[:1])
    ledger.record([])
    ledger.record(RELEASES[1:])
    assert list(read_ledger(path)) == RELEASES


def test_a_file_that_is_absent_holds_no_release(tmp_path: Path) -> None:
    assert list(read_ledger(tmp_path / "ledger.jsonl")) == []


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    stored(path, RELEASES)
    whole = path.read_text()
    last = len(whole) - len(whole.splitlines()[-1]) - 1
    for length in range(last, len(whole) - 1):
        path.write_text(whole[:length])
        assert list(read_ledger(path)) == RELEASES[:-1]


def test_a_torn_line_in_the_middle_names_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    stored(path, RELEASES)
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:40]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(RunFolderError, match=r"ledger\.jsonl:2: not the line of this log"):
        list(read_ledger(path))


@pytest.mark.parametrize("line", ["{}", '{"mechanism": {}}', "[]", "", '{"mechanism": 3}'])
def test_a_line_that_is_no_release_is_an_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "ledger.jsonl"
    stored(path, RELEASES[:1])
    path.write_text(line + "\n" + path.read_text())
    with pytest.raises(
        RunFolderError,
        match=r"ledger\.jsonl:1: not (a line of|the line)",
    ):
        list(read_ledger(path))


@pytest.mark.parametrize(("keep_later", "kept"), [(True, 4), (False, 3)])
def test_resume_keeps_or_drops_later_rounds_as_told(
    tmp_path: Path, keep_later: bool, kept: int
) -> None:
    path = tmp_path / "ledger.jsonl"
    stored(path, RELEASES)
    ledger = Ledger.resume(path, 3, up_to_round=2, keep_later=keep_later)
    assert ledger.counts(WEIGHTS).tolist() == [kept - 2] * 3
    assert list(read_ledger(path)) == RELEASES[:kept]


def test_a_resumed_ledger_goes_on_in_its_file_after_a_tear(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    stored(path, RELEASES[:2])
    path.write_text(path.read_text() + '{"mechanism": {"fie')
    ledger = Ledger.resume(path, 3, up_to_round=9, keep_later=False)
    ledger.record(RELEASES[2:])
    assert list(read_ledger(path)) == RELEASES
    assert table(ledger) == table(stored(tmp_path / "other.jsonl", RELEASES))


def test_a_run_without_a_ledger_resumes_with_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert Ledger.resume(path, 3, up_to_round=0, keep_later=True).profiles() == []
    assert path.read_text() == ""
