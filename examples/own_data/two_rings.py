"""A dataset and a partition of one's own: two rings of accounts, dealt to banks in arcs."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Generator

from securefg.data.dataset import Dataset, Source, boolean_mask
from securefg.data.graph import Graph
from securefg.data.partition import Partition, Scheme
from securefg.settings.datasets import DatasetInfo
from securefg.settings.partition import PartitionSettings

RING = 60


def read(root: Path | None, stream: Generator) -> Dataset:
    """Draw the features around the ring's sign; a reader of files would open them below `root`."""
    nodes = torch.arange(2 * RING)
    labels = nodes // RING
    order = torch.randperm(2 * RING, generator=stream)
    train, val, test = (boolean_mask(part, 2 * RING)[None] for part in order.split((60, 20, 40)))
    return Dataset(
        features=(2.0 * labels[:, None] - 1) + torch.randn(2 * RING, 8, generator=stream),
        edge_index=torch.stack([nodes, labels * RING + (nodes + 1) % RING]),
        labels=labels,
        train=train,
        val=val,
        test=test,
    )


class ArcSettings(PartitionSettings):
    """The keys below `partition`; unknown keys are refused."""

    summary: ClassVar[str] = "neighbouring accounts at one bank"
    disjoint: ClassVar[bool] = True

    num_clients: int = 3


def draw(graph: Graph, settings: ArcSettings, stream: np.random.Generator) -> Partition:
    """Cut the circle of all accounts at a drawn place into equal arcs."""
    nodes = np.roll(np.arange(graph.num_nodes), int(stream.integers(graph.num_nodes)))
    arcs = [torch.from_numpy(arc) for arc in np.array_split(nodes, settings.num_clients)]
    return Partition.of(settings.name, graph.num_nodes, arcs)


DATASET = Source(
    DatasetInfo("two rings", "two rings of accounts", 120, 120, 8, 2, norm="none"), read
)
PARTITION = Scheme(ArcSettings, draw)
