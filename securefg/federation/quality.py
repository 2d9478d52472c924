"""Scores for tables with a rare class: balanced accuracy, macro F1, ROC AUC, average precision.

All but the last two follow from the confusion matrix, rows the true class and columns the predicted
one, so clients' nodes can be pooled. ROC AUC and average precision are means over the classes, each
against all others. For two classes they are the second's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from securefg.foundation.settings import Settings

Confusion = list[list[int]]
Ranks = tuple[float, float]
"""ROC AUC and average precision."""


class ClassScore(Settings):
    """One class: its nodes, and how they and the predictions of it fare."""

    count: int
    recall: float | None
    precision: float | None
    f1: float


class Quality(Settings):
    """A set of scores of a node classifier, or None where nobody told a score.

    majority  the accuracy of always naming the most frequent class
    """

    balanced_accuracy: float | None = None
    macro_f1: float | None = None
    roc_auc: float | None = None
    average_precision: float | None = None
    majority: float | None = None
    per_class: tuple[ClassScore, ...] = ()

    def with_ranks(self, ranks: Ranks | None) -> Quality:
        """Return the same scores with ROC AUC and average precision, if they are known."""
        if ranks is None:
            return self
        return self.model_copy(update={"roc_auc": ranks[0], "average_precision": ranks[1]})

    def figures(self) -> dict[str, float]:
        """Return the single numbers that are known, by name."""
        found = self.model_dump(exclude={"per_class"})
        return {name: value for name, value in found.items() if value is not None}


def quality_of(confusion: Tensor) -> Quality | None:
    """Return the scores of (C, C) counts, or None if there are no nodes. Classes without nodes do
    not count."""
    counts = confusion.double()
    truth, predicted_counts, right = counts.sum(1), counts.sum(0), counts.diagonal()
    if not bool(truth.sum() > 0):
        return None
    classes = tuple(
        ClassScore(
            count=int(n),
            recall=hit / n if n else None,
            precision=hit / named if named else None,
            f1=2 * hit / (n + named) if n + named else 0.0,
        )
        for n, named, hit in zip(
            truth.tolist(), predicted_counts.tolist(), right.tolist(), strict=True
        )
    )
    present = [one for one in classes if one.count]
    return Quality(
        balanced_accuracy=sum(one.recall or 0.0 for one in present) / len(present),
        macro_f1=sum(one.f1 for one in present) / len(present),
        majority=float(truth.max() / truth.sum()),
        per_class=classes,
    )


def quality_of_logits(logits: Tensor, labels: Tensor, mask: Tensor) -> Quality | None:
    """Return the scores of the nodes in the mask, ranks included."""
    rows, wanted = logits[mask].double(), labels[mask]
    found = quality_of(confusion_of(rows.argmax(-1), wanted, logits.shape[-1]))
    if found is None:
        return None
    return found.with_ranks(ranks_of(logits, labels, mask))


def ranks_of(logits: Tensor, labels: Tensor, mask: Tensor) -> Ranks | None:
    """Return the ranks of the nodes in the mask, or None if they are of one class."""
    rows, wanted = logits[mask].double(), labels[mask]
    chosen = [1] if rows.shape[1] == 2 else list(range(rows.shape[1]))
    so = wanted == torch.tensor(chosen, device=wanted.device)[:, None]
    return mean_ranks([(pair, 1) for pair in _rank_classes(rows.softmax(-1).T[chosen], so)])


def mean_ranks(weighted_ranks: Sequence[tuple[Ranks, int]]) -> Ranks | None:
    """Return the mean of ranks, each counting by its weight, or None if there are none."""
    total = sum(weight for _, weight in weighted_ranks)
    if not total:
        return None
    area, precision = (
        sum(pair[i] * weight for pair, weight in weighted_ranks) / total for i in (0, 1)
    )
    return area, precision


def confusion_of(predicted: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return (C, C): rows the true class."""
    place = labels * num_classes + predicted
    return torch.bincount(place.flatten(), minlength=num_classes**2).reshape(num_classes, -1)


def _rank_classes(scores: Tensor, is_of_class: Tensor) -> list[Ranks]:
    """Return ROC AUC and average precision of every class against all others, where both have
    nodes. Ties count as one step. Scores and whether they are of the class: (C, n)."""
    ones = is_of_class.sum(1)
    known = (ones > 0) & (ones < is_of_class.shape[1])
    if not bool(known.any()):
        return []
    ordered, order = scores[known].sort(dim=1, descending=True)
    hit, ones = is_of_class[known].gather(1, order).double(), ones[known].double()
    first, last = _tied_places(ordered)
    until = hit.cumsum(1)
    above, before = until.gather(1, last), (until - hit).gather(1, first)
    area = ((1 - hit) * (above + before) / 2).sum(1) / (ones * (is_of_class.shape[1] - ones))
    precision = (hit * above / (last + 1)).sum(1) / ones
    return list(zip(area.tolist(), precision.tolist(), strict=True))


def _tied_places(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """Return for every place of sorted rows the first and the last place with the same value."""
    place = torch.arange(ordered.shape[1], device=ordered.device).expand_as(ordered)
    changes, end = ordered.diff(dim=1) != 0, torch.ones_like(ordered[:, :1], dtype=torch.bool)
    first = place.where(torch.cat([end, changes], 1), 0).cummax(1).values
    ends = place.where(torch.cat([changes, end], 1), ordered.shape[1])
    return first, ends.flip(1).cummin(1).values.flip(1)
