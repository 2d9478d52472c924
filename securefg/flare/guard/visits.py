"""A party's own record of who knocked: commands that came, and messages that were refused.

    visits.jsonl      {"time", "from", "origin", "door", "outcome"}
    doors.KIND.json   handlers that FLARE wanted at its last start: open, and closed by the guard

The first file grows slowly however fast somebody knocks: a few lines per second, then a count.
"""

from __future__ import annotations

import datetime
import json
import threading
import time
from pathlib import Path

from securefg.flare.guard.doors import Arrival
from securefg.flare.guard.terminal import tell_user
from securefg.foundation.files import write_json

TOLD = {"train.start_job": "the run's job begins here", "train.abort": "the job is ended here"}
LINES_PER_SECOND = 5.0
BURST = 50.0


class Visits:
    """Appends to one file, which the processes of a party share."""

    def __init__(self, kit: Path, kind: str) -> None:
        self._path, self._doors = kit / "visits.jsonl", kit / f"doors.{kind}.json"
        self._lock = threading.Lock()
        self._handlers: dict[str, bool] = {}
        self._left, self._since, self._unwritten = BURST, time.monotonic(), 0

    def handler(self, channel: str, topic: str, is_open: bool) -> None:
        """Note a handler that FLARE wanted, and whether a door leads to it."""
        with self._lock:
            self._handlers[f"{channel}/{topic}"] = is_open
            handlers_by_state = {
                name: sorted(door for door, one in self._handlers.items() if one is wanted)
                for name, wanted in (("open", True), ("closed", False))
            }
            write_json(self._doors, handlers_by_state)

    def refused(self, arrival: Arrival, reason: str) -> None:
        """Note a message that was refused, and why."""
        door = "/".join(arrival.door)
        self._write_visit(arrival.neighbour, arrival.origin, door, f"refused: {reason}")

    def command(self, name: str, outcome: str) -> None:
        """Note a command of the server's, and what became of it; tell the operator of jobs."""
        if name in TOLD and outcome == "taken":
            tell_user(f"{self._path.parent.name}: {TOLD[name]}")
        self._write_visit("server", "server", name, outcome)

    def _write_visit(self, neighbour: str, origin: str, door: str, outcome: str) -> None:
        with self._lock:
            now = time.monotonic()
            self._left = min(BURST, self._left + (now - self._since) * LINES_PER_SECOND)
            self._since = now
            if self._left < 1:
                self._unwritten += 1
                return
            self._left -= 1
            line = {
                "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "from": neighbour[:100],
                "origin": origin[:100],
                "door": door[:100],
                "outcome": outcome[:300],
                **({"unwritten_before": self._unwritten} if self._unwritten else {}),
            }
            self._unwritten = 0
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")
