"""A site's side of a job, all but FLARE itself: its hosts, its policy, its books.

Everything that a site has lies below its own `home`, which no server ever writes to:

    shards/<host>.safetensors   keys/<host>.keys   site_policy.yaml
    jobs.jsonl  ledger.jsonl    what was taken up and what left, over all runs
    runs/<run>/                 this run's ledger, the hosts' states, a line per message
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from securefg.data.shard import Shard, load_shards
from securefg.engines.endpoint import Endpoint
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
from securefg.flare.site_ledger import SiteBooks
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
from securefg.protocol import codec
from securefg.protocol.codec import Body, Clients
from securefg.run.device import choose_device

Content = dict[str, Any]
KEPT = 3  # one more than the server keeps: its last checkpoint may not have become whole


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
    """One job at one site. `handle` is called for one packet after the other."""

    def __init__(self, kit: SiteKit, job: Job, job_id: str) -> None:
        self._kit, self._job, self._job_id = kit, job, job_id
        self._books = SiteBooks(kit.home)
        self._policy = SitePolicy()
        self._terms: Terms | None = None
        self._ledger = Ledger(job.sizes.num_clients)
        self._endpoints: dict[str, Endpoint] | None = None
        self._refusal: str | None = None
        self._record: SiteRecord | None = None
        self._last = 0

    def handle(self, packet: Packet) -> Packet:
        """Answer a request of the server's; whatever else it is, nothing private leaves."""
        route = read_route(packet)
        wanted = Route(self._job_id, self._kit.server, self._kit.name, route.number)
        opened = open_packet(self._kit.root, REQUEST, wanted, packet)
        if route.number <= self._last:
            raise ProtocolError(f"request {route.number} came after request {self._last}")
        self._last = route.number
        content, blob = self._perform(opened)
        return seal(self._kit.signer, REPLY, wanted.back(), content, blob)

    def _perform(self, opened: Opened) -> tuple[Content, Body]:
        try:
            if opened.content.get("do") == "begin":
                return self._begin(read_begin(opened.content)), b""
            return self._do(opened)
        except Exception as error:
            self._note_refusal(error)
            return {"breach": _kind(error), "reason": self._told(error)}, b""

    def _told(self, error: Exception) -> str:
        """What the server hears of a fault: its kind alone where the text is not written for it,
        since FLARE would pass it on; never where the site keeps its files."""
        if not isinstance(error, (*BREACHES, ConfigError)):
            return f"{type(error).__name__} at the site"
        return str(error).replace(str(self._kit.home), "its home")

    def _note_refusal(self, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"
        self._books.note_refusal(self._job.run, self._job.submission, reason)

    # ------------------------------------------------------------------------------- taking up

    def _begin(self, begin: Begin) -> Content:
        """Check all that can be checked, then build the hosts. A refusal stands."""
        if self._endpoints is None and self._refusal is None:
            try:
                self._take_up(begin)
            except Exception as error:
                self._note_refusal(error)
                self._refusal = self._told(error)
        return {"refused": self._refusal} if self._refusal is not None else {"ready": True}

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
        before = self._books.booked(job.run)
        self._books.check(self._policy, _still_to_come(planned_profile(policy, planned), before))
        masked = config.privacy.secure_aggregation is not None
        roster = read_roster(self._kit.roster, self._kit.root, job.sites) if masked else []
        self._books.take_up(job, self._policy.submissions)
        self._terms = Terms(job, hosts, before, self._policy.submissions)
        fresh_noise = masked or (
            policy.protects and any(r.name != "plain" for r in policy.rules.values())
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
        """Every host's answer; booked before any leaves, and none leaves where one may not."""
        assert self._terms is not None
        for name, framed in zip(chosen, blobs, strict=True):
            self._terms.check(name, framed)
        results: list[Content] = []
        answers: list[Answer] = []
        for (name, endpoint), framed in zip(chosen.items(), blobs, strict=True):
            answer = self._answer(name, endpoint, framed)
            answers.append(answer if isinstance(answer, Answer) else Answer(b"", []))
            results.append(
                {"releases": [r.to_json() for r in answer.releases]}
                if isinstance(answer, Answer)
                else {"dropped": answer}
            )
        releases = [release for answer in answers for release in answer.releases]
        self._terms.count(answers)
        self._books.spend(
            self._policy, _worst(answers), self._job.run, self._job.sizes.num_clients, releases
        )
        self._ledger.record(releases)
        self._note(blobs, answers)
        lengths, blob = join([answer.framed for answer in answers])
        return {"results": results, "lengths": lengths}, blob

    def _answer(self, name: str, endpoint: Endpoint, framed: Body) -> Answer | str:
        try:
            return endpoint.answer(framed)
        except BREACHES:
            raise
        except Exception as error:
            return type(error).__name__

    def _scores(self, chosen: dict[str, Endpoint], framed: Body) -> tuple[Content, Body]:
        """Rounded, booked, and once for what the site last trained; else none."""
        results: list[Content] = []
        for name, endpoint in chosen.items():
            told: list[dict[str, Any]] = []
            if self._policy.scores and self._first_time(name, endpoint, framed):
                told = [told_of(score) for score in endpoint.measure(framed)]
            results.append({"scores": told})
        return {"results": results, "lengths": [0] * len(results)}, b""

    def _first_time(self, name: str, endpoint: Endpoint, framed: Body) -> bool:
        assert self._terms is not None
        at_end = self._terms.check_release(framed)
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


def _kind(error: Exception) -> str:
    return type(error).__name__ if isinstance(error, BREACHES) else ProtocolError.__name__


def _still_to_come(planned: dict[Mechanism, int], before: Ledger | None) -> dict[Mechanism, int]:
    """Of the plan, what this run has not yet released in earlier submissions."""
    done = {m: int(before.counts(m).max()) for m in before.mechanisms} if before else {}
    return {m: max(0, count - done.get(m, 0)) for m, count in planned.items()}


def _worst(answers: list[Answer]) -> dict[Mechanism, int]:
    """Per mechanism the most that one host's clients release at once."""
    worst: Counter[Mechanism] = Counter()
    for answer in answers:
        worst |= Counter(release.mechanism for release in answer.releases)
    return worst
