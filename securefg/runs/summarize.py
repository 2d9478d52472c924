"""A finished run, put into its summary."""

from __future__ import annotations

from typing import Any

from securefg.federation.evaluation import LocalScore
from securefg.federation.quality import Quality
from securefg.federation.recorder import Traffic
from securefg.foundation.versions import versions
from securefg.privacy.ledger import Ledger
from securefg.protocol.codec import Size
from securefg.runs.assembly import Setup, with_truth
from securefg.runs.divergence import only_finite
from securefg.runs.epsilons import epsilons
from securefg.runs.fingerprints import digest_of, fingerprints_of
from securefg.runs.summary import (
    BothWays,
    ByteCount,
    LocalAccuracy,
    Recovered,
    Summary,
)


def summarize(
    experiment: Setup,
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
    blamed: dict[int, str],
    chain: str,
    quality: tuple[Quality | None, Quality | None] = (None, None),
) -> Summary:
    """Return the summary of a finished run: scores, claims, traffic and choices."""
    config, known = experiment.config, with_truth(experiment)
    best = next((m for m in metrics if m["round"] == best_round), {})
    masking = config.privacy.secure_aggregation
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
        val_scores=quality[0],
        test_scores=quality[1],
        local_test_accuracy=_local(local),
        local_scores={str(s.client): only_finite(s.extra) for s in local if s.extra},
        bytes=BothWays(up=_size(traffic.up), down=_size(traffic.down)),
        dropped=traffic.dropped,
        aborted_rounds=sum(1 for line in metrics if line["aborted"]),
        epsilon=epsilons(experiment, ledger),
        noise_protects=experiment.policy.protects,
        masked={name: found.facts() for name, found in experiment.policy.masked.items()},
        masking_trusts_the_server=None if masking is None else not masking.malicious,
        masking_keys=None if masking is None else masking.keys,
        blamed={str(client): reason for client, reason in blamed.items()},
        seconds=seconds,
        attempts=attempts,
        chosen=config.method.chosen,
        method_facts=facts,
        device=str(experiment.public.device),
        engine=config.engine.name,
        versions=versions(),
        config_hash=config.hash,
        recovered_by_algebra=None if recovered is None else Recovered(**recovered),
        transcript_chain=chain,
        fingerprints=digest_of(fingerprints_of(known)) if known else None,
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
