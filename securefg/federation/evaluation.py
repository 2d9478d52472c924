"""Scores: how good a released model is, on the union graph or on each client's own nodes.

Evaluation belongs to the experiment, not to the federation: it sees the held-out labels, the server
does not. Only the validation score comes back into a run, through early stopping. No epsilon covers
that, and the report says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.data.graph import Graph, Split
from securefg.federation.alerts import AlertCounts, count_alerts
from securefg.federation.quality import (
    Confusion,
    Quality,
    Ranks,
    confusion_of,
    mean_ranks,
    quality_of,
    quality_of_logits,
    ranks_of,
)
from securefg.foundation.ranks import average_ranks
from securefg.protocol.messages import Message

MANY_CLIENTS = 500
MOST_COUNTS = 4_000_000
"""From so many clients on, counts by class are made at the end of a run alone, up to this number of
counts over all clients."""


@dataclass(frozen=True)
class Scores:
    """A model on one graph: losses are means, accuracies are shares.

    val, test  further scores of the validation and test nodes, where they can be computed
    """

    train_loss: float
    val_loss: float
    val_accuracy: float
    test_accuracy: float
    val: Quality | None = None
    test: Quality | None = None
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LocalScore:
    """A model on one client's own nodes, as counts so that clients can be pooled.

    train_count  by how much the training loss counts in the pool: 0 where the client trains nothing
    extra        a method's own scores, by name
    val_confusion, test_confusion  counts by true and predicted class, row by row; None in a run of
                 many clients before its end; no deployed site tells them
    val_ranks, test_ranks  ROC AUC and average precision, where a client has nodes of two classes
    val_precision, test_precision  average precision as a deployed site tells it, in coarse steps
    alerts       of two classes, how the second's nodes are ranked; no deployed site tells it
    rows         what the experiment compares between clients (a method's `compare`); client data,
                 so no deployed site tells it
    """

    client: int
    train_loss: float
    val_loss: float
    val_correct: int
    val_count: int
    test_correct: int
    test_count: int
    train_count: int = 1
    extra: dict[str, float] = field(default_factory=dict)
    rows: list[list[float]] | None = None
    val_confusion: Confusion | None = None
    test_confusion: Confusion | None = None
    val_ranks: Ranks | None = None
    test_ranks: Ranks | None = None
    val_precision: float | None = None
    test_precision: float | None = None
    alerts: AlertCounts | None = None

    def __post_init__(self) -> None:
        if isinstance(self.alerts, dict):  # as it comes from another process
            object.__setattr__(self, "alerts", AlertCounts(**self.alerts))

    @property
    def test_accuracy(self) -> float | None:
        """Return the share of right test nodes, or None if the client has none."""
        return self.test_correct / self.test_count if self.test_count else None

    def reached(self, monitor: str) -> float:
        """Return the client's own score by which it keeps a model. Accuracy where it has no
        other."""
        if monitor == "val_loss":
            return -self.val_loss
        by_rank = {"val_roc_auc": 0, "val_average_precision": 1}
        if self.val_ranks is not None and monitor in by_rank:
            return self.val_ranks[by_rank[monitor]]
        return self.val_correct / max(self.val_count, 1)


class Evaluator(ABC):
    """A scorer of what a server released."""

    @abstractmethod
    def score(self, release: Message) -> Scores:
        """Score a released model."""

    def answers(self, release: Message) -> Tensor | None:
        """Return the released model's logits for every node when queried, (N, C), or None."""
        return None


class UnionGoal(Evaluator):
    """A released model on the union graph.

    logits  the answers for all nodes, from what was released
    """

    def __init__(self, union: Graph, logits: Callable[[Message], Tensor]) -> None:
        self._graph, self._logits = union, logits

    def score(self, release: Message) -> Scores:
        """Score the model over the union's own split."""
        return score_logits(self._logits(release), self._graph.labels, self._graph.split)

    def answers(self, release: Message) -> Tensor:
        """Return the logits of every node."""
        return self._logits(release)


@torch.no_grad()
def score_logits(logits: Tensor, labels: Tensor, split: Split) -> Scores:
    """Return scores of a node classifier over the three masks."""
    correct = logits.argmax(-1) == labels
    return Scores(
        train_loss=_mean_loss(logits, labels, split.train),
        val_loss=_mean_loss(logits, labels, split.val),
        val_accuracy=_mean_correct(correct, split.val),
        test_accuracy=_mean_correct(correct, split.test),
        val=quality_of_logits(logits, labels, split.val),
        test=quality_of_logits(logits, labels, split.test),
    )


@torch.no_grad()
def score_locally(client: int, logits: Tensor, labels: Tensor, split: Split) -> LocalScore:
    """Return one client's scores from logits (n, C), labels (n,) and the split of its nodes."""
    correct = logits.argmax(-1) == labels
    return LocalScore(
        client=client,
        train_loss=_mean_loss(logits, labels, split.train),
        val_loss=_mean_loss(logits, labels, split.val),
        val_correct=int(correct[split.val].sum()),
        val_count=int(split.val.sum()),
        test_correct=int(correct[split.test].sum()),
        test_count=int(split.test.sum()),
        val_confusion=_confusion_counts(logits, labels, split.val),
        test_confusion=_confusion_counts(logits, labels, split.test),
        val_ranks=ranks_of(logits, labels, split.val),
        test_ranks=ranks_of(logits, labels, split.test),
        alerts=count_alerts(logits, labels, split),
    )


@torch.no_grad()
def score_clients(
    clients: list[int], logits: Tensor, labels: Tensor, split: Split, *, at_end: bool = False
) -> list[LocalScore]:
    """Return scores of many clients at once: logits (n, S, C), labels (-1: none) and masks (n,
    S).

    at_end  whether the run is over, so that counts by class may take their time
    """
    logits, labels, split = logits.cpu(), labels.cpu(), split.to("cpu")
    losses = cross_entropy(logits.transpose(1, 2), labels, reduction="none", ignore_index=-1)
    correct = logits.argmax(-1) == labels
    counts = [mask.sum(1) for mask in (split.train, split.val, split.test)]
    sums = [(losses * mask).sum(1) for mask in (split.train, split.val)]
    hits = [(correct & mask).sum(1) for mask in (split.val, split.test)]
    means = [total / count.clamp_min(1) for total, count in zip(sums, counts, strict=False)]
    columns = [*means, hits[0], counts[1], hits[1], counts[2], counts[0]]
    rows = zip(clients, *(column.tolist() for column in columns), strict=True)
    scores = [LocalScore(*row) for row in rows]
    numbers = len(scores) * logits.shape[2] ** 2
    if len(scores) > MANY_CLIENTS and not (at_end and numbers <= MOST_COUNTS):
        return scores
    confusions = (_client_confusions(logits, labels, mask) for mask in (split.val, split.test))
    return [
        replace(score, val_confusion=val, test_confusion=test)
        for score, val, test in zip(scores, *confusions, strict=True)
    ]


def pool_scores(scores: list[LocalScore]) -> Scores:
    """Return the score over all clients' held-out nodes. A node that two clients hold counts twice.
    Ranks are of each client's own model among its own nodes, and their mean weights clients by
    these."""
    val_count = sum(s.val_count for s in scores)
    test_count = sum(s.test_count for s in scores)
    train_count = sum(s.train_count for s in scores)
    return Scores(
        train_loss=sum(s.train_loss * s.train_count for s in scores) / max(train_count, 1),
        val_loss=sum(s.val_loss * s.val_count for s in scores) / max(val_count, 1),
        val_accuracy=sum(s.val_correct for s in scores) / max(val_count, 1),
        test_accuracy=sum(s.test_correct for s in scores) / max(test_count, 1),
        val=_pool_quality([(s.val_confusion, s.val_ranks, s.val_count) for s in scores])
        or _told_quality([(s.val_precision, s.val_count) for s in scores]),
        test=_pool_quality([(s.test_confusion, s.test_ranks, s.test_count) for s in scores])
        or _told_quality([(s.test_precision, s.test_count) for s in scores]),
    )


def area_under_curve(margins: Tensor, labels: Tensor) -> float:
    """Return ROC AUC: the chance that a node of class 1 has a larger margin than one of class 0."""
    ranks = torch.from_numpy(average_ranks(margins.numpy()))
    positive = labels == 1
    above, below = int(positive.sum()), int((~positive).sum())
    if not above or not below:
        return 0.5
    return float((ranks[positive].sum() - above * (above + 1) / 2) / (above * below))


def _pool_quality(clients: list[tuple[Confusion | None, Ranks | None, int]]) -> Quality | None:
    """Return the sum of all clients' counts, or None if any client's counts are not known."""
    known = [found for found, _, _ in clients if found is not None]
    if not known or len(known) < len(clients):
        return None
    found = quality_of(torch.tensor(known).sum(0))
    ranks = mean_ranks([(pair, count) for _, pair, count in clients if pair is not None])
    return None if found is None else found.with_ranks(ranks)


def _told_quality(clients: list[tuple[float | None, int]]) -> Quality | None:
    """Return the mean of the average precisions that sites told, or None if none did."""
    known = [(value, count) for value, count in clients if value is not None]
    total = sum(count for _, count in known)
    if not total:
        return None
    return Quality(average_precision=sum(value * count for value, count in known) / total)


def _confusion_counts(logits: Tensor, labels: Tensor, mask: Tensor) -> Confusion:
    predicted = logits.argmax(-1)[mask]
    found: Confusion = confusion_of(predicted, labels[mask], logits.shape[-1]).tolist()
    return found


def _client_confusions(logits: Tensor, labels: Tensor, mask: Tensor) -> list[Confusion]:
    """Return the confusion counts of every client. A client's labels are among all clients'
    classes."""
    clients, samples = mask.nonzero(as_tuple=True)
    num_clients, _, num_classes = logits.shape
    predicted = logits.argmax(-1)[clients, samples]
    place = (clients * num_classes + labels[clients, samples]) * num_classes + predicted
    counts = torch.bincount(place, minlength=num_clients * num_classes**2)
    found: list[Confusion] = counts.reshape(num_clients, num_classes, num_classes).tolist()
    return found


def _mean_loss(logits: Tensor, labels: Tensor, mask: Tensor) -> float:
    return float(cross_entropy(logits[mask], labels[mask])) if bool(mask.any()) else 0.0


def _mean_correct(correct: Tensor, mask: Tensor) -> float:
    return float(correct[mask].double().mean()) if bool(mask.any()) else 0.0
