"""Taking up a job at a site: every check that needs no request, and then the hosts.

The checks run from the cheapest and most public to those that read the site's data. Books, the
run's ledger and the memories of masked sessions must fit together. A client's memory is written
first (`hosting.require_memory`), then the site's books, then the run's ledger. A later file with
more in it than an earlier one shows that a file was lost or put back, and the site takes no part
until somebody has looked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from securefg.data.shard import Shard, load_shards
from securefg.engines.admission import RequestPlan
from securefg.engines.endpoint import Endpoint
from securefg.engines.hosting import HostSpec, build_endpoint, require_memory
from securefg.foundation.errors import BREACHES, BooksDamaged, ConfigError, DataError
from securefg.foundation.files import make_private_folder
from securefg.methods.registry import get_method
from securefg.privacy.ledger import Ledger, Mechanism, Release, ledger_file, read_ledger
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Clients
from securefg.runs.device import choose_device
from securefg.site.books import SiteBooks
from securefg.site.certificates import Root, Signer
from securefg.site.cohorts import clients_by_organisation
from securefg.site.job import Job
from securefg.site.packets import Begin
from securefg.site.plan import check_planned
from securefg.site.policy import (
    POLICY_FILE,
    JobRefused,
    SitePolicy,
    load_policy,
    planned_profile,
)
from securefg.site.record import SiteRecord
from securefg.site.roster import read_roster
from securefg.site.terms import Terms

CANNOT: Final = "the site cannot take part; its own refusals.jsonl says why"


@dataclass(frozen=True)
class SiteKit:
    """What a site was given at provisioning, and where it keeps its own files.

    home    the folder below which everything of the site's own lies
    roster  the file with every client's masking key
    plan    the plan that the site reviewed, as JSON has it
    """

    name: str
    server: str
    signer: Signer
    root: Root
    home: Path
    roster: Path
    plan: dict[str, Any]


@dataclass(frozen=True)
class TakenUp:
    """A job that a site takes part in: its terms, its hosts, and where the site writes it down."""

    terms: Terms
    ledger: Ledger
    endpoints: Mapping[str, Endpoint]
    record: SiteRecord


class TakingUp:
    """The checks of one job at one site.

    policy  the site's floor; a strict one until the site's own has been read
    """

    def __init__(self, kit: SiteKit, job: Job, books: SiteBooks) -> None:
        self._kit, self._job, self._books = kit, job, books
        self._folder = kit.home / "runs" / job.run
        self._ledger_path = self._folder / "ledger.jsonl"
        self._has_read_data = False
        self.policy = SitePolicy()

    def take_up(self, begin: Begin) -> TakenUp:
        """Check all that can be checked, then build the hosts. Raise the first fault."""
        job, config = self._job, self._job.parsed()
        hosts = self._check_plan(begin)
        self.policy = load_policy(self._kit.home / POLICY_FILE)
        policy, planned = job.policy(), job.planned()
        self.policy.check(config, policy, planned, clients_by_organisation(job.sites))
        requests = self._request_plan(policy, planned)
        self._books.check_corrections(self._kit.name, self._kit.root)
        before = self._books.booked(job.run)
        self._books.check(self.policy, _still_to_come(planned_profile(policy, planned), before))
        masked = config.privacy.secure_aggregation is not None
        roster = read_roster(self._kit.roster, self._kit.root, job.sites) if masked else []
        self._books.take_up(job, self.policy.submissions)
        terms = Terms(job, hosts, before, self.policy.submissions)
        booked = self._books.released(job.run)
        ledger = self._resume_ledger(booked, policy, masked, begin.after_round)
        torch.set_num_threads(config.engine.threads)
        self._has_read_data = True
        endpoints = {
            spec.name: build_endpoint(spec, self._host_shards(spec.name, spec.clients))
            for spec in self._host_specs(hosts, policy, requests, roster, begin.attempt)
        }
        for endpoint in endpoints.values():
            require_memory(endpoint, booked)
            _check_agreed(endpoint, booked)
        messages, every = get_method(config.method.name).messages, config.output.transcript_every
        record = SiteRecord(self._folder, messages, every, begin.attempt)
        return TakenUp(terms, ledger, endpoints, record)

    def answer_fault(self, error: Exception) -> str:
        """Return what the server hears of a job that is not taken up.

        The answer says what the config, the plan or the books lack, and never where the site keeps
        its files. A fault that the site's data may have caused gets one sentence for all.
        """
        if self._has_read_data and not isinstance(error, BREACHES):
            return CANNOT
        if not isinstance(error, (*BREACHES, ConfigError)):
            return CANNOT
        return str(error).replace(str(self._kit.home), "its home")

    def _check_plan(self, begin: Begin) -> Mapping[str, Clients]:
        """Return this site's hosts. Raise unless the job is the deployed and the planned one."""
        if begin.digest != self._job.digest:
            raise JobRefused("the server runs another job than the one that was deployed here")
        check_planned(self._kit.plan, self._job.to_json())
        hosts = self._job.sites.get(self._kit.name)
        if not hosts:
            raise JobRefused("the job has no host at this site")
        return hosts

    def _request_plan(self, policy: Policy, planned: list[PlannedRelease]) -> RequestPlan:
        """Return what requests may hold. Raise for a method whose requests cannot be checked."""
        config, public = self._job.parsed(), self._job.public(torch.device("cpu"))
        method = get_method(config.method.name)
        lacking = method.unbounded(config.method, public)
        if lacking:
            raise JobRefused(
                f"method {method.name}: found no bounds on {', '.join(lacking)}; expected "
                "bounds= on every field that a server sends (docs/howto/own_method.md)"
            )
        if not method.has_known_replies:
            raise JobRefused(
                f"method {method.name}: found no replies; expected METHOD.replies, the reply that "
                "every request brings (docs/howto/own_method.md)"
            )
        settled_by = (public, policy, planned)
        return RequestPlan.of(method, config.method, config.training, *settled_by)

    def _resume_ledger(
        self, booked: list[Release], policy: Policy, masked: bool, after_round: int
    ) -> Ledger:
        """Return the run's own ledger. Raise where it has releases that the books do not have."""
        fresh_noise = masked or (
            policy.protects and any(not r.is_bare for r in policy.rules.values())
        )
        make_private_folder(self._folder)
        _check_ledger(self._ledger_path, booked)
        if fresh_noise:
            ledger_file(self._ledger_path).replace([release.to_json() for release in booked])
        # The site's books are on the disk before a reply leaves, and have all that this one has.
        return Ledger.resume(
            self._ledger_path, self._job.sizes.num_clients, after_round, fresh_noise, sync=False
        )

    def _host_specs(
        self,
        hosts: Mapping[str, Clients],
        policy: Policy,
        requests: RequestPlan,
        roster: list[bytes],
        attempt: int,
    ) -> list[HostSpec]:
        config, home = self._job.parsed(), self._kit.home
        masked = config.privacy.secure_aggregation is not None
        return [
            HostSpec(
                name=name,
                clients=clients,
                num_clients=self._job.sizes.num_clients,
                config=config,
                policy=policy,
                device=str(choose_device(config.device)),
                ledger_path=self._ledger_path,
                attempt=attempt,
                requests=requests,
                identity_file=home / "keys" / f"{name}.keys" if masked else None,
                roster=tuple(roster),
                memory_file=self._folder / "memories" / f"{name}.jsonl" if masked else None,
            )
            for name, clients in hosts.items()
        ]

    def _host_shards(self, host: str, clients: Clients) -> tuple[Shard, ...]:
        path = self._kit.home / "shards" / f"{host}.safetensors"
        shards = load_shards(path)
        if [shard.client for shard in shards] != clients.numbers():
            raise DataError(f"{path.name}: not the shards of the clients {clients}")
        found = {(s.graph.num_features, s.graph.num_classes) for s in shards}
        wanted = (self._job.sizes.num_features, self._job.sizes.num_classes)
        if found != {wanted}:
            raise DataError(f"{path.name}: other features or classes than the job's {wanted}")
        return shards


def _still_to_come(planned: dict[Mechanism, int], before: Ledger | None) -> dict[Mechanism, int]:
    """Return what the plan has and this run has not yet released in earlier submissions."""
    done = {m: int(before.counts(m).max()) for m in before.mechanisms} if before else {}
    return {m: max(0, count - done.get(m, 0)) for m, count in planned.items()}


def _check_ledger(path: Path, booked: Iterable[Release]) -> None:
    """Raise where the run's own ledger has a release that the books do not have."""
    extra = Counter(map(_release_text, read_ledger(path))) - Counter(map(_release_text, booked))
    if extra:
        raise BooksDamaged(
            f"{path}: {extra.total()} releases that the site's books do not have: the books were "
            "lost or put back; put back those that fit"
        )


def _check_agreed(endpoint: Endpoint, booked: Iterable[Release]) -> None:
    """Raise where a host's clients agreed to open an upload that the books do not have."""
    if endpoint.secure is None:
        return
    kinds = {message.__name__: message.kind for message in endpoint.method.every_message}
    left = {
        (release.round, kinds[release.mechanism.field.partition(".")[0]], client)
        for release in booked
        for client in release.clients.numbers()
    }
    for round, kind, client in sorted(endpoint.secure.memory.agreed_to() - left):
        raise BooksDamaged(
            f"ledger.jsonl does not have {kind} of client {client} in round {round}, which "
            f"{endpoint.name} agreed to have opened: the books were lost or put back"
        )


def _release_text(release: Release) -> str:
    return json.dumps(release.to_json(), sort_keys=True)
