"""The settings of the exchange in both methods of PPFL-GNN."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from pydantic import Field

from securefg.settings.methods import MethodSettings


class ExchangeSettings(MethodSettings):
    """What both methods say about the exchange."""

    exchange: bool = Field(True, description="false: every client trains by itself (LOC)")
    alignment: Literal["pairwise", "reference"] = Field(
        "pairwise", description="the server rotates every upload, or each client rotates its own"
    )
    aggregation: Literal["mean", "degree"] = Field(
        "mean", description="weight clients equally, or by the node's degree at each client"
    )

    @property
    @abstractmethod
    def embedding_columns(self) -> int:
        """Return columns of an upload that are the embedding. Further ones are skip-gram's
        contexts."""

    @property
    def width(self) -> int:
        """Return columns of an upload."""
        return self.embedding_columns

    @property
    @abstractmethod
    def layer(self) -> Literal["hidden", "walks"]:
        """Return what made the rows: a network's hidden layer, or random walks."""
