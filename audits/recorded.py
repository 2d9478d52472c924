"""The noise in the uploads that were recorded: the rest after the clients' own values are taken
off.

Every host is made anew from the run's data and asked as the record says it was asked. Its clipped
answer is the upload before its noise. The rest is held against the claimed law. The run's own
channel then draws noise for the same answers again: the recorded noise must not come back, and the
noise along the clean value must be as large as elsewhere. If a run is too long to be played again
to its end, rows that are zero by their nature (of nodes that a client does not hold) are tested in
the rounds that are left. Rounds that were sent and are not in the record make a finding
inconclusive.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.findings.record import Finding, Verdict
from audits.mechanisms.results import RECORDED, LawResult
from audits.mechanisms.whole import claimed_noise, has_grid, off_grid_test
from audits.noise_law import LawTest, joint_tests, law_tests, worst_test
from audits.recorded_redraws import (
    LEAST_DRAWS,
    FirstUpload,
    Part,
    Redraws,
    compare_draws,
    seed_test,
    single_draws,
)
from audits.truth import Truth
from audits.uploads import unit_norms
from securefg.engines.hosting import noise_source
from securefg.federation.roles import Host, Site
from securefg.foundation.streams import derive_seed
from securefg.privacy.defence import NoisyUpload
from securefg.privacy.law import Law
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Record, read_transcript
from securefg.runs.assembly import hosts_of

SECONDS = 60.0
"""So long is the run played again; later rounds are tested by their structure alone."""

MOST_NUMBERS = 1 << 22
MOST_JOINT = 1 << 19

Floats = NDArray[np.float64]


@dataclass
class Residuals:
    """A record of one field's noise.

    noise       (clients, rows, width) of every message, as standard normals if it is as claimed
    zero        rows of a client that were zero before noise in all messages that were replayed
    structural  by client: these rows in messages that were not replayed
    rounded     how many clients' values were rounded to a grid and are in one sum
    sent        the rounds in which the field was sent, whether or not they were recorded
    redrawn     tests of noise that was drawn again, by the channels of the run's own code
    """

    release: PlannedRelease
    rule: NoisyUpload
    sigma: float
    slack: float
    rounds: set[int] = field(default_factory=set)
    noise: list[Floats] = field(default_factory=list)
    zero: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    structural: dict[int, list[Floats]] = field(default_factory=dict)
    first: FirstUpload | None = None
    rounded: int = 0
    sent: set[int] = field(default_factory=set)
    redrawn: list[LawTest] = field(default_factory=list)
    beside_grid: list[LawTest] = field(default_factory=list)

    @property
    def law(self) -> Law:
        """Return the law of the noise on one client's upload."""
        shape = (self.release.num_rows, self.release.dim // self.release.num_rows)
        return self.rule.law(torch.Size(shape))

    @property
    def numbers(self) -> int:
        """Return how many numbers of noise were kept."""
        return sum(part.size for part in self.noise)


def recorded_noise(truth: Truth) -> list[Finding]:
    """Return a finding per field that claims noise: what its uploads show, or why they cannot
    tell."""
    started = time.monotonic()
    fields = _claimed_fields(truth.experiment.policy, _planned_releases(truth))
    replay = _Replay(truth, fields)
    reason = replay.run()
    each = (time.monotonic() - started) / max(1, len(fields))
    protects = truth.experiment.policy.protects
    field_tests = [_residual_tests(truth, found) if protects else [] for found in fields.values()]
    alone = not protects or any(worst_test(tests, RECORDED) for tests in field_tests)
    joint = [] if alone else _joint_tests(list(fields.values()))
    findings = [
        _make_finding(truth, found, reason, each, [*tests, *(joint if found.noise else [])])
        for found, tests in zip(fields.values(), field_tests, strict=True)
    ]
    return [*findings, *_untold_findings(truth)]


def _planned_releases(truth: Truth) -> list[PlannedRelease]:
    x = truth.experiment
    return [
        r for r in x.method.releases(x.config.method, x.config.training, x.public) if r.count > 0
    ]


def _claimed_fields(policy: Policy, planned: list[PlannedRelease]) -> dict[str, Residuals]:
    residuals_by_field = {}
    for release in planned:
        rule = policy.rules[release.name]
        if isinstance(rule, NoisyUpload):
            shape = (release.num_rows, release.dim // release.num_rows)
            residuals_by_field[release.name] = Residuals(
                release, rule, *claimed_noise(policy, release, shape)
            )
    return residuals_by_field


class _Replay:
    """A replay in which hosts answer the recorded requests once more."""

    def __init__(self, truth: Truth, fields: dict[str, Residuals]) -> None:
        self._truth, self._fields, self._x = truth, fields, truth.experiment
        self._hosts: dict[str, Host] = {}
        self._clients = hosts_of(self._x)
        self._replies: dict[tuple[str, int, int], tuple[Message, Clients]] = {}
        self._stopped = ""
        self._began = math.inf
        self._redraws = Redraws(truth)

    def run(self) -> str:
        """Play the run and return why it was not played to its end, or an empty text if it was."""
        if not self._fields:
            return ""
        deadline = time.process_time() + SECONDS
        kinds = {message.kind for message in self._x.method.messages}
        for record in read_transcript(self._truth.folder.transcript):
            self._began = min(self._began, record.seconds)
            if record.up and record.kind in kinds:
                self._count_record(record)
            if not self._stopped and time.process_time() > deadline:
                self._stopped = f"played again up to round {record.round}"
            if record.thinned:
                if record.kind in kinds and not self._stopped and self._remembers_requests():
                    self._stopped = f"round {record.round} was thinned out of the transcript"
            elif record.sender == "sum":
                self._compare_sum(record)
            elif record.up and record.kind in kinds:
                self._compare_upload(record)
            elif record.kind in kinds and not self._stopped:
                self._note_asked(record)
        return self._stopped

    def _count_record(self, record: Record) -> None:
        message = self._x.method.message(record.kind)
        for name in message.declarations:
            found = self._fields.get(f"{message.__name__}.{name}")
            if found is not None:
                found.sent.add(record.round)

    def _remembers_requests(self) -> bool:
        """Return whether a host's answer depends on earlier requests."""
        return any(host.state() for host in self._hosts.values())

    def _note_asked(self, record: Record) -> None:
        message = self._x.method.message(record.kind)
        if any(d.opens is not None for d in message.declarations.values()):
            self._stopped = f"{record.kind} holds what only its recipients can open"
            return
        asked = Clients.parse(record.clients).numbers()
        for name in record.receivers:
            asked_clients = [k for k in self._clients[name].numbers() if k in set(asked)]
            fields = record.fields()
            rows = [asked.index(k) for k in asked_clients]
            for personal in record.personal:
                value = fields[personal]
                assert isinstance(value, Tensor)
                fields[personal] = value[rows]
            request = codec.decode(codec.encode_fields(fields), message)
            turn = Turn(record.round, record.step, Clients.of(asked_clients), record.attempt)
            reply = self._find_host(name).handle(request, turn)
            self._replies[name, record.round, record.step] = (reply, turn.clients)

    def _find_host(self, name: str) -> Host:
        if name not in self._hosts:
            x = self._x
            site = Site(
                shards=tuple(x.shards[k] for k in self._clients[name].numbers()),
                method=x.config.method,
                training=x.config.training,
                seed=derive_seed(x.config.seed, "clients"),
                device=torch.device("cpu"),
                noise=noise_source(x.config),
            )
            self._hosts[name] = x.method.make_host(site)
        return self._hosts[name]

    # ------------------------------------------------------------------------- what was recorded

    def _compare_upload(self, record: Record) -> None:
        message = self._x.method.message(record.kind)
        known = self._replies.pop((record.sender, record.round, record.step), None)
        values = record.fields()
        for name in message.declarations:
            residuals = self._fields.get(f"{message.__name__}.{name}")
            if residuals is None or residuals.release.name in self._x.policy.masked:
                continue
            sent = values.get(name)
            if not isinstance(sent, Tensor):
                continue
            numbers = Clients.parse(record.clients)
            clean = None if known is None else getattr(known[0], name)
            self._keep_residual(residuals, record, numbers, sent, clean)
            if known is not None and clean is not None and known[1] == numbers:
                again = self._redraws.of_upload(record, known[0], name)
                residuals.redrawn += compare_draws(
                    again,
                    _to_units(sent),
                    _clip_values(residuals.rule, clean),
                    residuals.sigma,
                    residuals.law,
                )
        if known is not None and self._x.policy.masks(message):
            self._replies[record.sender, record.round, record.step] = known

    def _keep_residual(
        self,
        residuals: Residuals,
        record: Record,
        clients: Clients,
        sent: Tensor,
        clean: Tensor | None,
    ) -> None:
        seen = _to_units(sent)
        if clean is not None:
            exact = _to_units(clean)
            law = residuals.law
            noise = law.normal_scores(
                (seen - _clip_values(residuals.rule, clean)) / residuals.sigma
            )
            if residuals.numbers < MOST_NUMBERS:
                residuals.noise.append(noise)
            if has_grid(law):
                residuals.beside_grid.append(off_grid_test(law, seen))
            if residuals.first is None and law.is_normal:
                stream = (record.kind, residuals.release.field, record.round, record.step)
                residuals.first = FirstUpload(
                    torch.from_numpy(noise[:1].copy()),
                    Clients.of(clients.numbers()[:1]),
                    stream,
                    self._began,
                    record.seconds,
                )
            residuals.rounds.add(record.round)
            for k, rows in zip(clients.numbers(), np.abs(exact).sum(2) == 0, strict=True):
                residuals.zero[k] = residuals.zero.get(k, rows) & rows
        else:
            for k, own in zip(clients.numbers(), seen, strict=True):
                rows = residuals.zero.get(k)
                if rows is not None and rows.sum() >= 4:
                    scores = residuals.law.normal_scores(own[rows] / residuals.sigma)
                    residuals.structural.setdefault(k, []).append(scores)
                    residuals.rounds.add(record.round)

    def _compare_sum(self, record: Record) -> None:
        """Compare a masked sum with the sum of what its survivors would have sent."""
        survivors = set(Clients.parse(record.clients).numbers())
        message = self._x.method.message(record.kind.removesuffix(".sum"))
        parts = [
            (host, reply, clients)
            for (host, round, _), (reply, clients) in self._replies.items()
            if round == record.round and type(reply) is message
        ]
        covered = [k for _, _, clients in parts for k in clients.numbers()]
        for name, total in record.fields().items():
            residuals = self._fields.get(f"{message.__name__}.{name}")
            if residuals is None or not isinstance(total, Tensor):
                continue
            weight = message.declarations[name].weight
            weighted = weight is not None and any(
                getattr(r, weight) is not None for _, r, _ in parts
            )
            if weighted or not survivors <= set(covered):  # the weights are the clients' own
                continue
            self._keep_sum(residuals, record, name, total, parts, survivors)
        self._replies = {k: v for k, v in self._replies.items() if type(v[0]) is not message}

    def _keep_sum(
        self,
        residuals: Residuals,
        record: Record,
        name: str,
        total: Tensor,
        parts: list[Part],
        survivors: set[int],
    ) -> None:
        rule, law = residuals.rule, residuals.law
        if len(survivors) > 1 and not law.is_gaussian:
            return  # a sum of such noises has another law
        values = [
            _clip_values(rule, getattr(reply, name))[[k in survivors for k in clients.numbers()]]
            for _, reply, clients in parts
        ]
        exact: Floats = np.sum([own.sum(0) for own in values], axis=0)
        sigma = residuals.sigma * math.sqrt(len(survivors) / rule.num_shares)
        if law.is_discrete:
            residuals.rounded = max(residuals.rounded, len(survivors))
        seen = total.double().numpy().reshape(exact.shape)
        noise = law.normal_scores((seen - exact) / sigma)
        if residuals.numbers < MOST_NUMBERS:
            residuals.noise.append(noise[None])
        residuals.rounds.add(record.round)
        again, guesses = self._redraws.of_sum(record, parts, name, survivors)
        sums, guessed = ([own.sum(0)[None] for own in drawn] for drawn in (again, guesses))
        residuals.redrawn += compare_draws(sums, seen[None], exact[None], sigma, law, guessed)
        if len(again) >= LEAST_DRAWS:
            single = rule.law(torch.Size(exact.shape))
            residuals.redrawn += single_draws(again, np.concatenate(values), single)


def _to_units(values: Tensor) -> Floats:
    """Return the values as (clients, rows, width)."""
    array: Floats = values.detach().cpu().double().numpy()
    if array.ndim == 1:
        array = array[:, None]
    return array.reshape(len(array), -1, array.shape[-1]) if array.ndim > 2 else array[:, None]


def _clip_values(rule: NoisyUpload, sent: Tensor) -> Floats:
    """Return (clients, rows, width): the values before their noise."""
    values = _to_units(sent)
    norms = unit_norms(values, rule)
    clipped: Floats = values * np.minimum(1.0, rule.clip_l2 / np.maximum(norms, 1e-300))
    return clipped


# ------------------------------------------------------------------------------------- findings


def _residual_tests(truth: Truth, residuals: Residuals) -> list[LawTest]:
    tests = []
    if residuals.noise:
        step = residuals.law.step / residuals.sigma
        tests += law_tests(
            np.concatenate(residuals.noise), residuals.slack, step=step, rounded=residuals.rounded
        )
    for client, parts in residuals.structural.items():
        for test in law_tests(np.stack(parts), residuals.slack):
            words = f"client {client}, rows that are zero: {test.words}"
            tests.append(LawTest(test.name, test.p, test.severe, words))
    tests += residuals.redrawn
    tests += [test for test in residuals.beside_grid if test.p < 1][:1]
    if residuals.first is not None:
        by_rows = residuals.release.declaration.rows is not None
        tests.append(seed_test(truth.config.seed, residuals.first, by_rows))
    return tests


def _joint_tests(fields: list[Residuals]) -> list[LawTest]:
    """Return tests whether fields of the same messages share noise, if each alone is sound. The
    tests count for all of them."""
    parts = [np.concatenate(found.noise) for found in fields if found.noise]
    if len(parts) < 2 or len({len(part) for part in parts}) > 1:
        return []
    most = max(1, MOST_JOINT // sum(part[0].size for part in parts))
    return joint_tests([part[:most] for part in parts])


def _make_finding(
    truth: Truth, residuals: Residuals, stopped: str, seconds: float, tests: list[LawTest]
) -> Finding:
    result = LawResult(
        field=residuals.release.name,
        check="recorded",
        unit="client",
        rule=truth.experiment.policy.rules[residuals.release.name].name,
        rounds=len(residuals.rounds),
        planned=residuals.release.count,
        claimed=0.0,
        tests=tuple(tests),
        numbers=residuals.numbers,
        level=RECORDED,
    )
    verdict, because = Verdict(result.verdict), result.because
    if not tests:
        verdict = Verdict.INCONCLUSIVE
        why = stopped or "no upload of it can be played again from the record"
        if not truth.experiment.policy.protects:
            why = "the noise is seeded and claims nothing"
        because = f"the record cannot tell: {why}"
    elif verdict is Verdict.NOT_DETECTED:
        unseen = len(residuals.sent - residuals.rounds)
        if unseen:
            verdict = Verdict.INCONCLUSIVE
            because = (
                f"{unseen} of {len(residuals.sent)} rounds were sent and cannot be tested from the "
                f"record (output.transcript_every); in the others {because}"
            )
        if stopped:
            because += f"; {stopped}"
    return Finding(
        adversary="server",
        attack="recorded_noise",
        method=truth.experiment.method.name,
        metric=f"noise of {residuals.release.name} in {len(residuals.rounds)} rounds of the record",
        unit="client",
        verdict=verdict,
        because=f"{residuals.release.name}: {because}",
        epsilon_claimed=truth.claimed("client"),
        confidence=1 - RECORDED,
        estimator="law",
        targets=residuals.numbers,
        assumptions=("hosts answer as they did: the same code and the same data",),
        seconds=round(seconds, 3),
    )


def _untold_findings(truth: Truth) -> Iterator[Finding]:
    """Yield a finding for noise that lies in the training, which cannot be told from the
    training."""
    for release in _planned_releases(truth):
        if release.trained is not None:
            yield Finding(
                adversary="server",
                attack="recorded_noise",
                method=truth.experiment.method.name,
                metric=f"noise of {release.name} in the record",
                unit="row",
                verdict=Verdict.INCONCLUSIVE,
                because=f"{release.name}: the record cannot tell noise inside the training from "
                "the training; the training step itself is audited (mechanism_training)",
            )
