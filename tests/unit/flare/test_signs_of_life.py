"""A site that falls silent is called dead in time, by the server's own clock alone."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from securefg.flare.guard.cell import GuardedCell
from securefg.flare.guard.doors import Arrival
from securefg.flare.guard.pulse import INTERVAL_SECONDS, SILENT_SECONDS, Pulse
from securefg.flare.overview import describe_deployment, describe_site, is_dead, read_overview
from securefg.flare.progress import STATUS, Progress, ProgressFile, read_progress
from securefg.foundation.errors import RunFailed
from securefg.foundation.json_text import read_json

pytest.importorskip("nvflare")
REPORTED_WITHIN = 15.0
SITES = ["bank-a", "bank-b"]


class Clock:
    """Seconds that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def overview(pulse: Pulse, progress: dict[str, Any] | None = None) -> Any:
    return read_overview(
        {"silence": pulse.measure_silence(SITES), "progress": progress, "jobs": []}
    )


def test_pulse_killed_site_is_dead_within_fifteen_seconds() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    for _ in range(20):
        clock.now += INTERVAL_SECONDS
        for site in SITES:
            pulse.hear_site(site, site)
        assert overview(pulse).dead_sites() == []
    killed = clock.now
    while not overview(pulse).dead_sites():
        clock.now += 0.25
        pulse.hear_site("bank-a", "bank-a")
    assert overview(pulse).dead_sites() == ["bank-b"]
    assert SILENT_SECONDS < clock.now - killed < REPORTED_WITHIN
    pulse.hear_site("bank-b.job", "bank-b")
    assert overview(pulse).dead_sites() == []


def test_pulse_message_under_other_certificate_is_no_sign() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    pulse.hear_site("bank-a", "bank-b")
    pulse.hear_site("bank-a.job", "")
    assert pulse.measure_silence(SITES) == {"bank-a": None, "bank-b": None}


def test_pulse_unknown_names_are_never_told() -> None:
    pulse = Pulse(Clock())
    pulse.hear_site("stranger", "stranger")
    assert set(pulse.measure_silence(SITES)) == set(SITES)


def test_cell_refused_message_is_no_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey as Key
    from nvflare.fuel.f3.cellnet.defs import MessageType
    from nvflare.fuel.f3.endpoint import Endpoint
    from nvflare.fuel.f3.message import Message

    from securefg.flare.guard import cell as module
    from securefg.flare.guard.visits import Visits

    pulse = Pulse(Clock())
    monkeypatch.setattr(GuardedCell, "visits", Visits(tmp_path, "server"), raising=False)
    monkeypatch.setattr(GuardedCell, "pulse", pulse)
    monkeypatch.setattr(module, "_certificate_name", lambda connection: "bank-b")
    cell = GuardedCell("server", root_url="tcp://localhost:1", secure=False, credentials={})
    CoreCell.ALL_CELLS.pop("server")

    def arrive(neighbour: str, origin: str, topic: str) -> None:
        facts = {Key.ORIGIN: origin, Key.DESTINATION: "server", Key.MSG_TYPE: MessageType.REQ}
        door = {Key.CHANNEL: "task", Key.TOPIC: topic, Key.REQ_ID: "1"}
        cell._process_received_msg(Endpoint(neighbour), None, Message({**facts, **door}, b""))

    arrive("bank-b", "bank-a", "heart_beat")  # speaks for another site
    arrive("bank-b", "bank-b", "shutdown")  # has no door
    arrive("bank-a", "bank-a", "heart_beat")  # has another certificate
    assert pulse.measure_silence(SITES) == {"bank-a": None, "bank-b": None}
    arrive("bank-b", "bank-b", "heart_beat")
    assert pulse.measure_silence(SITES) == {"bank-a": None, "bank-b": 0.0}


def test_arrival_carries_no_time_of_a_site() -> None:
    """A site whose clock is wrong is judged by the server's clock alone."""
    assert not {"time", "clock", "sent"} & set(Arrival.__dataclass_fields__)


def test_status_shows_round_epsilon_time_left_and_sites() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    for site in SITES:
        pulse.hear_site(site, site)
    clock.now += 12
    pulse.hear_site("bank-a", "bank-a")
    clock.now += 1
    status_fields = {
        "submission": 1,
        "state": "running",
        "rounds": 20,
        "round": 5,
        "seconds": 50.0,
        "epsilon": {"node": 1.234, "client": None},
        "away": {"bank-b": "silent for 10 s"},
    }
    assert list(describe_deployment(overview(pulse, status_fields), SITES, "RUNNING")) == [
        "run: running, round 5 of 20 done, at most 2 min 30 s left (job RUNNING)",
        "epsilon spent: 1.24 per node, ∞ per client",
        "bank-a: connected, last sign of life 1.0 s ago",
        "bank-b: DEAD, no sign of life for 13.0 s; out of the run: silent for 10 s",
    ]


@pytest.mark.parametrize(
    ("progress", "job", "words"),
    [
        (None, "SUBMITTED", "not begun"),
        ({"state": "starting", "rounds": 3}, "RUNNING", "time left not known yet"),
        ({"state": "running", "rounds": 3, "round": 2}, "FINISHED:ABNORMAL", "without a word"),
        ({"state": "running", "rounds": 3, "round": 2}, "FINISHED:ABORTED", "at once, as asked"),
        ({"state": "running", "rounds": 3, "round": 2}, "LOST", "without a word after round 2"),
        ({"state": "failed", "rounds": 3, "reason": "why"}, "FINISHED:X", "failed after round 0"),
        ({"state": "finished", "rounds": 3, "round": 3}, "FINISHED:COMPLETED", "finished after"),
        ({"state": "interrupted", "rounds": 3, "round": 1}, "FINISHED:COMPLETED", "interrupted"),
    ],
)
def test_status_of_every_state_is_named(
    progress: dict[str, Any] | None, job: str, words: str
) -> None:
    told = None if progress is None else {"submission": 1, **progress}
    assert words in next(describe_deployment(overview(Pulse(), told), SITES, job))


def test_status_of_site_never_heard_is_not_connected() -> None:
    assert describe_site("bank-a", overview(Pulse())) == "bank-a: not connected"
    assert is_dead(None)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"silence": {"bank-a": -1}},
        {"silence": {"bank-a": True}},
        {"silence": {"bank-a": float("nan")}},
        {"silence": {"bank-a": "1"}},
        {"silence": [], "progress": None},
        {"silence": {}, "progress": {"submission": 1, "state": "dead", "rounds": 1}},
        {"silence": {}, "progress": {"submission": 1, "state": "running", "rounds": 0}},
        {"silence": {}, "progress": {"submission": 1, "state": "running", "rounds": 1, "x": 1}},
        {"silence": {}, "progress": []},
        {"silence": {}, "progress": None},
        {"silence": {}, "progress": None, "jobs": [1]},
    ],
)
def test_status_of_lying_server_is_refused(told: dict[str, Any]) -> None:
    with pytest.raises(RunFailed, match="the server's status"):
        read_overview(told)


def test_status_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "private" / STATUS
    file = ProgressFile(path, Progress(submission=1, state="starting", rounds=4))
    file.update_progress(state="failed", round=2, reason="x" * 1000)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = read_progress(read_json(path))
    assert found is not None
    assert (found.round, found.is_over, len(found.reason)) == (2, True, 300)


def test_status_file_on_full_disk_ends_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("")  # no folder can be made here
    ProgressFile(folder / STATUS, Progress(submission=1, state="starting", rounds=4))
