"""A network of your own, for `method: {name: fedavg, network: residual.Residual}`."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv


class Residual(nn.Module):
    """Two convolutions beside a linear map of the node's own features."""

    def __init__(self, num_features: int, num_classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.first = SAGEConv(num_features, hidden)
        self.second = SAGEConv(hidden, num_classes)
        self.own = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.own(x) + self.second(torch.relu(self.first(x, edge_index)), edge_index)
