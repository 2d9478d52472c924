"""A site's own books: every job that it took up, and everything private that left, by the day.

They belong to the site, outlive the runs, and are written before a reply leaves.

    jobs.jsonl       {time, run, submission, digest}
    refusals.jsonl   {time, run, submission, reason}
    ledger.jsonl     {time, run, num_clients, release}
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefg.flare.job import Job
from securefg.flare.site_policy import JobRefused, MonthlyBudget
from securefg.foundation.errors import BudgetExceeded
from securefg.privacy.accountants import Claim, claim
from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.run.folder import read_json_lines

Clock = Callable[[], datetime.datetime]
Profile = Mapping[Mechanism, int]


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class SiteBooks:
    """The two files of a site below `home`."""

    home: Path
    now: Clock = utc_now

    @property
    def ledger_path(self) -> Path:
        return self.home / "ledger.jsonl"

    @property
    def jobs_path(self) -> Path:
        return self.home / "jobs.jsonl"

    def take_up(self, job: Job) -> None:
        """Note a job; refuse one that was taken up before, or that is older than one that was."""
        seen = [line for line in read_json_lines(self.jobs_path) if line["run"] == job.run]
        last = max((line["submission"] for line in seen), default=0)
        if job.submission <= last:
            raise JobRefused(
                f"submission {job.submission} of {job.run} was replayed: "
                f"submission {last} has been taken up here"
            )
        line = {"run": job.run, "submission": job.submission, "digest": job.digest}
        self._append(self.jobs_path, [line])

    def note_refusal(self, job: Job, reason: str) -> None:
        line = {"run": job.run, "submission": job.submission, "reason": reason}
        self._append(self.home / "refusals.jsonl", [line])

    def book(self, run: str, num_clients: int, releases: list[Release]) -> None:
        lines = [
            {"run": run, "num_clients": num_clients, "release": release.to_json()}
            for release in releases
        ]
        self._append(self.ledger_path, lines)

    def spent(self, unit: str, delta: float) -> Claim:
        """What this month's releases cost the worst client, whichever clients the jobs had."""
        return claim([self._month()], unit, delta)  # type: ignore[arg-type]

    def check(self, budget: MonthlyBudget | None, more: Profile) -> None:
        """Raise before releases that would carry this month past the budget."""
        if budget is None:
            return
        after = dict(self._month())
        for mechanism, count in more.items():
            after[mechanism] = after.get(mechanism, 0) + count
        found = claim([after], budget.unit, budget.delta)
        if found.epsilon > budget.epsilon:
            left = f"; {', '.join(found.because)} without noise" if found.because else ""
            raise BudgetExceeded(
                f"this month's epsilon per {budget.unit} would be {found.epsilon:.4g}, past the "
                f"site's budget of {budget.epsilon:g}{left}"
            )

    def _month(self) -> dict[Mechanism, int]:
        """Per run the largest count of each mechanism at any client; over the runs, their sum.

        Client 3 of one run may be client 0 of the next, so runs are added at their worst.
        """
        month = self.now().strftime("%Y-%m")
        runs: dict[str, Ledger] = {}
        for line in read_json_lines(self.ledger_path):
            if line["time"].startswith(month):
                ledger = runs.setdefault(line["run"], Ledger(line["num_clients"]))
                ledger.record([Release.from_json(line["release"])])
        total: dict[Mechanism, int] = {}
        for ledger in runs.values():
            for mechanism in ledger.mechanisms:
                worst = int(ledger.counts(mechanism).max())
                total[mechanism] = total.get(mechanism, 0) + worst
        return total

    def _append(self, path: Path, lines: list[dict[str, Any]]) -> None:
        if not lines:
            return
        self.home.mkdir(parents=True, exist_ok=True)
        time = self.now().isoformat(timespec="seconds")
        with path.open("a") as file:
            file.writelines(json.dumps({"time": time, **line}) + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
