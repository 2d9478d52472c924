"""Which nodes train, validate and test; checks of a split, and wrong labels in training."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.dataset import Dataset, boolean_mask
from securefg.data.graph import Graph, Split
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import numpy_stream
from securefg.settings.data import SplitSettings
from securefg.settings.execution import TrainingSettings

# ACM and Wiki come without a split. Theirs is drawn once, from this seed, whatever the run's is.
FIXED_SEED = 20
_DRAWN_ONCE = ("acm", "wiki")


def choose_split(name: str, dataset: Dataset, settings: SplitSettings, seed: int) -> Split:
    """The public split `settings.index`, or one drawn from the stream "split"."""
    if settings.kind == "shares":
        return draw_shares(dataset.labels, settings, numpy_stream(seed, "split"))
    if settings.kind == "folds":
        return draw_folds(dataset.labels, settings, numpy_stream(seed, "split"))
    if settings.kind == "random":
        return draw_split(dataset.labels, settings, numpy_stream(seed, "split"))
    if name in _DRAWN_ONCE:
        _check_index(name, settings.index, 1)
        return draw_split(dataset.labels, SplitSettings(), numpy_stream(FIXED_SEED, "split", name))
    _check_index(name, settings.index, dataset.num_splits)
    at = settings.index
    return Split(dataset.train[at], dataset.val[at], dataset.test[at])


def draw_split(labels: torch.Tensor, settings: SplitSettings, stream: np.random.Generator) -> Split:
    """`labels_per_class` nodes of every class, then validation and test nodes from the rest.

    A class that has no more nodes than `labels_per_class` gives half of them, so that there are
    some left to test on (Wiki has classes of 9, 10 and 11 nodes).
    """
    order = _labelled_nodes(stream.permutation(len(labels)), labels)
    train = _per_class(order, labels.numpy(), settings.labels_per_class)
    rest = order[~np.isin(order, train)]
    wanted = settings.num_val + settings.num_test
    if wanted > len(rest):
        raise ConfigError(
            f"data.split: num_val {settings.num_val} + num_test {settings.num_test} = {wanted} "
            f"nodes; allowed: up to {len(rest)}, which {len(labels)} nodes less {len(train)} for "
            "training leave"
        )
    parts = (train, rest[: settings.num_val], rest[settings.num_val : wanted])
    return Split(*(boolean_mask(torch.from_numpy(part), len(labels)) for part in parts))


def draw_shares(
    labels: torch.Tensor, settings: SplitSettings, stream: np.random.Generator
) -> Split:
    """The same shares of every class train and validate; all others test."""
    if settings.train_share + settings.val_share >= 1:
        raise ConfigError(
            f"data.split: train_share {settings.train_share} + val_share {settings.val_share} "
            "leaves nothing to test on; allowed: a sum below 1"
        )
    order = stream.permutation(len(labels))
    parts: tuple[list[NDArray[np.int64]], ...] = ([], [], [])
    for label in range(int(labels.max()) + 1):
        members = order[labels.numpy()[order] == label]
        first = int(settings.train_share * len(members))
        second = int((settings.train_share + settings.val_share) * len(members))
        for part, chosen in zip(parts, np.split(members, [first, second]), strict=True):
            part.append(chosen)
    return Split(
        *(boolean_mask(torch.from_numpy(np.concatenate(part)), len(labels)) for part in parts)
    )


def draw_folds(labels: torch.Tensor, settings: SplitSettings, stream: np.random.Generator) -> Split:
    """Every class dealt over the folds in turn; of what does not test, every tenth validates."""
    order = _labelled_nodes(stream.permutation(len(labels)), labels)
    order = order[np.argsort(labels.numpy()[order], kind="stable")]
    fold = np.arange(len(order)) % settings.num_folds
    rest = stream.permutation(order[fold != settings.fold])
    parts = (rest[len(rest) // 10 :], rest[: len(rest) // 10], order[fold == settings.fold])
    return Split(*(boolean_mask(torch.from_numpy(part), len(labels)) for part in parts))


def _labelled_nodes(order: NDArray[np.int64], labels: torch.Tensor) -> NDArray[np.int64]:
    """Without the nodes that have no label: they neither train nor are scored."""
    return order[labels.numpy()[order] >= 0]


def _per_class(
    order: NDArray[np.int64], labels: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    chosen = []
    for label in range(int(labels.max()) + 1):
        members = order[labels[order] == label]
        if len(members) < 2:
            raise ConfigError(
                f"data.split.labels_per_class: {count}, but class {label} has {len(members)} "
                "nodes; allowed: classes of 2 nodes or more"
            )
        chosen.append(members[: count if len(members) > count else len(members) // 2])
    return np.concatenate(chosen)


def _check_index(name: str, index: int, num_splits: int) -> None:
    if num_splits == 0:
        raise ConfigError(
            f"data.split.kind: 'public', but {name} has no split (a folder's is split.csv); "
            "allowed: random"
        )
    if index >= num_splits:
        raise ConfigError(f"data.split.index: {index}; allowed for {name}: 0 to {num_splits - 1}")


def check_split(graph: Graph, training: TrainingSettings) -> None:
    """Of all clients' nodes together."""
    split = graph.split
    for name, chosen in (("training", split.train), ("test", split.test)):
        if not bool(chosen.any()):
            raise ConfigError(f"data.split: no client holds a {name} node; wanted at least one")
    selects = training.final_model == "best" or training.patience is not None
    if selects and not bool(split.val.any()):
        raise ConfigError(
            "data.split: no client holds a validation node, and the kept model is chosen by them; "
            "allowed: a split with validation nodes, or training.final_model: last with "
            "patience: null"
        )
    if graph.num_classes < 2:
        raise ConfigError("data: every node is of one class; wanted two or more to tell apart")
    trained = set(graph.labels[split.train.expand_as(graph.labels)].tolist())
    missing = sorted(set(range(graph.num_classes)) - trained)
    if missing:
        warnings.warn(
            f"data.split: no training node is of class {', '.join(map(str, missing[:10]))}: no "
            "model can learn it, and its nodes count as wrong",
            stacklevel=2,
        )


def with_label_noise(graph: Graph, share: float, stream: np.random.Generator) -> Graph:
    """`share` of the training nodes get another class, uniformly; no other label changes."""
    if not share:
        return graph
    if graph.labels.dim() != 1:
        raise ConfigError(f"data.label_noise: {share}; allowed for samples with labels apart: 0")
    train = graph.split.train.nonzero()[:, 0].numpy()
    chosen = torch.from_numpy(stream.permutation(train)[: round(share * len(train))])
    shift = torch.from_numpy(stream.integers(1, graph.num_classes, len(chosen)))
    labels = graph.labels.clone()
    labels[chosen] = (labels[chosen] + shift) % graph.num_classes
    return replace(graph, labels=labels)
