"""`summary.json`: a finished run in one object; null stands for infinity, never NaN."""

from __future__ import annotations

import math
from typing import Any

from securefg.federation.evaluation import LocalScore
from securefg.federation.recorder import Traffic
from securefg.foundation.versions import versions
from securefg.privacy.accountants import Claim, claims
from securefg.privacy.ledger import Ledger
from securefg.protocol.codec import Size
from securefg.run.assembly import Experiment


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
) -> dict[str, Any]:
    config = experiment.config
    protects, delta = experiment.policy.protects, experiment.policy.delta
    best = next((m for m in metrics if m["round"] == best_round), {})
    return {
        "name": config.name,
        "method": config.method.name,
        "dataset": config.data.name,
        "seed": config.seed,
        "rounds": rounds,
        "best_round": best_round,
        "stopped": stopped,
        "test_accuracy": best.get("test_accuracy"),
        "val_accuracy": best.get("val_accuracy"),
        "val_loss": best.get("val_loss"),
        "train_loss": best.get("train_loss"),
        "local_test_accuracy": _local(local),
        "local_scores": {str(s.client): s.extra for s in local if s.extra},
        "bytes": {"up": _size(traffic.up), "down": _size(traffic.down)},
        "dropped": traffic.dropped,
        "aborted_rounds": sum(1 for line in metrics if line["aborted"]),
        "epsilon": {c.unit: claim_json(c, protects) for c in claims(ledger, delta)},
        "noise_protects": protects,
        "masked": {name: found.facts() for name, found in experiment.policy.masked.items()},
        "seconds": seconds,
        "attempts": attempts,
        "method_facts": facts,
        "device": str(experiment.public.device),
        "engine": config.engine.name,
        "versions": versions(),
        "config_hash": config.hash,
    }


def claim_json(claim: Claim, protects: bool) -> dict[str, Any]:
    """`epsilon` null and `private` false where a field left without noise; `because` names it.

    Seeded noise has the epsilon that real noise of its size would have, and is not private.
    """
    because = [*claim.because, *([] if protects or not claim.private else ["seeded noise"])]
    return {
        "epsilon": claim.epsilon if math.isfinite(claim.epsilon) else None,
        "delta": claim.delta,
        "private": not because,
        "because": because,
    }


def _local(scores: list[LocalScore]) -> dict[str, Any] | None:
    """The local goal: the released model on every client's own test nodes."""
    if not scores:
        return None
    correct, count = sum(s.test_correct for s in scores), sum(s.test_count for s in scores)
    by_client = {str(s.client): s.test_accuracy for s in scores} if len(scores) <= 256 else None
    known = [s.test_accuracy for s in scores if s.test_accuracy is not None]
    return {
        "pooled": correct / count if count else None,
        "mean_of_clients": sum(known) / len(known) if known else None,
        "by_client": by_client,
    }


def _size(size: Size) -> dict[str, int]:
    return {"payload": size.payload, "envelope": size.envelope}
