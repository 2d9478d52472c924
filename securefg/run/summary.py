"""`summary.json`: a finished run in one versioned object, also what pages read.

None stands for infinity; there is never a NaN.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError

from securefg.federation.evaluation import LocalScore
from securefg.federation.recorder import Traffic
from securefg.foundation.errors import RunFolderError
from securefg.foundation.settings import Settings
from securefg.foundation.versions import versions
from securefg.privacy.accountants import Claim, claims
from securefg.privacy.ledger import Ledger, Unit
from securefg.protocol.codec import Size
from securefg.run.assembly import Experiment

FORMAT: Final = 4


class ClaimedEpsilon(Settings):
    """`epsilon` None and `private` false where a field left without noise; `because` names it.

    Seeded noise has the epsilon that real noise of its size would have, and is not private.
    """

    epsilon: float | None
    delta: float
    private: bool
    because: tuple[str, ...]


class ByteCount(Settings):
    payload: int
    envelope: int

    @property
    def total(self) -> int:
        return self.payload + self.envelope


class BothWays(Settings):
    up: ByteCount
    down: ByteCount


class LocalAccuracy(Settings):
    """The released model on every client's own test nodes."""

    pooled: float | None
    mean_of_clients: float | None
    by_client: dict[str, float | None] | None


class Recovered(Settings):
    """What algebra recovers from the masked sums."""

    sessions: int
    smallest_cohort: int
    contributions_recoverable: int
    node_rows_recoverable: int | None


class Summary(Settings):
    """A finished run."""

    format: int = FORMAT
    name: str
    method: str
    dataset: str
    seed: int
    rounds: int
    best_round: int
    stopped: str
    test_accuracy: float | None
    val_accuracy: float | None
    val_loss: float | None
    train_loss: float | None
    local_test_accuracy: LocalAccuracy | None
    local_scores: dict[str, dict[str, float]] = Field(default_factory=dict)
    bytes: BothWays
    dropped: int
    aborted_rounds: int
    epsilon: dict[Unit, ClaimedEpsilon]
    noise_protects: bool
    masked: dict[str, dict[str, Any]] = Field(default_factory=dict)
    recovered_by_algebra: Recovered | None = None
    seconds: float
    attempts: int
    method_facts: dict[str, float] = Field(default_factory=dict)
    device: str
    engine: str
    versions: dict[str, str]
    config_hash: str
    transcript_chain: str


def read_summary(path: Path) -> Summary:
    """Refuses what is damaged, and what another version wrote."""
    try:
        return Summary.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        where = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
        raise RunFolderError(
            f"{path}: not the summary of a run of this version ({where})"
        ) from error


def summarize(
    experiment: Experiment,
    ledger: Ledger,
    metrics: list[dict[str, Any]],
    local: list[LocalScore],
    traffic: Traffic,
    *,
    rounds: int,
    best_round: int,
    stopped: str,
    seconds: float,
    attempts: int,
    facts: dict[str, float],
    recovered: dict[str, Any] | None,
    chain: str,
) -> Summary:
    config = experiment.config
    protects, delta = experiment.policy.protects, experiment.policy.delta
    best = next((m for m in metrics if m["round"] == best_round), {})
    return Summary(
        name=config.name,
        method=config.method.name,
        dataset=config.data.name,
        seed=config.seed,
        rounds=rounds,
        best_round=best_round,
        stopped=stopped,
        test_accuracy=best.get("test_accuracy"),
        val_accuracy=best.get("val_accuracy"),
        val_loss=best.get("val_loss"),
        train_loss=best.get("train_loss"),
        local_test_accuracy=_local(local),
        local_scores={str(s.client): s.extra for s in local if s.extra},
        bytes=BothWays(up=_size(traffic.up), down=_size(traffic.down)),
        dropped=traffic.dropped,
        aborted_rounds=sum(1 for line in metrics if line["aborted"]),
        epsilon={c.unit: claimed(c, protects) for c in claims(ledger, delta)},
        noise_protects=protects,
        masked={name: found.facts() for name, found in experiment.policy.masked.items()},
        seconds=seconds,
        attempts=attempts,
        method_facts=facts,
        device=str(experiment.public.device),
        engine=config.engine.name,
        versions=versions(),
        config_hash=config.hash,
        recovered_by_algebra=None if recovered is None else Recovered(**recovered),
        transcript_chain=chain,
    )


def claimed(claim: Claim, protects: bool) -> ClaimedEpsilon:
    because = [*claim.because, *([] if protects or not claim.private else ["seeded noise"])]
    return ClaimedEpsilon(
        epsilon=claim.epsilon if math.isfinite(claim.epsilon) else None,
        delta=claim.delta,
        private=not because,
        because=tuple(because),
    )


def _local(scores: list[LocalScore]) -> LocalAccuracy | None:
    """The local goal: the released model on every client's own test nodes."""
    if not scores:
        return None
    correct, count = sum(s.test_correct for s in scores), sum(s.test_count for s in scores)
    by_client = {str(s.client): s.test_accuracy for s in scores} if len(scores) <= 256 else None
    known = [s.test_accuracy for s in scores if s.test_accuracy is not None]
    return LocalAccuracy(
        pooled=correct / count if count else None,
        mean_of_clients=sum(known) / len(known) if known else None,
        by_client=by_client,
    )


def _size(size: Size) -> ByteCount:
    return ByteCount(payload=size.payload, envelope=size.envelope)
