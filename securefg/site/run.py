"""A job at a site: each request of the server's is checked, booked, answered and noted.

Everything that a site has lies below its own `home`, which no server ever writes to:

    shards/<host>.safetensors   keys/<host>.keys   site_policy.yaml
    jobs.jsonl  ledger.jsonl    what was taken up and what left, over all runs
    runs/<run>/                 this run's ledger, the hosts' states, a line per message

A request is checked completely, then booked, and only then does a host see it. A refusal before
that depends on public facts, costs no epsilon, and counts against `max_refusals`. A request that a
host saw keeps its line in the books, whether the host succeeds or fails. The server gets one and
the same answer to every refusal and every failure; `refusals.jsonl` has the reason.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from securefg.engines.endpoint import Admitted, Endpoint
from securefg.federation.engine import Answer
from securefg.federation.evaluation import LocalScore
from securefg.foundation.errors import ProtocolError
from securefg.privacy.ledger import Mechanism
from securefg.protocol import codec
from securefg.protocol.codec import Body
from securefg.site.books import Booked, SiteBooks
from securefg.site.job import Job
from securefg.site.own_scores import has_own_scores, own_score, write_own_scores
from securefg.site.packets import (
    REPLY,
    REQUEST,
    Begin,
    Opened,
    Packet,
    Route,
    join_blobs,
    open_packet,
    read_begin,
    read_control,
    read_route,
    seal_packet,
    split_blobs,
)
from securefg.site.policy import JobRefused, SitePolicy
from securefg.site.scores import rounded_score
from securefg.site.taking_up import CANNOT, SiteKit, TakenUp, TakingUp

Content = dict[str, Any]
KEPT = 3  # one more than the server keeps: its last checkpoint may not have become whole
MOST_HOSTS = 10_000
FAILED: Final[Content] = {"failed": True}
"""The result of a request that was refused, or that a host failed on; nothing says which."""


class SiteRun:
    """One job at one site. `handle` is called for one packet after the other.

    clock, sleep  by which failures are held back until a multiple of `failure_seconds` after their
                  request arrived: how long a host took to fail could tell of its data
    """

    def __init__(
        self,
        kit: SiteKit,
        job: Job,
        job_id: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._kit, self._job, self._job_id = kit, job, job_id
        self._clock, self._sleep = clock, sleep
        self._books = SiteBooks(kit.home)
        self._folder = kit.home / "runs" / job.run
        self._taking_up = TakingUp(kit, job, self._books)
        self._taken: TakenUp | None = None
        self._refusal: str | None = None
        self._last = 0
        self._num_refused = 0

    @property
    def _policy(self) -> SitePolicy:
        return self._taking_up.policy

    def handle(self, packet: Packet) -> Packet:
        """Answer a request of the server's; whatever else it is, nothing private leaves."""
        arrived = self._clock()
        route = read_route(packet)
        wanted = Route(self._job_id, self._kit.server, self._kit.name, route.number)
        opened = open_packet(self._kit.root, REQUEST, wanted, packet)
        if route.number <= self._last:
            raise ProtocolError(f"request {route.number} came after request {self._last}")
        self._last = route.number
        content, blob = self._perform_packet(opened)
        if FAILED in content.get("results", ()) or content.get("refused") == CANNOT:
            self._hold_back(arrived)
        return seal_packet(self._kit.signer, REPLY, wanted.back(), content, blob)

    def _hold_back(self, arrived: float) -> None:
        """Wait for the next multiple of `failure_seconds` after the request arrived."""
        period = self._policy.failure_seconds
        if period:
            self._sleep(period - (self._clock() - arrived) % period)

    def _perform_packet(self, opened: Opened) -> tuple[Content, Body]:
        try:
            if self._num_refused >= self._policy.max_refusals:
                return _failure_answer(opened)
            if opened.content.get("do") == "begin":
                return self._begin_job(read_begin(opened.content)), b""
            return self._do_control(opened)
        except Exception as error:
            self._count_refusal(error)
            return _failure_answer(opened)

    def _count_refusal(self, error: Exception) -> None:
        """Count a request that no host saw; one too many ends the job at this site."""
        self._num_refused += 1
        self._note_refusal(error, "request")
        if self._num_refused == self._policy.max_refusals:
            ended = JobRefused(
                f"max_refusals: found {self._num_refused} refused requests; expected fewer; the "
                "job is ended at this site"
            )
            self._note_refusal(ended, "job")

    def _note_refusal(self, error: Exception, at: str) -> None:
        reason = f"{type(error).__name__}: {error}"
        try:
            self._books.note_refusal(self._job.run, self._job.submission, reason, at)
        except OSError as fault:  # the answer stays the same
            logging.getLogger(__name__).error(f"refusals.jsonl: {type(fault).__name__}")

    def _begin_job(self, begin: Begin) -> Content:
        """Take up the job, once; a refusal stands."""
        if self._taken is None and self._refusal is None:
            try:
                self._taken = self._taking_up.take_up(begin)
            except Exception as error:
                self._note_refusal(error, "job")
                self._refusal = self._taking_up.answer_fault(error)
        if self._refusal is not None:
            return {"refused": self._refusal}
        return {"ready": True, "standing": self._books.standing(self._job.run)}

    def _do_control(self, opened: Opened) -> tuple[Content, Body]:
        taken = self._taken
        if taken is None:
            raise ProtocolError("asked before the job was taken up")
        control = read_control(opened.content, self._kit.name, taken.endpoints)
        parts = split_blobs(control.lengths, opened.blob)
        chosen = {name: taken.endpoints[name] for name in control.hosts}
        match control.do:
            case "answer":
                blobs = parts * (len(chosen) if len(parts) == 1 else 1)
                return self._host_answers(taken, chosen, blobs)
            case "measure":
                return self._rounded_scores(taken, chosen, parts[0], control.at_end)
            case "save":
                return self._save_states(chosen, control.tag)
            case "load":
                return self._do_each(chosen, lambda e: e.load(self._states_folder(control.tag)))
            case "close":
                return self._do_each(chosen, lambda e: None)
        raise ProtocolError(f"no control {control.do!r:.30}")

    def _host_answers(
        self, taken: TakenUp, chosen: Mapping[str, Endpoint], blobs: list[Body]
    ) -> tuple[Content, Body]:
        """Return every host's answer. All requests of a packet are checked and booked, or none."""
        asked = []
        for (name, endpoint), framed in zip(chosen.items(), blobs, strict=True):
            taken.terms.check(name, framed)
            asked.append(endpoint.admit(framed))
        self._book_requests(taken, asked)
        # From here on hosts see their requests: whatever happens, the lines stay in the books.
        pairs = zip(chosen.values(), asked, strict=True)
        answers = [self._answer_admitted(endpoint, one) for endpoint, one in pairs]
        try:
            self._note_messages(taken, blobs, [answer or Answer(b"", []) for answer in answers])
        except Exception as error:  # a full disk, say: nothing leaves that is not on record
            self._note_refusal(error, "host")
            answers = [None] * len(answers)
        lengths, blob = join_blobs([answer.framed if answer else b"" for answer in answers])
        content = {"results": [_told_of(answer) for answer in answers], "lengths": lengths}
        if None not in answers:  # all failures look alike
            content["standing"] = self._books.standing(self._job.run)
        return content, blob

    def _book_requests(self, taken: TakenUp, asked: list[Admitted]) -> None:
        """Book a line for every request that a host will see, with all that its reply may hold."""
        seen = [one for one in asked if not one.is_stage]
        if not seen:
            return
        releases = [release for one in seen for release in one.releases]
        taken.terms.count(releases)
        lines = [
            Booked(e.receiver, e.kind, e.round, e.step, one.releases)
            for one in seen
            for e in [one.envelope]
        ]
        num_clients = self._job.sizes.num_clients
        self._books.spend(self._policy, _worst_mechanisms(seen), self._job.run, num_clients, lines)
        for line in lines:
            taken.terms.note_answer(line.host, line.round)
        taken.ledger.record(releases)

    def _answer_admitted(self, endpoint: Endpoint, admitted: Admitted) -> Answer | None:
        try:
            return endpoint.perform_admitted(admitted)
        except Exception as error:
            if admitted.is_stage:  # made of keys: no host saw it
                self._count_refusal(error)
            else:
                self._note_refusal(error, "host")
            return None

    def _rounded_scores(
        self, taken: TakenUp, chosen: Mapping[str, Endpoint], framed: Body, at_end: bool
    ) -> tuple[Content, Body]:
        """Return rounded scores, booked, once for the model that the site last trained.

        The site keeps exact scores of the run's last model for itself, whether it tells any or not.
        """
        taken.terms.check_release(framed)
        models = {name: endpoint.admit_release(framed) for name, endpoint in chosen.items()}
        keeps = at_end and not has_own_scores(self._folder)
        results: list[Content] = []
        own_scores: list[LocalScore] = []
        for name, endpoint in chosen.items():
            tells = self._policy.scores and self._books.book_scores(
                self._job.run, taken.terms.round_of(name), at_end, str(endpoint.clients)
            )
            scores: list[LocalScore] = []
            if tells or keeps:
                try:
                    scores = endpoint.score(models[name], at_end)
                    own_scores += scores
                except Exception as error:
                    self._note_refusal(error, "host")
                    if tells:
                        results.append(FAILED)
                        continue
            results.append({"scores": [rounded_score(score) for score in scores if tells]})
        if keeps:
            alerts = self._job.parsed().training.alerts
            write_own_scores(self._folder, [own_score(score, alerts) for score in own_scores])
        return {"results": results, "lengths": [0] * len(results)}, b""

    def _save_states(self, chosen: Mapping[str, Endpoint], tag: str) -> tuple[Content, Body]:
        done = self._do_each(chosen, lambda endpoint: endpoint.save(self._states_folder(tag)))
        for old in sorted((self._folder / "states").iterdir())[:-KEPT]:
            shutil.rmtree(old)
        return done

    def _do_each(
        self, chosen: Mapping[str, Endpoint], work: Callable[[Endpoint], None]
    ) -> tuple[Content, Body]:
        for endpoint in chosen.values():
            work(endpoint)
        return {"results": [{"done": True} for _ in chosen], "lengths": [0] * len(chosen)}, b""

    def _states_folder(self, tag: str) -> Path:
        if not tag:
            raise ProtocolError("a checkpoint without a name")
        return self._folder / "states" / tag

    def _note_messages(self, taken: TakenUp, blobs: list[Body], answers: list[Answer]) -> None:
        """Add messages to the site's record, and a line per host: kinds and sizes, no values."""
        lines = []
        for framed, answer in zip(blobs, answers, strict=True):
            taken.record.add(framed, answer)
            came = codec.unframe(framed)
            left = codec.unframe(answer.framed).kind if answer.framed else "nothing"
            lines.append(
                {
                    "round": came.round,
                    "step": came.step,
                    "host": came.receiver,
                    "came": came.kind,
                    "bytes_in": len(framed),
                    "left": left,
                    "bytes_out": len(answer.framed),
                    "rules": {r.mechanism.field: r.mechanism.rule for r in answer.releases},
                }
            )
        with (self._folder / "messages.jsonl").open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


def _failure_answer(opened: Opened) -> tuple[Content, Body]:
    """Return the one answer to all that goes wrong, for every host that the request names."""
    hosts = opened.content.get("hosts")
    count = len(hosts) if isinstance(hosts, list) and 0 < len(hosts) <= MOST_HOSTS else 1
    return {"results": [FAILED] * count, "lengths": [0] * count}, b""


def _told_of(answer: Answer | None) -> Content:
    if answer is None:
        return FAILED
    return {"releases": [release.to_json() for release in answer.releases]}


def _worst_mechanisms(asked: list[Admitted]) -> dict[Mechanism, int]:
    """Return per mechanism the most that one host's clients release at once."""
    worst: Counter[Mechanism] = Counter()
    for one in asked:
        worst |= Counter(release.mechanism for release in one.releases)
    return worst
