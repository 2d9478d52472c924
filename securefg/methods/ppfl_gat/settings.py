"""Settings of PPFL-GNN with GAT."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from securefg.methods.ppfl.settings import ExchangeSettings


class Settings(ExchangeSettings):
    """The GAT of every client, and its exchange."""

    name: Literal["ppfl_gat"] = "ppfl_gat"
    hidden: int = Field(16, ge=1, description="number of units in the first layer, over all heads")
    heads: int = Field(4, ge=1, description="attention heads")
    dropout: float = Field(0.6, ge=0, lt=1, description="dropout rate")
    beta: float = Field(1.0, ge=0, description="weight of the embedding loss")
    start: Literal["own", "shared"] = Field(
        "own", description="initial weights: drawn by each client, or from a seed that all share"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"heads is {self.heads}; allowed: divisors of hidden, {self.hidden}")
        if self.exchange and self.alignment == "reference" and self.start == "own":
            raise ValueError(
                "start is 'own', and alignment: reference wants rows that all clients know; "
                "allowed: start: shared"
            )
        return self

    @property
    def embedding_columns(self) -> int:
        """Return columns of an embedding."""
        return self.hidden

    @property
    def layer(self) -> Literal["hidden"]:
        """Return the layer that made the rows: a hidden layer."""
        return "hidden"
