"""Another framework's exchange under audit: its views and truth, and what it claims of its noise.

integrity   the transcript is the one that was recorded
accounting  the epsilon that clip, sigma and the recorded number of uploads add up to
noise       the spread of the recorded uploads beside the claimed sigma:
            - lengths and distances: whatever was clipped to C, |y|^2 / sigma^2 is no smaller than
              chi^2_d, layer by layer, and no larger than chi^2_d with non-centrality
              (C / sigma)^2; so is |y - y'|^2 / (2 sigma^2), unless two uploads share their noise
            - repeats: clients that upload one value every round show sigma itself, hence a lower
              bound of epsilon
"""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, Message, Place, View
from attacks.models import sent_models
from audits.empirical_epsilon import epsilon_of_mu
from audits.findings.record import Finding, Verdict
from audits.foreign_network import ForeignNetwork, Samples
from audits.foreign_record import (
    check_record,
    read_clients,
    read_held_out,
    read_samples,
    recipe_of,
    undescribed_fields,
)
from audits.laws import chi2_quantile
from audits.mechanisms.results import FAMILY_LEVEL
from audits.unread_fields import Spoken
from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import ConfigError
from securefg.protocol.exchange import Claim, Exchange, read_exchange
from securefg.protocol.meanings import Meaning, Weights
from securefg.protocol.transcript import Adversary, broken_link, last_link, view

METHOD = "foreign"
ALPHA = FAMILY_LEVEL
"""An honest exchange is called a violation this often; half of it for either kind of test."""
MOST_UPLOADS = 300
"""So many uploads are compared in pairs."""


@dataclass(frozen=True)
class ForeignTruth:
    """A recorded exchange, with the samples behind it where they are at hand."""

    path: Path
    exchange: Exchange
    network_path: str = ""
    data: Path | None = None

    @classmethod
    def from_path(
        cls, path: Path, network_path: str = "", data: Path | None = None
    ) -> ForeignTruth:
        """Read an exchange of another framework, and check it.

        network_path  the module path of the network's code, where the auditor has it
        data          the folder of clients' samples, `private` of the recording by default
        """
        found = cls(path, read_exchange(path), network_path, data)
        found.check()
        return found

    method_name = METHOD

    def check(self) -> None:
        """Refuse a description that does not fit the messages, and rounds that were mixed up."""
        check_record(self.path, self.exchange, self.server_view)
        if self._samples_path.is_file():
            _ = self.samples
        if self._labels_path.is_file():
            _ = self.labels
        if self._samples_path.is_file() and self._labels_path.is_file():
            self._check_labels()
        _ = self.held_out, self.network

    def _check_labels(self) -> None:
        """Raise unless every client has a label per sample, where it has both."""
        for client in self.inputs.keys() & self.labels.keys():
            samples, labels = len(self.inputs[client]), len(self.labels[client])
            if samples != labels:
                raise ConfigError(
                    f"{self._labels_path}: client {client}: found {labels} labels of {samples} "
                    "samples; expected a label per sample"
                )

    @cached_property
    def network(self) -> ForeignNetwork | None:
        """Return the network whose weights were recorded, or None where its code is not known."""
        if not self.network_path:
            return None
        known = next(iter(self.inputs.values())) if self._samples_path.is_file() else None
        return ForeignNetwork.from_path(self.network_path, self.exchange, known)

    @cached_property
    def server_view(self) -> View:
        """Return what the server saw, read once."""
        return self.view(Adversary.parse("server"))

    @cached_property
    def record(self) -> str:
        """Return the transcript's last link, by which findings know their recording."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a tear is the integrity check's to report
            return last_link(self.path / "transcript")

    @cached_property
    def meanings(self) -> dict[Place, Meaning]:
        """Return what the uploaded and the sent field mean, by place."""
        upload, sent = self.exchange.upload, self.exchange.sent
        meanings_by_place: dict[Place, Meaning] = {
            (upload.kind, upload.field): Weights("network", change=upload.holds == "change")
        }
        if sent is not None:
            meanings_by_place[sent.kind, sent.field] = Weights("network", change=False)
        return meanings_by_place

    @property
    def spoken(self) -> Spoken:
        """Return which meanings cross, and which of them are uploads."""
        upload = (self.exchange.upload.kind, self.exchange.upload.field)
        sent = {place: m for place, m in self.meanings.items() if place != upload}
        beside = undescribed_fields(self.server_view)
        return Spoken(
            {upload: self.meanings[upload], **{p: m for (p, up), m in beside.items() if up}},
            {**sent, **{p: m for (p, up), m in beside.items() if not up}},
        )

    @property
    def defended(self) -> bool:
        """Whether noise is claimed, or uploads are masked."""
        return self.exchange.claim is not None or any(m.masked for m in self.uploads)

    def undefended_truth(self) -> ForeignTruth | None:
        """Itself where nothing defends it; else the exchange that `control` names."""
        if not self.defended:
            return self
        named = self.exchange.control
        if named is None:
            return None
        path = self.path / named
        has_data = (path / "private" / "truth.npz").is_file()
        return ForeignTruth.from_path(path, self.network_path, None if has_data else self.data)

    @cached_property
    def uploads(self) -> list[Message]:
        """Return the uploads as the server saw them."""
        return self.server_view.uploads(Weights())

    @property
    def noised(self) -> list[Message]:
        """What was clipped and noised: of uploaded weights, their difference from what the round
        started from; those of a round that began nobody knows where are left out."""
        if self.exchange.upload.holds == "change":
            return self.uploads
        began = sent_models(self.server_view)
        return [
            replace(m, value=m.value.flatten(1) - began[m.round]) if not m.masked else m
            for m in self.uploads
            if m.masked or m.round in began
        ]

    @property
    def _folder(self) -> Path:
        return self.data or self.path / "private"

    @property
    def _samples_path(self) -> Path:
        return self._folder / "truth.npz"

    @property
    def _labels_path(self) -> Path:
        return self._folder / "labels.npz"

    @cached_property
    def inputs(self) -> dict[int, Samples]:
        """Return the samples of every known client in the shape in which a network reads them."""
        return read_samples(self._samples_path, self.exchange.clients)

    @cached_property
    def held_out(self) -> tuple[Samples, NDArray[np.int64]] | None:
        """Return samples that nobody trained on and their classes, where they are given."""
        return read_held_out(self._folder / "held_out.npz", self.exchange.classes or 0)

    @cached_property
    def samples(self) -> dict[int, Array]:
        """Of every client that is known, (samples, inputs)."""
        samples_by_client = {
            client: rows.reshape(len(rows), -1).astype(np.float64)
            for client, rows in self.inputs.items()
        }
        width = self.exchange.num_inputs or next(iter(samples_by_client.values())).shape[-1]
        for client, rows in samples_by_client.items():
            if rows.shape[1] != width:
                raise ConfigError(
                    f"{self._samples_path}: client {client} has an array of shape "
                    f"{self.inputs[client].shape}; wanted samples by {width} inputs"
                )
        return samples_by_client

    @cached_property
    def labels(self) -> dict[int, NDArray[np.int64]]:
        """Of every client that is known, the class of every sample."""
        labels_by_client = read_clients(self._labels_path, np.int64, self.exchange.clients)
        most = self.exchange.classes or 0
        for client, rows in labels_by_client.items():
            if rows.ndim != 1 or not len(rows) or rows.min() < 0 or rows.max() >= most:
                raise ConfigError(
                    f"{self._labels_path}: client {client}: found an array of shape {rows.shape}; "
                    f"expected classes from 0 to {most - 1} (classes: of foreign.yaml)"
                )
        return labels_by_client

    def view(self, adversary: Adversary) -> View:
        """Return what this adversary saw of the exchange."""
        exchange = self.exchange
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a tear is the integrity check's to report
            seen = tuple(view(self.path / "transcript", adversary))
        public = PublicInfo(
            num_nodes=0,
            num_features=exchange.num_inputs or 0,
            num_classes=exchange.classes or 0,
            num_clients=exchange.clients,
            seed=0,
            device=torch.device("cpu"),
        )
        return View(
            adversary=adversary,
            public=public,
            meanings=self.meanings,
            networks={"network": exchange.layout},
            training=recipe_of(exchange),
            function=self.network,
            seen=seen,
        )


def foreign_promises(truth: ForeignTruth) -> list[Finding]:
    """A finding per promise that the exchange makes."""
    promise_findings = [_check_integrity(truth)]
    if (claim := truth.exchange.claim) is not None:
        promise_findings += [
            _check_accounting(truth, claim),
            _check_noise(truth, claim),
            *_beside_findings(truth, claim),
        ]
    return promise_findings


def _beside_findings(truth: ForeignTruth, claim: Claim) -> list[Finding]:
    """Return a finding that names what clients upload and the claim does not cover."""
    covered_place = (truth.exchange.upload.kind, truth.exchange.upload.field)
    beside = [
        f"{kind}.{name}" for kind, name in truth.spoken.uploads if (kind, name) != covered_place
    ]
    if not beside:
        return []
    return [
        Finding(
            adversary="server",
            attack="claim_coverage",
            method=METHOD,
            metric=", ".join(beside),
            unit="client",
            verdict=Verdict.INCONCLUSIVE,
            because=f"the claim covers {covered_place[0]}.{covered_place[1]} alone; also uploaded: "
            f"{', '.join(beside)}: no epsilon holds for all that leaves",
            epsilon_claimed=claim.epsilon,
            measured=False,
        )
    ]


def _check_integrity(truth: ForeignTruth) -> Finding:
    started = time.monotonic()
    chain = truth.exchange.chain
    broken = broken_link(truth.path / "transcript", chain)
    whole = Verdict.NOT_DETECTED if chain else Verdict.INCONCLUSIVE
    cut = "foreign.yaml has no last link (chain): messages at the end may have been taken away"
    return Finding(
        adversary="-",
        attack="integrity",
        method=METHOD,
        metric="hash chain of the transcript",
        unit="exchange",
        verdict=Verdict.VIOLATION if broken else whole,
        because=broken or ("every message is the one that was recorded" if chain else cut),
        assumptions=("foreign.yaml's last link was not forged along with the transcript",),
        seconds=round(time.monotonic() - started, 3),
    )


def _check_accounting(truth: ForeignTruth, claim: Claim) -> Finding:
    """Arithmetic alone: the server sees who takes part, so no sampling amplifies against it."""
    releases = most_uploads(truth.uploads)
    composed_epsilon = epsilon_of_mu(
        claim.sensitivity * math.sqrt(releases) / claim.sigma, claim.delta
    )
    broken = composed_epsilon > claim.epsilon * (1 + 1e-3)
    return Finding(
        adversary="server",
        attack="claim_accounting",
        method=METHOD,
        metric=f"epsilon of {releases} Gaussian releases, by arithmetic",
        unit="client",
        verdict=Verdict.VIOLATION if broken else Verdict.NOT_DETECTED,
        because=f"clip {claim.clip_l2:g} and sigma {claim.sigma:g} over {releases} recorded "
        f"uploads per client are epsilon {composed_epsilon:.3g} at delta {claim.delta:g}",
        epsilon_claimed=claim.epsilon,
        epsilon_lower=composed_epsilon,
        estimator="exact",
        assumptions=(f"neighbouring uploads lie up to {claim.sensitivity:g} apart",),
    )


def _check_noise(truth: ForeignTruth, claim: Claim) -> Finding:
    started = time.monotonic()
    spread = judge_spread(truth.noised, truth.exchange, claim)
    return Finding(
        adversary="server",
        attack="claim_noise",
        method=METHOD,
        metric="spread of the recorded uploads",
        unit="client",
        epsilon_claimed=claim.epsilon,
        assumptions=("Gaussian noise on every number of the upload, after clipping",),
        confidence=1 - ALPHA,
        seconds=round(time.monotonic() - started, 3),
        **spread,
    )


def judge_spread(uploads: list[Message], exchange: Exchange, claim: Claim) -> dict[str, Any]:
    """Verdict, reason and, where there are repeats, the lower bound of epsilon."""
    readable = [message for message in uploads if not message.masked]
    if not readable:
        return _verdict_fields(
            Verdict.INCONCLUSIVE,
            "all uploads are masked, or the weights that they started from are not recorded: no "
            "single one shows its noise",
        )
    rows, owners = _upload_rows(readable)
    parts = {"all": slice(None), **(exchange.slices if len(exchange.layers) > 1 else {})}
    if impossible := _impossible_reason(rows[:MOST_UPLOADS], parts, claim):
        return _verdict_fields(Verdict.VIOLATION, impossible, targets=len(rows))
    repeated_rows = [rows[owners == client] for client in exchange.repeats]
    repeated_rows = [row for row in repeated_rows if len(row) > 1]
    if not repeated_rows:
        return _verdict_fields(
            Verdict.INCONCLUSIVE,
            "lengths and distances are possible under the claim, but signal cannot be told from "
            "noise: no client repeats its upload (repeats:)",
            targets=len(rows),
        )
    return _from_repeats(repeated_rows, parts, claim, most_uploads(readable))


def most_uploads(uploads: list[Message]) -> int:
    """How often the busiest client uploaded."""
    counts: dict[int, int] = defaultdict(int)
    for message in uploads:
        for client in message.clients.numbers():
            counts[client] += 1
    return max(counts.values(), default=0)


def _upload_rows(uploads: list[Message]) -> tuple[Array, NDArray[np.int64]]:
    values = [message.value.flatten(1).double().numpy() for message in uploads]
    return np.concatenate(values), np.concatenate([message.clients.array() for message in uploads])


def _impossible_reason(rows: Array, parts: dict[str, slice], claim: Claim) -> str | None:
    """What cannot be under the claim, at ALPHA / 2 over all tests together. None where all can."""
    from scipy.stats import ncx2  # half a second that other audits need not pay

    alpha = ALPHA / 2 / (2 * len(parts) + 1)
    longest = math.sqrt((rows**2).sum(1).max())
    clip = (claim.clip_l2 / claim.sigma) ** 2
    allowed = claim.sigma * math.sqrt(ncx2.isf(alpha / len(rows), rows.shape[1], clip))
    if longest > allowed:
        return (
            f"an upload of length {longest:.3g} is longer than clip {claim.clip_l2:g} and sigma "
            f"{claim.sigma:g} allow ({allowed:.3g}): not clipped, or noised otherwise"
        )
    for name, part in parts.items():
        chosen = rows[:, part]
        spreads = {
            "an upload has length": (chosen**2).sum(1),
            "two uploads have distance": _pair_distances(chosen) / 2,
        }
        for what, squares in spreads.items():
            if not squares.size:
                continue
            least = claim.sigma**2 * chi2_quantile(alpha / squares.size, chosen.shape[1])
            if squares.min() < least:
                scale = 2 if what.startswith("two") else 1
                return (
                    f"{what} {math.sqrt(scale * squares.min()):.3g} in {name}; independent noise "
                    f"of sigma {claim.sigma:g} makes it {math.sqrt(scale * least):.3g} or more"
                )
    return None


def _pair_distances(rows: Array) -> Array:
    """Squared distances of all pairs, by differences: products would round identical rows apart."""
    found = [((rows[k + 1 :] - row) ** 2).sum(1) for k, row in enumerate(rows)]
    return np.concatenate(found)


def _from_repeats(
    repeated: list[Array], parts: dict[str, slice], claim: Claim, releases: int
) -> dict[str, Any]:
    """sum |y - mean y|^2 / sigma^2 is chi^2 with (uploads - 1) d degrees, for every client.

    The part with the least noise counts: neighbouring uploads may differ there alone.
    """
    spread_by_part = {}
    for name, part in parts.items():
        total = sum(float(((own - own.mean(0))[:, part] ** 2).sum()) for own in repeated)
        degrees = sum((len(own) - 1) * own[:, part].shape[1] for own in repeated)
        most = math.sqrt(total / chi2_quantile(ALPHA / 2 / len(parts), degrees))
        spread_by_part[name] = (most, math.sqrt(total / degrees), degrees)
    name, (most, sigma, degrees) = min(spread_by_part.items(), key=lambda entry: entry[1][0])
    lower = epsilon_of_mu(claim.sensitivity * math.sqrt(releases) / most, claim.delta)
    broken = most < claim.sigma and lower > claim.epsilon
    return _verdict_fields(
        Verdict.VIOLATION if broken else Verdict.NOT_DETECTED,
        f"repeats show sigma {sigma:.4g} in {name}, at most {most:.4g} ({claim.sigma:g} claimed); "
        f"{degrees} degrees of freedom",
        epsilon_lower=lower,
        estimator="variance of repeats",
        targets=degrees,
    )


def _verdict_fields(verdict: Verdict, because: str, **more: Any) -> dict[str, Any]:
    return {"verdict": verdict, "because": because, **more}
