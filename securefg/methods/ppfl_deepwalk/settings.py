"""Settings of PPFL-GNN with DeepWalk."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from securefg.methods.ppfl.settings import ExchangeSettings


class Settings(ExchangeSettings):
    """`training.local_epochs` is the number of walks from every node per round, `training.lr` the
    rate of skip-gram."""

    name: Literal["ppfl_deepwalk"] = "ppfl_deepwalk"
    dim: int = Field(16, ge=1, description="dimensions of an embedding")
    walk_length: int = Field(40, ge=2, description="nodes of a walk")
    window: int = Field(5, ge=1, description="context window of skip-gram")
    negatives: int = Field(5, ge=1, description="negative samples per pair")
    start: Literal["own", "shared"] = Field(
        "own",
        description="initial public rows: drawn by each client, or from a seed that all share",
    )
    share: Literal["embedding", "model"] = Field(
        "embedding", description="upload the public nodes' embeddings, or their context vectors too"
    )
    schedule: Literal["round", "run"] = Field(
        "round", description="decay the learning rate within every round, or over the whole run"
    )
    scoring: Literal["cross_validation", "split"] = Field(
        "cross_validation",
        description="MLP and SVC at the end: five folds of the client's own nodes, or the "
        "training nodes against the test nodes of data.split",
    )

    @model_validator(mode="after")
    def _a_reference_is_common(self) -> Self:
        if self.exchange and self.alignment == "reference" and self.start == "own":
            raise ValueError(
                "start is 'own', and alignment: reference wants rows that all clients know; "
                "allowed: start: shared"
            )
        return self

    @property
    def embedding_columns(self) -> int:
        """Return columns of an embedding."""
        return self.dim

    @property
    def layer(self) -> Literal["walks"]:
        """Return the layer that made the rows: random walks."""
        return "walks"

    @property
    def width(self) -> int:
        """Return columns of an upload."""
        return self.dim if self.share == "embedding" else 2 * self.dim
