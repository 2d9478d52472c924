"""A GraphSAGE network on Cora for Flower's template: it takes the place of the template's task.py.

Nodes are dealt at random to the sites. A site knows the links between its own nodes alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.io import read_planetoid_data
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import subgraph

FEATURES, CLASSES, HELD_OUT = 1433, 7, 0.2


class Net(nn.Module):
    """Two GraphSAGE layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = SAGEConv(FEATURES, 32)
        self.conv2 = SAGEConv(32, CLASSES)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.conv2(torch.relu(self.conv1(x, edges)), edges)


class Alone(Net):
    """The same network for nodes without links: the auditor knows features and no neighbours."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, torch.empty(2, 0, dtype=torch.long))


@dataclass(frozen=True)
class Nodes:
    """Nodes of one graph whose labels are used, in one batch."""

    graph: Data
    dataset: Tensor

    def __iter__(self) -> Iterator[Nodes]:
        return iter([self])

    def __len__(self) -> int:
        return 1


@cache
def load_graph() -> tuple[Data, tuple[Tensor, Tensor]]:
    """Return Cora, its nodes that sites hold, and the nodes that no site holds."""
    graph = read_planetoid_data(os.environ["SECUREFG_DATA"] + "/Planetoid/Cora/raw", "cora")
    order = torch.from_numpy(np.random.default_rng(0).permutation(graph.num_nodes))
    cut = int(HELD_OUT * graph.num_nodes)
    return graph, (order[cut:], order[:cut])


def keep_nodes(nodes: Tensor) -> Data:
    """Return the graph of these nodes and the links between them."""
    graph, _ = load_graph()
    edges, _ = subgraph(nodes, graph.edge_index, relabel_nodes=True, num_nodes=graph.num_nodes)
    # `subgraph` numbers nodes in ascending order.
    held = nodes.sort().values
    return Data(x=graph.x[held], y=graph.y[held], edge_index=edges)


def load_data(partition_id: int, num_partitions: int) -> tuple[Nodes, Nodes]:
    """Return a site's nodes for training and for testing."""
    _, (held, _) = load_graph()
    own = keep_nodes(torch.tensor_split(held, num_partitions)[partition_id])
    order = torch.from_numpy(np.random.default_rng(42).permutation(own.num_nodes))
    cut = int(HELD_OUT * len(order))
    return Nodes(own, order[cut:]), Nodes(own, order[:cut])


def load_held_out() -> Nodes:
    """Return the nodes that no site holds, with the links between them."""
    _, (_, rest) = load_graph()
    graph = keep_nodes(rest)
    return Nodes(graph, torch.arange(len(rest)))


def train(net: Net, trainloader: Nodes, epochs: int, lr: float, device: torch.device) -> float:
    """Train as the template does, with Adam. Return the mean loss."""
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    net.train()
    total = 0.0
    for _ in range(epochs):
        for batch in trainloader:
            optimizer.zero_grad()
            scores = net(batch.graph.x, batch.graph.edge_index)[batch.dataset]
            loss = functional.cross_entropy(scores, batch.graph.y[batch.dataset])
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / epochs


@torch.no_grad()
def test(net: Net, testloader: Nodes, device: torch.device) -> tuple[float, float]:
    """Return the loss and the accuracy."""
    net.eval()
    scores = net(testloader.graph.x, testloader.graph.edge_index)[testloader.dataset]
    labels = testloader.graph.y[testloader.dataset]
    loss = functional.cross_entropy(scores, labels).item()
    return loss, (scores.argmax(1) == labels).float().mean().item()
