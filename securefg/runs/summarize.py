"""A finished run, put into its summary."""

from __future__ import annotations

from typing import Any

from securefg.federation.evaluation import LocalScore
from securefg.federation.quality import Quality
from securefg.federation.recorder import Traffic
from securefg.foundation.versions import list_versions
from securefg.privacy.ledger import Ledger
from securefg.protocol.codec import Size
from securefg.runs.assembly import Setup, with_truth
from securefg.runs.divergence import only_finite
from securefg.runs.epsilons import claim_epsilons
from securefg.runs.fingerprints import digest_of, fingerprints_of
from securefg.runs.summary import (
    BothWays,
    ByteCount,
    ClientAlerts,
    LocalAccuracy,
    Recovered,
    Summary,
)
from securefg.settings.execution import TrainingSettings

MOST_CLIENTS = 256


def summarize_run(
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
    committee: str | None,
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
        test_scores=_with_shares(quality[1], config.training),
        local_test_accuracy=_local_accuracy(local),
        local_scores={str(s.client): only_finite(s.extra) for s in local if s.extra},
        bytes=BothWays(up=_byte_count(traffic.up), down=_byte_count(traffic.down)),
        dropped=traffic.dropped,
        aborted_rounds=sum(1 for line in metrics if line["aborted"]),
        epsilon=claim_epsilons(experiment, ledger),
        noise_protects=experiment.policy.protects,
        masked={name: found.facts() for name, found in experiment.policy.masked.items()},
        masking_trusts_the_server=None if masking is None else not masking.malicious,
        masking_keys=None if masking is None else masking.keys,
        masking_committee=committee,
        blamed={str(client): reason for client, reason in blamed.items()},
        seconds=seconds,
        attempts=attempts,
        chosen={**config.method.chosen, **config.training.chosen},
        monitor=_monitored_score(config.training, quality[0]),
        alerts=_client_alerts(local, config.training.alerts),
        method_facts=facts,
        device=str(experiment.public.device),
        engine=config.engine.name,
        versions=list_versions(),
        config_hash=config.hash,
        recovered_by_algebra=None if recovered is None else Recovered(**recovered),
        transcript_chain=chain,
        fingerprints=digest_of(fingerprints_of(known)) if known else None,
    )


def _with_shares(quality: Quality | None, training: TrainingSettings) -> Quality | None:
    """Return what sites told, beside the declared share of the most frequent class."""
    if quality is None or quality.per_class or training.class_shares is None:
        return quality
    return quality.model_copy(update={"majority": max(training.class_shares)})


def _monitored_score(training: TrainingSettings, quality: Quality | None) -> str:
    """Return the monitored score, or accuracy if a rule chose a score that the nodes do not
    have."""
    known = {} if quality is None else quality.figures()
    if training.monitor.removeprefix("val_") in known or "training.monitor" not in training.chosen:
        return training.monitor
    return "val_accuracy"


def _client_alerts(scores: list[LocalScore], number: int | None) -> dict[str, ClientAlerts]:
    """Return every client's own alerts. They are left out if there are very many clients."""
    if len(scores) > MOST_CLIENTS:
        return {}
    return {
        str(score.client): ClientAlerts(
            positives=score.alerts.positives,
            average_precision=None if score.test_ranks is None else score.test_ranks[1],
            first=None if number is None else score.alerts.at(number),
            threshold=score.alerts.above_threshold,
        )
        for score in scores
        if score.alerts is not None
    }


def _local_accuracy(scores: list[LocalScore]) -> LocalAccuracy | None:
    """Return the local goal: the released model on every client's own test nodes."""
    if not scores:
        return None
    correct, count = sum(s.test_correct for s in scores), sum(s.test_count for s in scores)
    by_client = (
        {str(s.client): s.test_accuracy for s in scores} if len(scores) <= MOST_CLIENTS else None
    )
    known = [s.test_accuracy for s in scores if s.test_accuracy is not None]
    return LocalAccuracy(
        pooled=correct / count if count else None,
        mean_of_clients=sum(known) / len(known) if known else None,
        by_client=by_client,
    )


def _byte_count(size: Size) -> ByteCount:
    return ByteCount(payload=size.payload, envelope=size.envelope)
