"""A split from which nothing can be learnt, chosen or said is refused; a missing class is told."""

from __future__ import annotations

import warnings

from securefg.data.graph import Graph
from securefg.foundation.errors import ConfigError
from securefg.settings.execution import TrainingSettings


def check_split(graph: Graph, training: TrainingSettings) -> None:
    """Of all clients' nodes together."""
    split = graph.split
    for name, mask in (("training", split.train), ("test", split.test)):
        if not bool(mask.any()):
            raise ConfigError(f"data.split: no client holds a {name} node; wanted at least one")
    selects = training.keep == "best" or training.patience is not None
    if selects and not bool(split.val.any()):
        raise ConfigError(
            "data.split: no client holds a validation node, and the kept model is chosen by them; "
            "allowed: a split with validation nodes, or training.keep: last with patience: null"
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
