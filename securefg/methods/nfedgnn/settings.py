"""Settings of nFedGNN."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    """The paper's networks; `smoothness` is its lambda."""

    name: Literal["nfedgnn"] = "nfedgnn"
    network: Literal["gcn", "gat"] = Field("gcn", description="the network")
    hidden: int = Field(16, ge=1, description="dimension of a latent, per head")
    heads: int = Field(
        8, ge=1, description="number of heads in a GAT's first layer; not used by GCN"
    )
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout at the server; users apply none")
    smoothness: float = Field(1.0, ge=0, description="lambda: weight of the regulariser")
    init: Literal["shared", "private"] = Field(
        "shared", description="all W_i start from the same draw, or each user draws its own"
    )
    missing: Literal["keep", "zero"] = Field(
        "keep", description="for a user that did not reply: use its last latent, or none"
    )
    average: bool = Field(
        False, description="CNFGNN: users also upload W_i; the server averages and broadcasts it"
    )
    upload: Literal["latents", "neighbourhood_sums"] = Field(
        "latents",
        description="upload latents, or parts of neighbourhood sums, which can be masked (GCN)",
    )

    @property
    def width(self) -> int:
        """Return how many numbers a user uploads."""
        return self.hidden * (self.heads if self.network == "gat" else 1)

    @model_validator(mode="after")
    def _averaged_weights_start_alike(self) -> Self:
        if self.average and self.init != "shared":
            raise ValueError("average: true wants init: shared, since all users go on from one W")
        return self

    @model_validator(mode="after")
    def _sums_suffice(self) -> Self:
        """Raise an error if sums are asked for and a setting needs single latents. Return the
        settings."""
        needs = {
            "network: gat": self.network == "gat" and "attention compares every two latents",
            "smoothness > 0": self.smoothness > 0 and "it compares every two neighbours' latents",
            "missing: keep": self.missing == "keep" and "a latent must be known to be kept",
            "average: true": self.average and "CNFGNN sends its latents one by one",
        }
        for what, why in needs.items():
            if self.upload == "neighbourhood_sums" and why:
                raise ValueError(f"upload: neighbourhood_sums cannot go with {what}: {why}")
        return self
