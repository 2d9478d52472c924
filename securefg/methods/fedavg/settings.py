"""Settings of federated averaging of any network."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from securefg.settings.methods import MethodSettings, NeighborSampling, Optimizer, Weighting


class Settings(MethodSettings):
    """`network` is a model of torch-geometric (GCN, GraphSAGE, GAT, MLP, …), or the module path of
    a class or function of your own that takes (num_features, num_classes, **arguments) and gives a
    `torch.nn.Module` over (x, edge_index). With the argument `edge_dim` the network gets the edges'
    features as `edge_attr`: GAT has that, and networks of your own."""

    name: Literal["fedavg"] = "fedavg"
    network: str = Field("GCN", description="a torch-geometric model, or my_package.models.Net")
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="arguments of the network: hidden_channels, num_layers, heads, …",
    )
    optimizer: Optimizer = Field("adam", description="the clients' optimizer")
    proximal: float = Field(
        0.0, ge=0, description="FedProx: weight of the squared distance to the global model, halved"
    )
    upload: Literal["model", "update"] = Field(
        "update",
        description="upload the trained weights, or their change, which needs a smaller clip",
    )
    weighting: Weighting = Field(
        "clients",
        description="weight clients by number of nodes, or count each alike, which uploads no size",
    )
    sampling: NeighborSampling = NeighborSampling()

    def libraries(self, private_training: bool) -> list[str]:
        """Return the libraries: torch-geometric for networks, and Opacus for gradients of their
        samples."""
        more = ["opacus"] if private_training else []
        return ["torch_geometric.nn", *super().libraries(private_training), *more]
