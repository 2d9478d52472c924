"""A deployed run audited at one site: its own record, against its own shards and its own books.

Nothing but the site's own data is there, so what is asked is what its uploads tell the server, and
whether they left as they were planned and booked. What other clients, or whoever gets the model,
can learn of it is not asked here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from audits.answer.build import facts_of_config
from audits.answer.model import RunFacts
from audits.books import Said, as_planned, compare_crossed, read_headers, worst_of
from audits.control_runs import is_defended
from audits.findings.record import Finding, Verdict
from audits.mechanisms.audit import audit_experiment
from audits.plan import Plan
from audits.promises import Checks, mechanism_finding
from audits.recorded import recorded_noise
from audits.run import Audit, Auditing, Told
from audits.truth import Truth
from securefg.data.graph import Graph, Split
from securefg.data.partition import Partition
from securefg.data.shard import Shard, load_shards
from securefg.data.statistics import statistics
from securefg.flare.kits import load_site_kit
from securefg.foundation.errors import RunFolderError
from securefg.foundation.lock import owned
from securefg.methods.registry import get_method
from securefg.privacy.accountants import claim
from securefg.privacy.ledger import Ledger, Release
from securefg.protocol.messages import Message
from securefg.protocol.transcript import (
    broken_link,
    last_link,
    read_transcript,
    unfinished_after,
)
from securefg.runs.assembly import Experiment
from securefg.runs.folder import RunFolder
from securefg.settings.privacy import Unit
from securefg.site.books import SiteBooks
from securefg.site.findings import SiteFindings
from securefg.site.job import Job
from securefg.site.plan import plan_path
from securefg.site.record import TRANSCRIPT


@dataclass(frozen=True)
class SiteTruth(Truth):
    """A run as one site knows it; its claims follow from its own books."""

    releases: tuple[Release, ...] = ()

    def claimed(self, unit: Unit) -> float | None:
        """Return the epsilon that the site's own books give per unit."""
        policy, ledger = self.experiment.policy, Ledger(self.experiment.partition.num_clients)
        ledger.record(list(self.releases))
        found = claim(ledger.profiles(), unit, policy.delta, population=policy.population)
        return found.epsilon if math.isfinite(found.epsilon) else None

    @cached_property
    def release(self) -> Message | None:
        """A site is asked for uploads; the model at the end is not among what it keeps."""
        return None

    @cached_property
    def attempts(self) -> int:
        """Return how often the run was started or resumed."""
        return max((r.attempt for r in read_transcript(self.folder.transcript)), default=1)


def audit_site(
    kit: Path, plan: Plan, report_progress: Told = lambda what, done, total: None
) -> Audit:
    """Findings go to `runs/<run>/audit` below the site's home, and stay there."""
    truth = site_truth(kit)
    about = {
        "name": truth.config.name,
        "config_hash": truth.config.hash,
        "method": truth.method_name,
        "record": last_link(truth.folder.transcript),
    }
    asked = replace(plan, adversaries=plan.adversaries or ("server",))
    with owned(truth.folder.path):
        torch.set_num_threads(1)
        return Auditing(
            truth, asked, truth.folder.path / "audit", about, report_progress
        ).carry_out(
            _site_checks(truth, plan), lambda rounds: None, is_defended(truth.experiment.policy)
        )


def site_findings(kit: Path, findings: Sequence[Finding]) -> SiteFindings:
    """What the site would share: what was found, about which run, by which record."""
    own = load_site_kit(kit)
    job = Job.read(plan_path(kit))
    record = last_link(own.home / "runs" / job.run / TRANSCRIPT)
    return SiteFindings(own.name, job.run, job.parsed().hash, record, tuple(findings))


def site_facts(kit: Path) -> RunFacts:
    """Return what the answer of a site's audit says of the run: public settings, no scores."""
    job = Job.read(plan_path(kit))
    facts = facts_of_config(job.parsed(), str(load_site_kit(kit).home / "runs" / job.run))
    return facts.model_copy(update={"clients": sum(map(len, job.hosts.values()))})


def site_truth(kit: Path) -> SiteTruth:
    """Return the truth that a site can audit: its own data and its own record."""
    site_kit = load_site_kit(kit)
    job = Job.read(plan_path(kit))
    folder = RunFolder(site_kit.home / "runs" / job.run)
    if not (folder.path / TRANSCRIPT / "messages.bin").is_file():
        raise RunFolderError(
            f"{folder.path}: no record of {job.run} here; it is made while the site takes part"
        )
    shards = [
        shard
        for host in job.sites.get(site_kit.name, {})
        for shard in load_shards(site_kit.home / "shards" / f"{host}.safetensors")
    ]
    books = SiteBooks(site_kit.home)
    return SiteTruth(folder, site_experiment(job, shards), tuple(books.released(job.run)))


def site_experiment(job: Job, own_shards: list[Shard]) -> Experiment:
    """This site's nodes at their places in the whole, and nothing at others' places; of what the
    method entitles its server to, a site has nothing."""
    config, union, sizes = job.parsed(), _place_nodes(own_shards, job), job.sizes
    held = {shard.client: shard for shard in own_shards}
    nobody = torch.zeros(0, dtype=torch.int64)
    nodes = [held[k].node_ids if k in held else nobody for k in range(sizes.num_clients)]
    empty = union.subgraph(nobody)
    shards = tuple(held.get(k, Shard(k, nobody, empty)) for k in range(sizes.num_clients))
    partition = _HereAndNowhere(
        "at this site",
        sizes.num_nodes,
        torch.cat(nodes),
        torch.tensor([0, *(len(own) for own in nodes)]).cumsum(0),
    )
    held_here = Partition.of("own", sizes.num_nodes, [shard.node_ids for shard in own_shards])
    return Experiment(
        config=config,
        method=get_method(config.method.name),
        union=union,
        partition=partition,
        statistics=statistics(union, held_here),
        shards=shards,
        public=job.public(torch.device("cpu")),
        policy=job.policy(),
        has_truth=False,
    )


class _HereAndNowhere(Partition):
    """A partition in which other sites' clients hold nothing that is known here."""

    def __post_init__(self) -> None:
        """Clients without nodes are allowed here alone."""


def _place_nodes(own_shards: list[Shard], job: Job) -> Graph:
    """All own nodes under their global ids; every other node is there, and nothing is on it."""
    first, count = own_shards[0].graph, job.sizes.num_nodes
    features = torch.zeros(count, *first.features.shape[1:])
    labels = torch.full((count, *first.labels.shape[1:]), -1, dtype=torch.int64)
    masks = {
        name: torch.zeros(count, *first.split.train.shape[1:], dtype=torch.bool)
        for name in ("train", "val", "test")
    }
    edges = []
    for shard in own_shards:
        features[shard.node_ids] = shard.graph.features
        labels[shard.node_ids] = shard.graph.labels
        for name, mask in masks.items():
            mask[shard.node_ids] = getattr(shard.graph.split, name)
        edges.append(shard.node_ids[shard.graph.edge_index])
    edge_index, place = torch.unique(torch.cat(edges, 1), dim=1, return_inverse=True)
    numbers = None
    if first.edge_features is not None:
        numbers = torch.zeros(edge_index.shape[1], first.num_edge_features)
        numbers[place] = torch.cat(
            [s.graph.edge_features for s in own_shards if s.graph.edge_features is not None]
        )
    return replace(
        first,
        features=features,
        labels=labels,
        split=Split(**masks),
        edge_index=edge_index,
        edge_features=numbers,
    )


def _site_checks(truth: SiteTruth, plan: Plan) -> Checks:
    return {
        "integrity": lambda: [_check_integrity(truth)],
        "books": lambda: [_check_books(truth)],
        "mechanisms": lambda: [
            mechanism_finding(truth, result, 0.0)
            for result in audit_experiment(truth.experiment, plan.trials, plan.seed)
        ],
        "recorded": lambda: recorded_noise(truth),
    }


def _check_integrity(truth: SiteTruth) -> Finding:
    """Return whether the record is the one that was made. A killed process may leave the beginning
    of one more message, which proves nothing: whoever takes whole messages away at the end leaves
    no trace in the chain either, and the books name what is missing."""
    broken = broken_link(truth.folder.transcript)
    verdict = Verdict.VIOLATION if broken else Verdict.NOT_DETECTED
    if broken and unfinished_after(truth.folder.transcript) is not None:
        verdict = Verdict.INCONCLUSIVE
        broken = "the last message was not written to its end, as if the site had been killed"
    return Finding(
        adversary="-",
        attack="integrity",
        method=truth.method_name,
        metric="hash chain of the site's record",
        unit="run",
        verdict=verdict,
        because=broken or "every message is the one that was recorded at this site",
        assumptions=("nobody but the site writes into its home",),
    )


def _check_books(truth: SiteTruth) -> Finding:
    """What left, message by message, against the site's books and the plan in its kit."""
    method, releases = truth.experiment.method, list(truth.releases)
    records = list(read_headers(method, truth.folder.transcript))
    differences: list[Said] = [
        *compare_crossed(method, records, releases, truth.attempts),
        *as_planned(truth.experiment, releases, truth.attempts),
    ]
    alike = f"{len(releases)} releases are booked, planned and recorded alike"
    verdict, because = worst_of(differences, alike)
    return Finding(
        adversary="-",
        attack="books",
        method=truth.method_name,
        metric="the site's books, its record and the plan in its kit",
        unit="release",
        verdict=verdict,
        because=because,
        targets=len(releases),
        assumptions=("the site's own software made the record",),
    )
