"""A site's own books: every job that it took up, and everything private that left.

They belong to the site, outlive the runs, are written before a reply leaves, and are logs (see
`securefg.foundation.log`): where they cannot be trusted nothing leaves any more.

    jobs.jsonl       {run, submission, digest}
    ledger.jsonl     {run, num_clients, request, releases}: a line for every request that a
                     host saw, booked before the host saw it, with all that its reply may hold
    scores.jsonl     {run, round, at_end, clients}
    any of the three {clock_set_back}: see `securefg.site.clock`
    refusals.jsonl   {time, run, submission, at, reason}, for the site's own people; no log
"""

from __future__ import annotations

import datetime
import fcntl
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from securefg.foundation.errors import BooksDamaged, BudgetExceeded
from securefg.foundation.log import Clock, Line, utc_now
from securefg.foundation.quoting import shortened
from securefg.privacy.accountants import Claim, claim
from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.settings.privacy import Unit
from securefg.site.certificates import Root, Signer
from securefg.site.clock import check_corrections, correct_clock, open_book, without_corrections
from securefg.site.job import Job
from securefg.site.policy import POLICY_FILE, Budget, JobRefused, SitePolicy

Profile = Mapping[Mechanism, int]
MONTH = datetime.timedelta(days=31)
LONGEST_REASON = 2000
LOGS = ("jobs.jsonl", "ledger.jsonl", "scores.jsonl")


@dataclass(frozen=True)
class Booked:
    """A request that a host is about to see, and what may leave in its reply."""

    host: str
    kind: str
    round: int
    step: int
    releases: list[Release]

    @property
    def request(self) -> Line:
        """The request as a line of the books has it."""
        return {"host": self.host, "kind": self.kind, "round": self.round, "step": self.step}


def open_books(home: Path) -> None:
    """Begin a site's books, once, when its kit is made; never where there were some."""
    if not (home / "runs").exists() and not any(home.glob("*.jsonl.head")):
        for name in LOGS:
            open_book(home / name).create()


class SiteBooks:
    """The books below `home`."""

    def __init__(self, home: Path, now: Clock = utc_now) -> None:
        self.home, self._now = home, now
        self._jobs, self._ledger, self._scores = (open_book(home / name, now) for name in LOGS)
        self._parsed: dict[str, list[Release]] = {}

    def releases(self) -> list[Line]:
        """Return a line per request that a host saw."""
        return without_corrections(self._ledger.lines())

    def jobs(self) -> list[Line]:
        """Return a line per job that was taken up."""
        return without_corrections(self._jobs.lines())

    def correct_clock(self, signer: Signer, reason: str) -> int:
        """Lift the lock of a clock that ran ahead. Return how many books were corrected."""
        return correct_clock([self.home / name for name in LOGS], signer, reason, self._now)

    def check_corrections(self, site: str, root: Root) -> None:
        """Raise unless this site signed every correction of its clock, under this root."""
        for log in (self._jobs, self._ledger, self._scores):
            check_corrections(log.lines(), site, root)

    def take_up(self, job: Job, most: int) -> None:
        """Note a job. Refuse one that was taken up before, is older, or comes once too often."""
        with self.take_turn("jobs"):
            self._take_up(job, most)

    def _take_up(self, job: Job, most: int) -> None:
        seen = [line for line in self.jobs() if line["run"] == job.run]
        last = max((line["submission"] for line in seen), default=0)
        if job.submission <= last:
            raise JobRefused(
                f"submission {job.submission} of {job.run} was replayed: "
                f"submission {last} has been taken up here; to go on with it, `securefg deploy "
                f"submit --after {last}`; to begin one anew, provision it with another name or seed"
            )
        if len(seen) >= most:
            raise JobRefused(
                f"{job.run} was taken up {len(seen)} times; allowed here: {most} (`submissions` in "
                f"{POLICY_FILE})"
            )
        line = {"run": job.run, "submission": job.submission, "digest": job.digest}
        self._jobs.append([line])

    def note_refusal(self, run: str, submission: int, reason: str, at: str = "job") -> None:
        """Write down what went wrong, for the site's own people.

        at  job: it was not taken up; request: it was refused before a host saw it; host: a host
            failed on it
        """
        time = self._now().isoformat(timespec="seconds")
        # A server writes parts of the reason, such as the names of unknown fields.
        reason = shortened(reason, LONGEST_REASON)
        line = {"time": time, "run": run, "submission": submission, "at": at, "reason": reason}
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.home / "refusals.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def spend(
        self,
        policy: SitePolicy,
        more: Profile,
        run: str,
        num_clients: int,
        requests: list[Booked],
    ) -> None:
        """Check the budgets and book at once, so that two jobs cannot both spend the last of it."""
        with self.take_turn("ledger"):
            self.check(policy, more)
            self.book(run, num_clients, requests)

    @contextmanager
    def take_turn(self, book: str) -> Iterator[None]:
        """Let one process after the other in: what was read still holds when it is written."""
        try:
            turn = (self.home / f"{book}.turn").open("a")
        except OSError as error:
            raise BooksDamaged(f"{self.home}: no books: {error}") from error
        with turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    def book(self, run: str, num_clients: int, requests: list[Booked]) -> None:
        """Append a line per request, with all that its reply may hold."""
        self._ledger.append(
            [
                {
                    "run": run,
                    "num_clients": num_clients,
                    "request": booked.request,
                    "releases": [release.to_json() for release in booked.releases],
                }
                for booked in requests
            ]
        )

    def book_scores(self, run: str, round: int, at_end: bool, clients: str) -> bool:
        """Note that scores are told; False where they were, of this round, before."""
        line = {"run": run, "round": round, "at_end": at_end, "clients": clients}
        with self.take_turn("scores"):
            scores = without_corrections(self._scores.lines())
            told = {(x["run"], x["round"], x["at_end"], x["clients"]) for x in scores}
            if tuple(line.values()) in told:
                return False
            self._scores.append([line])
            return True

    def standing(self, run: str) -> list[int | str]:
        """Return how many requests of a run hosts saw here, and the link of the last one's line."""
        lines = self._lines_of(run)
        return [len(lines), str(lines[-1]["link"]) if lines else ""]

    def booked(self, run: str) -> Ledger | None:
        """What a run has released here, by client, or None where nothing was."""
        return self._ledgers_by_run(self._lines_of(run)).get(run)

    def released(self, run: str) -> list[Release]:
        """What a run has released here, one by one."""
        return [release for line in self._lines_of(run) for release in self._parsed_releases(line)]

    def _lines_of(self, run: str) -> list[Line]:
        return [line for line in self.releases() if line["run"] == run]

    def spent(self, unit: Unit, delta: float, within: datetime.timedelta | None = MONTH) -> Claim:
        """What the last month's releases, or all, cost the worst client, whichever the jobs had."""
        return claim([self._largest_counts(within)], unit, delta)

    def check(self, policy: SitePolicy, more: Profile) -> None:
        """Raise before releases that would carry the last month, or all time, past a budget."""
        for name, budget, within in (
            ("this month's", policy.budget_per_month, MONTH),
            ("the total", policy.budget_total, None),
        ):
            if budget is not None:
                self._check_budget(
                    name, budget, Counter(self._largest_counts(within)) + Counter(dict(more))
                )

    def _check_budget(self, name: str, budget: Budget, after: Counter[Mechanism]) -> None:
        epsilon_claim = claim([dict(after)], budget.unit, budget.delta)
        if epsilon_claim.epsilon > budget.epsilon:
            left = (
                f"; {', '.join(epsilon_claim.because)} without noise"
                if epsilon_claim.because
                else ""
            )
            raise BudgetExceeded(
                f"{name} epsilon per {budget.unit} would be {epsilon_claim.epsilon:.4g}, past the "
                f"site's budget of {budget.epsilon:g}{left}"
            )

    def _largest_counts(self, within: datetime.timedelta | None) -> dict[Mechanism, int]:
        """Per run the largest count of each mechanism at any client; over the runs, their sum.

        Client 3 of one run may be client 0 of the next, so runs are added at their worst.
        """
        lines = self.releases()
        if within is not None:
            since = (self._ledger.time() - within).isoformat(timespec="seconds")
            lines = [line for line in lines if line["time"] > since]
        total: Counter[Mechanism] = Counter()
        for ledger in self._ledgers_by_run(lines).values():
            for mechanism in ledger.mechanisms:
                total[mechanism] += int(ledger.counts(mechanism).max())
        return dict(total)

    def _ledgers_by_run(self, lines: list[Line]) -> dict[str, Ledger]:
        ledger_of_run: dict[str, Ledger] = {}
        for line in lines:
            ledger = ledger_of_run.setdefault(line["run"], Ledger(line["num_clients"]))
            ledger.record(self._parsed_releases(line))
        return ledger_of_run

    def _parsed_releases(self, line: Line) -> list[Release]:
        if line["link"] not in self._parsed:
            releases = json.loads(json.dumps(line["releases"]))
            self._parsed[line["link"]] = [Release.from_json(release) for release in releases]
        return self._parsed[line["link"]]
