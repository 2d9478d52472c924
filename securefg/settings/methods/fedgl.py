"""Settings of FedGL."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.settings.methods.base import MethodSettings

Degree = Literal["count", "weight"]


class Settings(MethodSettings):
    """Section 5.3.2 of the paper; what it leaves open (`fusion`, `embedding`, `degree`, `warmup`,
    `weighting`) defaults to what reproduces its tables."""

    name: Literal["fedgl"] = "fedgl"
    hidden: int = Field(16, ge=1)
    dropout: float = Field(0.5, ge=0, lt=1)
    pseudo_labels: bool = Field(True, description="enrich the training labels")
    pseudo_graph: bool = Field(True, description="complement the graph structure")
    threshold: float = Field(0.5, ge=0, lt=1, description="lambda: confidence of a pseudo label")
    alpha: float = Field(0.2, ge=0, description="weight of the pseudo labels in the loss")
    beta: float = Field(1.0, ge=0, description="weight of the pseudo graph beside the client's own")
    num_neighbors: int = Field(100, ge=1, description="s: pseudo neighbours kept per node")
    fusion: Literal["paper", "renormalised"] = Field(
        "paper", description="divide by all clients' weight, or by that of a node's holders"
    )
    embedding: Literal["final", "hidden"] = Field("final", description="the layer that is uploaded")
    degree: Degree = Field(
        "count", description="D of equation 9: a node's pseudo neighbours, or their weights"
    )
    upload: Literal["model", "update"] = Field(
        "model", description="the trained weights, or their change: the same sum, a smaller clip"
    )
    warmup: int = Field(0, ge=0, description="rounds before the pseudo graph is used")
    weighting: Literal["nodes", "equal"] = Field(
        "nodes", description="clients count by their nodes, or alike (then no size is uploaded)"
    )
