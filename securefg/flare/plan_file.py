"""What a federation was provisioned for, kept beside its kits: from it every job is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefg.flare.deployed import PLAN_FILE
from securefg.flare.job import Job, Sizes
from securefg.flare.kits import Kits
from securefg.foundation.errors import DataError
from securefg.foundation.files import write_json
from securefg.foundation.json_text import read_json
from securefg.protocol.codec import Clients

SUBMISSIONS = "submissions.json"


@dataclass(frozen=True)
class FederationPlan:
    """The run's config, what is public of the data, and which hosts each site runs."""

    run: str
    server: str
    config: dict[str, Any]
    sizes: Sizes
    sites: Mapping[str, Mapping[str, Clients]]

    def job(self, submission: int) -> Job:
        return Job(self.run, submission, self.server, self.config, self.sizes, self.sites)

    def write(self, kits: Path) -> None:
        self.job(0).write(kits / PLAN_FILE)

    @classmethod
    def read(cls, kits: Path) -> FederationPlan:
        if not (kits / PLAN_FILE).exists():
            raise DataError(f"{kits}: no kits of `securefg deploy provision` (no {PLAN_FILE})")
        job = Job.read(kits / PLAN_FILE)
        return cls(job.run, job.server, job.config, job.sizes, job.sites)


def hand_out_plan(kits: Kits, job: Job) -> None:
    """Give every party the plan: a job that is not the same is refused there."""
    for party in (job.server, *job.sites):
        job.write(kits.path / party / "local" / "securefg" / PLAN_FILE)


@dataclass(frozen=True)
class Submissions:
    """The jobs that were submitted from these kits, FLARE's id by number."""

    path: Path

    def all(self) -> dict[int, str]:
        if not self.path.exists():
            return {}
        return {int(k): str(v) for k, v in read_json(self.path).items()}

    def next_number(self) -> int:
        return max(self.all(), default=0) + 1

    def add(self, number: int, job_id: str) -> None:
        write_json(self.path, {**self.all(), number: job_id})

    @property
    def last(self) -> str:
        found = self.all()
        if not found:
            raise DataError(f"{self.path.parent}: nothing was submitted; `securefg deploy submit`")
        return found[max(found)]
