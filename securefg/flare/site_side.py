"""A site's side of a job, all but FLARE itself: its hosts, its policy, its books.

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from securefg.data.shard import Shard, load_shards
from securefg.engines.admission import RequestPlan
from securefg.engines.endpoint import Admitted, Endpoint
from securefg.engines.hosting import HostSpec, build_endpoint, require_memory
from securefg.federation.engine import Answer
from securefg.flare.certificates import Root, Signer
from securefg.flare.controls import Begin, read_begin, read_control
from securefg.flare.deployed import check_planned, read_plan
from securefg.flare.job import Job
from securefg.flare.packets import (
    REPLY,
    REQUEST,
    Opened,
    Packet,
    Route,
    join,
    open_packet,
    read_route,
    seal,
    split,
)
from securefg.flare.remembered import check_agreed, check_ledger
from securefg.flare.roster import read_roster
from securefg.flare.scores import told as told_of
from securefg.flare.site_ledger import Booked, SiteBooks
from securefg.flare.site_policy import (
    POLICY_FILE,
    JobRefused,
    SitePolicy,
    load_policy,
    planned_profile,
)
from securefg.flare.site_record import SiteRecord
from securefg.flare.terms import Terms
from securefg.foundation.errors import (
    BREACHES,
    ConfigError,
    DataError,
    ProtocolError,
)
from securefg.foundation.json_text import read_json
from securefg.methods.registry import get_method
from securefg.privacy.ledger import Ledger, Mechanism, ledger_file
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol import codec
from securefg.protocol.codec import Body, Clients
from securefg.run.device import choose_device

Content = dict[str, Any]
KEPT = 3  # one more than the server keeps: its last checkpoint may not have become whole
MOST_HOSTS = 10_000
FAILED: Final[Content] = {"failed": True}
"""The result of a request that was refused, or that a host failed on; nothing says which."""
CANNOT: Final = "the site cannot take part; its own refusals.jsonl says why"


@dataclass(frozen=True)
class SiteKit:
    """What a site was given at provisioning, and where it keeps its own."""

    name: str
    server: str
    signer: Signer
    root: Root
    home: Path
    roster: Path
    plan: dict[str, Any]

    @classmethod
    def load(cls, startup: Path, local: Path) -> SiteKit:
        """From a FLARE workspace: certificates in `startup`, the site's own settings in `local`."""
        signer = Signer.load(startup)
        facts = read_json(startup / "fed_client.json")
        own = local / "securefg"
        home = read_json(own / "site.json")["home"]
        return cls(
            name=signer.name,
            server=facts["servers"][0]["identity"],
            signer=signer,
            root=Root.load(startup),
            home=(own / home).resolve(),
            roster=own / "roster.json",
            plan=read_plan(local.parent),
        )


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
        self._policy = SitePolicy()
        self._terms: Terms | None = None
        self._ledger = Ledger(job.sizes.num_clients)
        self._endpoints: dict[str, Endpoint] | None = None
        self._refusal: str | None = None
        self._record: SiteRecord | None = None
        self._last = 0
        self._num_refused = 0
        self._has_read_data = False

    def handle(self, packet: Packet) -> Packet:
        """Answer a request of the server's; whatever else it is, nothing private leaves."""
        arrived = self._clock()
        route = read_route(packet)
        wanted = Route(self._job_id, self._kit.server, self._kit.name, route.number)
        opened = open_packet(self._kit.root, REQUEST, wanted, packet)
        if route.number <= self._last:
            raise ProtocolError(f"request {route.number} came after request {self._last}")
        self._last = route.number
        content, blob = self._perform(opened)
        if FAILED in content.get("results", ()) or content.get("refused") == CANNOT:
            self._hold_back(arrived)
        return seal(self._kit.signer, REPLY, wanted.back(), content, blob)

    def _hold_back(self, arrived: float) -> None:
        """Wait for the next multiple of `failure_seconds` after the request arrived."""
        period = self._policy.failure_seconds
        if period:
            self._sleep(period - (self._clock() - arrived) % period)

    def _perform(self, opened: Opened) -> tuple[Content, Body]:
        try:
            if self._num_refused >= self._policy.max_refusals:
                return _failure(opened)
            if opened.content.get("do") == "begin":
                return self._begin(read_begin(opened.content)), b""
            return self._do(opened)
        except Exception as error:
            self._refuse(error)
            return _failure(opened)

    def _refuse(self, error: Exception) -> None:
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

    # ------------------------------------------------------------------------------- taking up

    def _begin(self, begin: Begin) -> Content:
        """Check all that can be checked, then build the hosts. A refusal stands."""
        if self._endpoints is None and self._refusal is None:
            try:
                self._take_up(begin)
            except Exception as error:
                self._note_refusal(error, "job")
                self._refusal = self._told(error)
        return {"refused": self._refusal} if self._refusal is not None else {"ready": True}

    def _told(self, error: Exception) -> str:
        """What the server hears of a job that is not taken up: what its config, its plan or the
        books lack, and never where the site keeps its files. A fault that the site's data may have
        caused is told in one sentence for all."""
        if self._has_read_data and not isinstance(error, BREACHES):
            return CANNOT
        if not isinstance(error, (*BREACHES, ConfigError)):
            return CANNOT
        return str(error).replace(str(self._kit.home), "its home")

    def _take_up(self, begin: Begin) -> None:
        job, config = self._job, self._job.parsed()
        if begin.digest != job.digest:
            raise JobRefused("the server runs another job than the one that was deployed here")
        check_planned(self._kit.plan, job.to_json())
        hosts = job.sites.get(self._kit.name)
        if not hosts:
            raise JobRefused("the job has no host at this site")
        self._policy = load_policy(self._kit.home / POLICY_FILE)
        policy, planned = job.policy(), job.planned()
        self._policy.check(config, policy, planned)
        requests = self._request_plan(policy, planned)
        before = self._books.booked(job.run)
        self._books.check(self._policy, _still_to_come(planned_profile(policy, planned), before))
        masked = config.privacy.secure_aggregation is not None
        roster = read_roster(self._kit.roster, self._kit.root, job.sites) if masked else []
        self._books.take_up(job, self._policy.submissions)
        self._terms = Terms(job, hosts, before, self._policy.submissions)
        fresh_noise = masked or (
            policy.protects and any(not r.is_bare for r in policy.rules.values())
        )
        ledger_path, booked = self._folder / "ledger.jsonl", self._books.released(job.run)
        self._folder.mkdir(parents=True, exist_ok=True)
        check_ledger(ledger_path, booked)
        if fresh_noise:
            ledger_file(ledger_path).replace([release.to_json() for release in booked])
        # The site's books are on the disk before a reply leaves, and have all that this one has.
        self._ledger = Ledger.resume(
            ledger_path, job.sizes.num_clients, begin.after_round, fresh_noise, sync=False
        )
        torch.set_num_threads(config.engine.threads)
        self._has_read_data = True
        endpoints = {
            name: build_endpoint(
                HostSpec(
                    name=name,
                    clients=clients,
                    num_clients=job.sizes.num_clients,
                    config=config,
                    policy=policy,
                    device=str(choose_device(config.device)),
                    ledger_path=ledger_path,
                    attempt=begin.attempt,
                    requests=requests,
                    identity_file=self._kit.home / "keys" / f"{name}.keys" if masked else None,
                    roster=tuple(roster),
                    memory_file=self._folder / "memories" / f"{name}.jsonl" if masked else None,
                ),
                self._shards(name, clients),
            )
            for name, clients in hosts.items()
        }
        for endpoint in endpoints.values():
            require_memory(endpoint, booked)
            check_agreed(endpoint, booked)
        self._endpoints = endpoints
        every = config.output.transcript_every
        self._record = SiteRecord(
            self._folder,
            get_method(config.method.name).messages,
            lambda round: every > 0 and (round == 1 or round % every == 0),
            begin.attempt,
        )

    def _request_plan(self, policy: Policy, planned: list[PlannedRelease]) -> RequestPlan:
        """What requests may hold; raises for a method whose requests cannot be checked."""
        config, public = self._job.parsed(), self._job.public(torch.device("cpu"))
        method = get_method(config.method.name)
        lacking = method.unbounded(config.method, public)
        if lacking:
            raise JobRefused(
                f"method {method.name}: found no bounds on {', '.join(lacking)}; expected "
                "bounds= on every field that a server sends (docs/own_method.md)"
            )
        if not method.has_known_replies:
            raise JobRefused(
                f"method {method.name}: found no replies; expected METHOD.replies, the reply that "
                "every request brings (docs/own_method.md)"
            )
        settled_by = (public, policy, planned)
        return RequestPlan.of(method, config.method, config.training, *settled_by)

    def _shards(self, host: str, clients: Clients) -> tuple[Shard, ...]:
        path = self._kit.home / "shards" / f"{host}.safetensors"
        shards = load_shards(path)
        if [shard.client for shard in shards] != clients.numbers():
            raise DataError(f"{path.name}: not the shards of the clients {clients}")
        found = {(s.graph.num_features, s.graph.num_classes) for s in shards}
        wanted = (self._job.sizes.num_features, self._job.sizes.num_classes)
        if found != {wanted}:
            raise DataError(f"{path.name}: other features or classes than the job's {wanted}")
        return shards

    @property
    def _folder(self) -> Path:
        return self._kit.home / "runs" / self._job.run

    # ------------------------------------------------------------------------------- answering

    def _do(self, opened: Opened) -> tuple[Content, Body]:
        if self._endpoints is None:
            raise ProtocolError("asked before the job was taken up")
        control = read_control(opened.content, self._kit.name, self._endpoints)
        parts = split(control.lengths, opened.blob)
        chosen = {name: self._endpoints[name] for name in control.hosts}
        match control.do:
            case "answer":
                return self._answers(chosen, parts * (len(chosen) if len(parts) == 1 else 1))
            case "measure":
                return self._scores(chosen, parts[0])
            case "save":
                return self._save(chosen, control.tag)
            case "load":
                return self._each(chosen, lambda e: e.load(self._states(control.tag)))
            case "close":
                return self._each(chosen, lambda e: None)
        raise ProtocolError(f"no control {control.do!r:.30}")

    def _answers(self, chosen: dict[str, Endpoint], blobs: list[Body]) -> tuple[Content, Body]:
        """Every host's answer. All requests of a packet are checked and booked, or none is."""
        assert self._terms is not None
        asked = []
        for (name, endpoint), framed in zip(chosen.items(), blobs, strict=True):
            self._terms.check(name, framed)
            asked.append(endpoint.admit(framed))
        self._book(asked)
        # From here on hosts see their requests: whatever happens, the lines stay in the books.
        pairs = zip(chosen.values(), asked, strict=True)
        answers = [self._answer(endpoint, one) for endpoint, one in pairs]
        try:
            self._note(blobs, [answer or Answer(b"", []) for answer in answers])
        except Exception as error:  # a full disk, say: nothing leaves that is not on record
            self._note_refusal(error, "host")
            answers = [None] * len(answers)
        lengths, blob = join([answer.framed if answer else b"" for answer in answers])
        results = [_told_of(answer) for answer in answers]
        return {"results": results, "lengths": lengths}, blob

    def _book(self, asked: list[Admitted]) -> None:
        """A line for every request that a host will see, with all that its reply may hold."""
        assert self._terms is not None
        seen = [one for one in asked if not one.is_stage]
        if not seen:
            return
        releases = [release for one in seen for release in one.releases]
        self._terms.count(releases)
        lines = [
            Booked(e.receiver, e.kind, e.round, e.step, one.releases)
            for one in seen
            for e in [one.envelope]
        ]
        num_clients = self._job.sizes.num_clients
        self._books.spend(self._policy, _worst(seen), self._job.run, num_clients, lines)
        for line in lines:
            self._terms.note_answer(line.host, line.round)
        self._ledger.record(releases)

    def _answer(self, endpoint: Endpoint, admitted: Admitted) -> Answer | None:
        try:
            return endpoint.perform(admitted)
        except Exception as error:
            if admitted.is_stage:  # made of keys: no host saw it
                self._refuse(error)
            else:
                self._note_refusal(error, "host")
            return None

    def _scores(self, chosen: dict[str, Endpoint], framed: Body) -> tuple[Content, Body]:
        """Rounded, booked, and once for what the site last trained; else none."""
        assert self._terms is not None
        self._terms.check_release(framed)
        models = {name: endpoint.admit_release(framed) for name, endpoint in chosen.items()}
        results: list[Content] = []
        for name, endpoint in chosen.items():
            release, at_end = models[name]
            told: list[dict[str, Any]] = []
            if self._policy.scores and self._first_time(name, endpoint, at_end):
                try:
                    told = [told_of(score) for score in endpoint.score(release, at_end)]
                except Exception as error:
                    self._note_refusal(error, "host")
                    results.append(FAILED)
                    continue
            results.append({"scores": told})
        return {"results": results, "lengths": [0] * len(results)}, b""

    def _first_time(self, name: str, endpoint: Endpoint, at_end: bool) -> bool:
        assert self._terms is not None
        round, clients = self._terms.round_of(name), str(endpoint.clients)
        return self._books.book_scores(self._job.run, round, at_end, clients)

    def _save(self, chosen: dict[str, Endpoint], tag: str) -> tuple[Content, Body]:
        done = self._each(chosen, lambda endpoint: endpoint.save(self._states(tag)))
        for old in sorted((self._folder / "states").iterdir())[:-KEPT]:
            shutil.rmtree(old)
        return done

    def _each(
        self, chosen: dict[str, Endpoint], work: Callable[[Endpoint], None]
    ) -> tuple[Content, Body]:
        for endpoint in chosen.values():
            work(endpoint)
        return {"results": [{"done": True} for _ in chosen], "lengths": [0] * len(chosen)}, b""

    def _states(self, tag: str) -> Path:
        if not tag:
            raise ProtocolError("a checkpoint without a name")
        return self._folder / "states" / tag

    def _note(self, blobs: list[Body], answers: list[Answer]) -> None:
        """A line per message and host in the site's own record: kinds and sizes, no values."""
        lines = []
        for framed, answer in zip(blobs, answers, strict=True):
            if self._record is not None:
                self._record.add(framed, answer)
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


def _failure(opened: Opened) -> tuple[Content, Body]:
    """The one answer to all that goes wrong, for every host that the request names."""
    hosts = opened.content.get("hosts")
    count = len(hosts) if isinstance(hosts, list) and 0 < len(hosts) <= MOST_HOSTS else 1
    return {"results": [FAILED] * count, "lengths": [0] * count}, b""


def _told_of(answer: Answer | None) -> Content:
    if answer is None:
        return FAILED
    return {"releases": [release.to_json() for release in answer.releases]}


def _still_to_come(planned: dict[Mechanism, int], before: Ledger | None) -> dict[Mechanism, int]:
    """Of the plan, what this run has not yet released in earlier submissions."""
    done = {m: int(before.counts(m).max()) for m in before.mechanisms} if before else {}
    return {m: max(0, count - done.get(m, 0)) for m, count in planned.items()}


def _worst(asked: list[Admitted]) -> dict[Mechanism, int]:
    """Per mechanism the most that one host's clients release at once."""
    worst: Counter[Mechanism] = Counter()
    for one in asked:
        worst |= Counter(release.mechanism for release in one.releases)
    return worst
