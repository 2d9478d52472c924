"""Settings of FedGL."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from securefg.settings.methods import NeighborSampling, WeightedSettings


class Settings(WeightedSettings):
    """Section 5.3.2 of the paper; what it leaves open (`fusion`, `embedding`, `degree`, `warmup`,
    `weighting`) defaults to what reproduces its tables."""

    name: Literal["fedgl"] = "fedgl"
    hidden: int = Field(16, ge=1, description="width of the hidden layer")
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout rate")
    pseudo_labels: bool = Field(True, description="train on pseudo labels too")
    pseudo_graph: bool = Field(True, description="add the pseudo graph to the clients' graphs")
    threshold: float = Field(
        0.5, ge=0, lt=1, description="lambda: least confidence of a pseudo label"
    )
    alpha: float = Field(0.2, ge=0, description="weight of the pseudo labels in the loss")
    beta: float = Field(1.0, ge=0, description="weight of the pseudo graph beside the own graph")
    num_neighbors: int = Field(100, ge=1, description="s: pseudo neighbours kept per node")
    exact_nodes: int = Field(
        20_000,
        ge=1,
        description="largest number of nodes whose pseudo neighbours are searched exactly; above, "
        "approximately (needs securefg[faiss]), and the summary has the recall",
    )
    fusion: Literal["paper", "renormalised"] = Field(
        "paper", description="divide a node's sum by the weight of all clients, or of its holders"
    )
    embedding: Literal["final", "hidden"] = Field(
        "final", description="layer whose output is uploaded"
    )
    degree: Literal["count", "weight"] = Field(
        "count", description="D of equation 9: number of pseudo neighbours, or their total weight"
    )
    loss: Literal["mean", "sum"] = Field(
        "mean", description="equations 7 and 8 over a set of nodes: mean, or the paper's sum"
    )
    upload: Literal["model", "update"] = Field(
        "model",
        description="upload the trained weights, or their change, which needs a smaller clip",
    )
    warmup: int = Field(0, ge=0, description="number of rounds before the pseudo graph is used")
    sampling: NeighborSampling = NeighborSampling()

    @property
    def uploads_rows(self) -> bool:
        """Return whether clients upload a row for each of their nodes."""
        return self.pseudo_labels or self.pseudo_graph

    @property
    def counts_holders(self) -> bool:
        """Return whether the fusion divides by the number of a node's holders."""
        return self.uploads_rows and self.fusion == "renormalised"

    @model_validator(mode="after")
    def _two_layers(self) -> Self:
        if len(self.sampling.fan_out) != 2:
            raise ValueError(
                f"sampling.fan_out has {len(self.sampling.fan_out)} numbers; the network has two "
                "layers, so allowed: two numbers"
            )
        return self
