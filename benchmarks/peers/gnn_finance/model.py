"""The network of NVIDIA FLARE's GNN example on transactions, and Cora in place of Elliptic++.

FLARE's example deals the labelled transactions at random to the sites. Elliptic++ has no copy where
these figures were made. Cora's nodes are dealt at random, and a fifth is held by no site. A site
knows the links between its own nodes.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.io import read_planetoid_data
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import subgraph

FEATURES, HIDDEN, CLASSES, HELD_OUT = 1433, 64, 7, 0.2


class SAGE(nn.Module):
    """Three GraphSAGE layers with log-probabilities at the end, as in FLARE's example."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [FEATURES, HIDDEN, HIDDEN, CLASSES]
        self.convs = nn.ModuleList(SAGEConv(before, after) for before, after in pairwise(sizes))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for conv in self.convs[:-1]:
            x = conv(x, edges).relu()
        return functional.log_softmax(self.convs[-1](x, edges), -1)


class Alone(SAGE):
    """The same network for nodes without links: the auditor knows features and no neighbours."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, torch.empty(2, 0, dtype=torch.long))


@cache
def load_cora() -> tuple[Data, Tensor, Tensor]:
    """Return Cora, its nodes that sites hold, and the nodes that no site holds."""
    graph = read_planetoid_data(os.environ["SECUREFG_DATA"] + "/Planetoid/Cora/raw", "cora")
    order = torch.from_numpy(np.random.default_rng(0).permutation(graph.num_nodes))
    cut = int(HELD_OUT * graph.num_nodes)
    return graph, order[cut:], order[:cut]


def load_graph(site: int | None, sites: int) -> Data:
    """Return the graph of a site's nodes, or of those that no site holds."""
    graph, held, rest = load_cora()
    nodes = (rest if site is None else torch.tensor_split(held, sites)[site]).sort().values
    edges, _ = subgraph(nodes, graph.edge_index, relabel_nodes=True, num_nodes=graph.num_nodes)
    return Data(x=graph.x[nodes], y=graph.y[nodes], edge_index=edges)


def load_part(site: int | None, sites: int) -> tuple[Tensor, Tensor]:
    """Return features and labels of a site's nodes, all of which are trained on."""
    graph = load_graph(site, sites)
    return graph.x, graph.y


def score_network(net: nn.Module, sites: int) -> float:
    """Return the accuracy on nodes that no site holds."""
    graph = load_graph(None, sites)
    with torch.no_grad():
        return float((net(graph.x, graph.edge_index).argmax(1) == graph.y).float().mean())
