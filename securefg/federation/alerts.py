"""Alerts: how many of the rare class are among the nodes that a model ranks first.

The second of two classes is the rare class. A client can look at so many alerts, or it flags all
nodes above a threshold that it chose on its own validation nodes. Both use the client's own nodes
alone and stay in the experiment. `share_precision` is what a deployed site may tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from securefg.data.graph import Split
from securefg.foundation.settings import Settings

MOST_ALERTS = 1000
LEAST_OF_EACH = 10
STEPS = (0.01, 0.02, 0.05, 0.1)
"""Average precision is told in one of these steps."""


class AlertScore(Settings):
    """A precision and recall of `alerts` alerts. Precision is None if there are none."""

    alerts: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True)
class AlertCounts:
    """A set of counts of one client's test nodes.

    positives  nodes of the second class
    hits       of the first 1, 2, 3, ... nodes in the model's order, those of the second class; ties
               count by their share, so that a model that says the same of all gains nothing
    flagged, caught  nodes above the threshold that is best on validation nodes, and those of the
               second class among them
    """

    positives: int
    hits: list[float]
    flagged: int
    caught: int

    def at(self, alerts: int) -> AlertScore:
        """Return precision and recall of so many alerts, or of all nodes if these are fewer."""
        number = min(alerts, len(self.hits))
        found = self.hits[number - 1] if number else 0.0
        return _alert_score(number, found, self.positives)

    @property
    def above_threshold(self) -> AlertScore:
        """Return precision and recall of the nodes above the threshold."""
        return _alert_score(self.flagged, self.caught, self.positives)


def _alert_score(alerts: int, found: float, positives: int) -> AlertScore:
    precision = found / alerts if alerts else None
    return AlertScore(
        alerts=alerts, precision=precision, recall=found / positives if positives else None
    )


@torch.no_grad()
def count_alerts(logits: Tensor, labels: Tensor, split: Split) -> AlertCounts | None:
    """Return the counts of a client's test nodes, or None unless there are two classes."""
    if logits.dim() != 2 or logits.shape[1] != 2 or not bool(split.test.any()):
        return None
    margins = (logits[:, 1] - logits[:, 0]).double()
    truth = labels == 1
    threshold = best_threshold(margins[split.val], truth[split.val])
    above = margins[split.test] > threshold
    return AlertCounts(
        positives=int(truth[split.test].sum()),
        hits=expected_hits(margins[split.test], truth[split.test]).tolist(),
        flagged=int(above.sum()),
        caught=int((above & truth[split.test]).sum()),
    )


def expected_hits(margins: Tensor, truth: Tensor) -> Tensor:
    """Return how many of the first 1, 2, ... nodes are true, in the mean over orders of ties."""
    values, group, sizes = torch.unique(margins, return_inverse=True, return_counts=True)
    rates = torch.zeros(len(values), dtype=torch.float64)
    rates = rates.index_add(0, group, truth.double()) / sizes
    hits: Tensor = rates[group[margins.argsort(descending=True)]].cumsum(0)
    return hits[:MOST_ALERTS]


def best_threshold(margins: Tensor, truth: Tensor) -> float:
    """Return the margin above which nodes are flagged so that F1 is largest, or 0 without any true.

    The threshold lies half way to the next lower margin, so that equal margins stay together.
    """
    if not bool(truth.any()):
        return 0.0
    ordered, order = margins.sort(descending=True)
    hits = truth[order].double().cumsum(0)
    flagged = torch.arange(1, len(ordered) + 1)
    lower = torch.cat([ordered[1:], ordered[-1:] - 1.0])
    scores = 2 * hits / (flagged + truth.sum())
    scores[ordered == lower] = -1.0
    best = int(scores.argmax())
    return float((ordered[best] + lower[best]) / 2)


def share_precision(average_precision: float, positives: int, negatives: int) -> float | None:
    """Return an average precision as a site may tell it: in coarse steps, of enough nodes.

    One node that a crafted model ranks first moves it by about 1 / positives, so the step is no
    smaller: a site of few positives tells as little of one node as accuracy in whole hundredths
    does for a hundred nodes. None where fewer than `LEAST_OF_EACH` nodes of either class were
    ranked.
    """
    if min(positives, negatives) < LEAST_OF_EACH:
        return None
    step = next(step for step in STEPS if step * positives >= 1 - 1e-9)
    return round(round(average_precision / step) * step, 2)
