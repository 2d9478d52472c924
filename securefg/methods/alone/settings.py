"""Settings of training alone."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from securefg.settings.methods import MethodSettings, Optimizer


class Settings(MethodSettings):
    """No network has a bias. With `training.monitor: val_loss` the weights with the lowest
    validation loss are kept, else the most accurate ones."""

    name: Literal["alone"] = "alone"
    network: Literal["gcn", "gat", "graphsage", "appnp", "mlp"] = Field(
        "gcn", description="the network"
    )
    hidden: int = Field(16, ge=1, description="number of hidden units; for gat, over all heads")
    heads: int = Field(8, ge=1, description="number of attention heads in gat's first layer")
    readout: Literal["attention", "linear"] = Field(
        "attention", description="output of gat: its second layer, or a linear layer after it"
    )
    teleport: float = Field(0.1, gt=0, le=1, description="alpha of appnp")
    steps: int = Field(10, ge=0, description="M of appnp: number of propagation steps")
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout rate")
    optimizer: Optimizer = Field("adam", description="the clients' optimizer")

    @model_validator(mode="after")
    def _heads_are_alike(self) -> Self:
        if self.network == "gat" and self.hidden % self.heads:
            raise ValueError(f"hidden is {self.hidden}; allowed: a multiple of heads, {self.heads}")
        return self
