"""The score that a curve compares: the one that its runs monitor, on the test nodes."""

from __future__ import annotations

from securefg.federation.quality import Quality
from securefg.run.summary import Summary
from securefg.settings.config import RunConfig

OTHERS = ("balanced_accuracy", "macro_f1", "roc_auc", "average_precision")


def monitored(config: RunConfig) -> str:
    name = config.training.monitor.removeprefix("val_")
    return name if name in OTHERS else "accuracy"


def score_of(summary: Summary, score: str) -> float | None:
    if score == "accuracy":
        return summary.test_accuracy
    found = summary.test_scores
    return None if found is None else found.figures().get(score)


def no_skill(found: Quality | None, score: str) -> float | None:
    """The score of always naming the most frequent class; None where it is not known."""
    if found is None:
        return None
    counts = [one.count for one in found.per_class]
    present, share = sum(1 for n in counts if n), found.majority
    rare = counts[1] if len(counts) == 2 else sum(counts) / max(present, 1)
    levels = {
        "accuracy": share,
        "balanced_accuracy": 1 / present,
        "macro_f1": 2 * share / (1 + share) / present,
        "roc_auc": 0.5,
        "average_precision": rare / sum(counts),
    }
    return levels[score]
