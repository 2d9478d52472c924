"""The score that a run monitors: its name, its value on test nodes, and that of one class."""

from __future__ import annotations

from securefg.federation.quality import Quality
from securefg.runs.summary import Summary
from securefg.settings.config import RunConfig

OTHERS = ("balanced_accuracy", "macro_f1", "roc_auc", "average_precision")


def monitored_name(config: RunConfig, summary: Summary | None = None) -> str:
    """Return the name of the test score that belongs to the monitored one.

    The summary knows what a rule chose. Without one, the config's own word counts.
    """
    chosen = None if summary is None else summary.monitor
    name = (chosen or config.training.monitor).removeprefix("val_")
    return name if name in OTHERS else "accuracy"


def score_of(summary: Summary, score: str) -> float | None:
    """Return a run's score by its name, or None if it has none."""
    if score == "accuracy":
        return summary.test_accuracy
    found = summary.test_scores
    return None if found is None else found.figures().get(score)


def explain_useless(config: RunConfig, summary: Summary) -> str:
    """Return why a run's model is useless: it is no better than always naming one class.

    Return empty text if it is better, or if that is not known.
    """
    score = monitored_name(config, summary)
    value, one_class = score_of(summary, score), no_skill(summary.test_scores, score)
    if value is None or one_class is None or value > one_class:
        return ""
    return (
        f"NO BETTER THAN ONE CLASS: {score.replace('_', ' ')} {value:.3f}; always naming the most "
        f"frequent class has {one_class:.3f}. Figures about this run describe a useless model."
    )


def no_skill(quality: Quality | None, score: str) -> float | None:
    """Return the score of always naming the most frequent class, or None if it is not known."""
    if quality is None or quality.majority is None:
        return None
    if not quality.per_class:  # told by sites: the shares of two classes are declared
        known = {"accuracy": quality.majority, "average_precision": 1 - quality.majority}
        return known.get(score)
    counts = [one.count for one in quality.per_class]
    present, share = sum(1 for n in counts if n), quality.majority
    rare = counts[1] if len(counts) == 2 else sum(counts) / max(present, 1)
    levels = {
        "accuracy": share,
        "balanced_accuracy": 1 / present,
        "macro_f1": 2 * share / (1 + share) / present,
        "roc_auc": 0.5,
        "average_precision": rare / sum(counts),
    }
    return levels[score]
