"""A rough guess at how long a run takes, from its config and published sizes alone.

A client's epoch took 2.3 ms of CPU in FedAvg on Cora with ten clients (benchmarks/openfgl.py). The
guess is right within a factor of a few: it separates seconds from hours.
"""

from __future__ import annotations

from typing import Final

from securefg.settings.config import RunConfig
from securefg.settings.datasets import dataset_info

SECONDS_TO_START: Final = 5.0
SECONDS_PER_EPOCH: Final = 0.0025
NODES_PER_EPOCH: Final = 1000
"""Nodes of a client from which on its epochs take longer."""
SINGLE_NODES_AT_ONCE: Final = 50
"""Clients of one node each are computed together, about so many in the time of one."""

SECONDS_PER_AUDIT: Final = 15.0
"""An audit of a small run with every attack (configs/curve_green.yaml, docs/howto/curves.md)."""


def count_nodes(config: RunConfig) -> int | None:
    """Return the published number of nodes, or None if only the data tell."""
    drawn = config.data.csbm or config.data.subcora
    return drawn.num_nodes if drawn is not None else dataset_info(config.data.name).num_nodes


def forecast_seconds(config: RunConfig, nodes: int | None, clients: int | None) -> float | None:
    """Return the guess for one idle core, or None if the sizes are not known."""
    if nodes is None or clients is None:
        return None
    asked = max(1.0, clients * config.training.participation)
    share = max(1.0, nodes / clients / NODES_PER_EPOCH)
    if clients == nodes and clients > 1:
        share = 1 / SINGLE_NODES_AT_ONCE
    epochs = config.training.rounds * config.training.local_epochs * asked
    return SECONDS_TO_START + SECONDS_PER_EPOCH * epochs * share


def forecast_from_config(config: RunConfig) -> float | None:
    """Return the guess for a config whose data need not be there."""
    nodes = count_nodes(config)
    if nodes is None:
        return None
    clients = 1 if config.centralised else config.partition.count_clients(nodes)
    return forecast_seconds(config, nodes, clients)


def round_duration(seconds: float) -> str:
    """Return a guessed duration without false precision: `10 s`, `2 min`, `3 h`."""
    if seconds < 50:
        return f"{max(10, round(seconds, -1)):.0f} s"
    if seconds < 50 * 60:
        return f"{max(1, round(seconds / 60)):.0f} min"
    return f"{max(1, round(seconds / 3600)):.0f} h"
