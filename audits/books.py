"""The books: ledger, plan, summary and transcript must tell the same story, field by field.

Six rules are checked. Every private field that crossed must be booked, with the noise that was
planned. No field may leave oftener than planned. The summary's epsilon must follow from what is
booked, by arithmetic of the audit's own, and from the whole plan if a run may end early. No sum may
have been opened over fewer survivors than its noise was planned for. No noise may be shared among
more clients than are sure to add theirs. No node or edge may have more holders than that.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from audits.empirical_epsilon import epsilon_of_mu
from audits.findings.record import Finding, Verdict
from audits.truth import Truth
from securefg.data.partition import MANY_CLIENTS
from securefg.foundation.errors import RunFolderError
from securefg.methods.base import AnyMethod, asked_at_once
from securefg.privacy.accountants import claim_units
from securefg.privacy.ledger import Ledger, Mechanism, Release, read_ledger
from securefg.protocol.codec import Clients
from securefg.protocol.transcript import Record, read_transcript
from securefg.runs.assembly import Experiment
from securefg.runs.epsilons import planned_epsilons
from securefg.settings.privacy import Unit

TOLERANCE = 1e-6
SHOWN = 3

Said = tuple[Verdict, str]


def reconcile_books(truth: Truth) -> Finding:
    """Return one finding with everything that the four records disagree about, worst first."""
    started = time.monotonic()
    releases: list[Release] = []
    differences: list[Said] = []
    try:
        releases = list(read_ledger(truth.folder.ledger_path))
    except RunFolderError as error:
        differences.append((Verdict.VIOLATION, f"the ledger is not as it was written: {error}"))
    records = list(read_headers(truth.experiment.method, truth.folder.transcript))
    if not differences:
        attempts = truth.folder.summary().attempts
        differences = [
            *compare_crossed(truth.experiment.method, records, releases, attempts),
            *as_planned(truth.experiment, releases, attempts),
            *_compare_claims(truth, releases),
            *_check_holders(truth),
            *_check_noises(truth.experiment),
            *_check_survivors(truth, records),
        ]
    alike = f"{len(releases)} releases are booked, planned, summed up and recorded alike"
    verdict, because = worst_of(differences, alike)
    return Finding(
        adversary="-",
        attack="books",
        method=truth.method_name,
        metric="ledger, plan, summary and transcript",
        unit="release",
        verdict=verdict,
        because=because,
        targets=len(releases),
        assumptions=("what never reached the transcript is not seen",),
        seconds=round(time.monotonic() - started, 3),
    )


def worst_of(said: list[Said], alike: str) -> Said:
    """Return the violations, or otherwise all remarks, in one sentence. Return `alike` if there are
    none."""
    worst = [one for one in said if one[0] is Verdict.VIOLATION] or said
    if not worst:
        return Verdict.NOT_DETECTED, alike
    words = list(dict.fromkeys(text for _, text in worst))
    more = f" (and {len(words) - SHOWN} more)" if len(words) > SHOWN else ""
    return worst[0][0], "; ".join(words[:SHOWN]) + more


def read_headers(method: AnyMethod, transcript: Path) -> Iterator[Record]:
    """Yield records without their bodies, and the names of private fields that were in them."""
    kinds = {message.kind: message for message in method.every_message}
    for record in read_transcript(transcript):
        message = kinds.get(record.kind)
        names = dict(record.rules)
        if record.up and message is not None and not record.thinned:
            present = record.fields()
            for name, declaration in message.declarations.items():
                if declaration.is_private and present.get(name) is not None:
                    names.setdefault(name, "?")
        yield replace(record, rules=names, body=b"")


def compare_crossed(
    method: AnyMethod, records: list[Record], releases: list[Release], attempts: int
) -> Iterator[Said]:
    """Yield the differences between what crossed and what is booked, by field, round, step and
    client."""
    kinds = {message.kind: message for message in method.every_message}
    sent: Counter[tuple[str, int, int, int]] = Counter()
    for record in records:
        if record.up and record.kind in kinds:
            for name, words in record.rules.items():
                field = f"{kinds[record.kind].__name__}.{name}"
                if words == "?":
                    yield Verdict.VIOLATION, f"{field} left in round {record.round} without a rule"
                for client in Clients.parse(record.clients).numbers():
                    sent[field, record.round, record.step, client] += 1
    booked: Counter[tuple[str, int, int, int]] = Counter()
    for release in releases:
        for client in release.clients.numbers():
            booked[release.mechanism.field, release.round, release.step, client] += 1
    for field, round, _, client in sorted((sent - booked).keys()):
        yield (
            Verdict.VIOLATION,
            f"{field} of client {client} left in round {round} and is on no book",
        )
    if attempts == 1:
        for field, round, _, client in sorted((booked - sent).keys()):
            yield (
                Verdict.INCONCLUSIVE,
                f"{field} of client {client} is booked for round {round} and not in the record",
            )


def as_planned(x: Experiment, releases: list[Release], attempts: int) -> Iterator[Said]:
    """Yield the differences of booked mechanisms from the policy, and of counts from the plan."""
    planned = {r.name: r for r in x.method.releases(x.config.method, x.config.training, x.public)}
    for mechanism in dict.fromkeys(release.mechanism for release in releases):
        release = planned.get(mechanism.field)
        if release is None:
            yield Verdict.VIOLATION, f"{mechanism.field} was sent and never planned"
            continue
        in_training = mechanism.accounting == "gaussian_steps"
        rows = release.num_rows if in_training else mechanism.num_rows
        dim = (
            release.dim // release.num_rows * (rows if mechanism.per == "row" else release.num_rows)
        )
        wanted = x.policy.mechanism(
            release.message,
            release.field,
            dim,
            max(rows, release.num_rows if mechanism.per != "row" else 1),
        )
        for name in (
            "rule",
            "per",
            "noise_multiplier",
            "sampling",
            "steps",
            "adjacency",
            "accounting",
            "node",
            "edge",
        ):
            if getattr(mechanism, name) != getattr(wanted, name):
                yield (
                    Verdict.VIOLATION,
                    f"{mechanism.field} is booked with {name} {getattr(mechanism, name)}, "
                    f"the plan has {getattr(wanted, name)}",
                )
    counts: Counter[tuple[str, int]] = Counter()
    for found in releases:
        for client in found.clients.numbers():
            counts[found.mechanism.field, client] += 1
    for (name, client), count in counts.items():
        most = planned[name].count if name in planned else 0
        if most and count > most * attempts:
            yield (
                Verdict.VIOLATION,
                f"{name} left client {client} {count} times; planned were {most}",
            )


def _compare_claims(truth: Truth, releases: list[Release]) -> Iterator[Said]:
    """Yield the differences of the summary's epsilons from the ledger's, and of both from the
    audit's own arithmetic."""
    summary, policy = truth.folder.summary(), truth.experiment.policy
    ledger = Ledger(truth.experiment.partition.num_clients)
    ledger.record(releases)
    for claim in claim_units(ledger, policy.delta, population=policy.population):
        summary_claim = summary.epsilon.get(claim.unit)
        if summary_claim is None:
            yield Verdict.INCONCLUSIVE, f"the summary says nothing of the {claim.unit}"
            continue
        summary_epsilon = math.inf if summary_claim.epsilon is None else summary_claim.epsilon
        if summary_epsilon < claim.epsilon * (1 - TOLERANCE) - TOLERANCE:
            yield (
                Verdict.VIOLATION,
                f"the summary says epsilon {summary_epsilon:.4g} per {claim.unit}; "
                f"what is booked gives {claim.epsilon:.4g}",
            )
        least = max(
            (_least_epsilon(p, claim.unit, policy.delta) for p in ledger.profiles()), default=0.0
        )
        if math.isfinite(summary_epsilon) and summary_epsilon < least * (1 - TOLERANCE) - TOLERANCE:
            yield (
                Verdict.VIOLATION,
                f"epsilon {summary_epsilon:.4g} per {claim.unit} is less than its releases compose "
                f"to, {least:.4g}",
            )
    yield from _ends_early(truth)
    lines = truth.folder.metrics()
    for unit, value in (lines[-1]["epsilon"] if lines else {}).items():
        summary_claim = summary.epsilon.get(unit)
        spent = (
            None
            if summary_claim is None
            else summary_claim.epsilon
            if summary_claim.spent is None
            else summary_claim.spent
        )
        if summary_claim is not None and not _are_alike(spent, value):
            yield Verdict.INCONCLUSIVE, f"the last round's epsilon per {unit} is not the summary's"


def _ends_early(truth: Truth) -> Iterator[Said]:
    """Yield a violation if a run that validation labels may end claims less than its whole plan's
    epsilon."""
    if truth.config.training.patience is None:
        return
    told = truth.folder.summary().epsilon
    for unit, planned in planned_epsilons(truth.experiment).items():
        claim = told.get(unit)
        if claim is None or claim.epsilon is None or planned.epsilon is None:
            continue
        if claim.epsilon < planned.epsilon * (1 - TOLERANCE) - TOLERANCE:
            yield (
                Verdict.VIOLATION,
                f"the run may end early and claims epsilon {claim.epsilon:.4g} per {unit}; "
                f"planned were {planned.epsilon:.4g}",
            )


def _check_holders(truth: Truth) -> Iterator[Said]:
    """Yield a violation if a node or an edge has more holders in the shards than the policy counts
    on."""
    x = truth.experiment
    population = x.policy.population
    if population is None:
        return
    counted: dict[Unit, int] = {"node": _most_holders([x.partition.nodes])}
    if x.partition.num_clients <= MANY_CLIENTS:
        counted["edge"] = _most_holders(_edge_numbers(x))
    for unit, num_holders in counted.items():
        planned = population.holders(unit)
        if num_holders > planned:
            yield (
                Verdict.VIOLATION,
                f"the noise is for {planned} holders of a {unit}; the partition has {num_holders}",
            )


def _check_noises(x: Experiment) -> Iterator[Said]:
    """Yield a violation if the noise is shared among more clients than are sure to add noise
    unknown to the reader.

    These are all clients that are asked, less those who may drop out, less those who may collude,
    or less the reader alone.
    """
    masking = x.config.privacy.secure_aggregation
    if masking is None:
        return
    asked = asked_at_once(x.partition.num_clients, x.config.training.participation)
    threat = masking.threat_among(x.partition.num_clients)
    for release in x.method.releases(x.config.method, x.config.training, x.public):
        rule = x.policy.rules.get(release.name)
        if release.count == 0 or rule is None or not rule.needs_masks:
            continue
        senders = asked if release.senders is None else min(release.senders, asked)
        sure = senders - threat.num_dropped(senders) - max(1, threat.num_corrupt(senders))
        if rule.num_shares > sure:
            yield (
                Verdict.VIOLATION,
                f"the noise of {release.name} is shared among {rule.num_shares} clients; of "
                f"{sure} of {senders} it is sure to be there and unknown to the reader",
            )


def _edge_numbers(x: Experiment) -> Iterator[Tensor]:
    """Yield for every client one number per link, whichever way it is listed."""
    largest = max((int(s.node_ids.max()) for s in x.shards if len(s.node_ids)), default=0) + 1
    for shard in x.shards:
        ends = shard.node_ids[shard.graph.edge_index]
        apart = ends[:, ends[0] != ends[1]]
        yield torch.unique(apart.min(0).values * largest + apart.max(0).values)


def _most_holders(parts: Iterable[Tensor]) -> int:
    """Return how often the most frequent number occurs. A client has each of its own numbers
    once."""
    found = torch.cat([part.long() for part in parts] or [torch.zeros(0, dtype=torch.int64)])
    return int(torch.unique(found, return_counts=True)[1].max()) if len(found) else 0


def _least_epsilon(profile: dict[Mechanism, int], unit: str, delta: float) -> float:
    """Return the least epsilon of the unsampled releases of one client: one Gaussian, with mu^2
    added up."""
    total = 0.0
    for mechanism, count in profile.items():
        known = {"node": mechanism.node, "edge": mechanism.edge, "features": mechanism.node}
        met = known.get(unit)
        multiplier = mechanism.noise_multiplier if met is None else met.noise_multiplier
        times = 1 if met is None else met.times
        if count == 0 or times == 0 or mechanism.sampling < 1:
            continue
        if not multiplier:
            return math.inf
        rows = mechanism.num_rows if unit == "client" and mechanism.per == "row" else 1
        total += count * times * mechanism.steps * rows / multiplier**2
    return epsilon_of_mu(math.sqrt(total), delta)


def _are_alike(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _check_survivors(truth: Truth, records: list[Record]) -> Iterator[Said]:
    """Yield a violation for noise in a sum that came from too few clients."""
    policy = truth.experiment.policy
    kinds = {message.kind: message for message in truth.experiment.method.every_message}
    for record in records:
        message = kinds.get(record.kind.removesuffix(".sum"))
        if record.sender != "sum" or message is None:
            continue
        rules = [policy.rules.get(f"{message.__name__}.{name}") for name in message.declarations]
        wanted = max((r.num_shares for r in rules if r is not None and r.needs_masks), default=0)
        count = len(Clients.parse(record.clients))
        planned = max(wanted, policy.least_survivors.get(message.kind, 0))
        if count < planned:
            yield (
                Verdict.VIOLATION,
                f"a sum of round {record.round} was opened over {count} clients; its noise was "
                f"planned for {planned}",
            )
