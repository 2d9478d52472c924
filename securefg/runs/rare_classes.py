"""Choices for runs with a rare class: what is monitored, and how the loss weighs the classes.

The choice follows from the classes' shares. They are public where the config gives them
(`training.class_shares`), else they are counted from training labels, which no epsilon covers.
"""

from __future__ import annotations

from typing import Final

import torch

from securefg.data.graph import Graph
from securefg.data.tabular.schema import RARE_ABOVE
from securefg.foundation.errors import ConfigError
from securefg.methods.base import AnyMethod
from securefg.settings.config import RunConfig
from securefg.settings.execution import TrainingSettings

MONITOR: Final = "val_average_precision"
COUNTED: Final = "shares of the classes in training labels, by which {} chosen"


def choose_for_rare_classes(config: RunConfig, method: AnyMethod, graph: Graph | None) -> RunConfig:
    """Return the config with the monitor and the loss chosen, where a class has most labels.

    graph  all clients' nodes, in an experiment; None at a deployed server, which has no labels
    """
    training = config.training
    if training.loss == "balanced":
        _refuse_unweighted(method, training)
    shares = training.class_shares or (None if graph is None else _count_shares(graph))
    if shares is None or max(shares) <= RARE_ABOVE:
        return config
    why = f"{max(shares):.0%} of the labels are of one class"
    chosen: dict[str, str] = {}
    if training.monitor == "either":
        chosen["monitor"] = MONITOR
    if training.loss is None and method.weighs_classes and training.noise_in_training is None:
        chosen["loss"] = "balanced"
    if not chosen:
        return config
    return config.model_copy(update={"training": training.with_choices(chosen, why)})


def _refuse_unweighted(method: AnyMethod, training: TrainingSettings) -> None:
    """Raise ConfigError if a method cannot weigh classes. Weights from labels would carry one node
    into all others' gradients, past their clips."""
    if not method.weighs_classes or training.noise_in_training is not None:
        why = "private training" if method.weighs_classes else f"method.name: {method.name}"
        raise ConfigError(f"training.loss: found balanced; expected plain with {why}")


def _count_shares(graph: Graph) -> tuple[float, ...] | None:
    if graph.labels.dim() != 1:
        return None
    counts = torch.bincount(graph.labels[graph.split.train], minlength=graph.num_classes)
    return tuple((counts / counts.sum().clamp_min(1)).tolist())


def uncovered_choices(config: RunConfig) -> tuple[str, ...]:
    """Return what was chosen by counting labels, for the list of what no epsilon covers."""
    chosen = config.training.chosen
    if not chosen or config.training.class_shares is not None:
        return ()
    names = " and ".join(chosen)
    return (COUNTED.format(f"{names} {'were' if len(chosen) > 1 else 'was'}"),)
