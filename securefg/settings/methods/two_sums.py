"""Settings of two private sums."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.settings.methods.base import MethodSettings


class FeatureSettings(MethodSettings):
    """What is left out follows from public sizes: `scale` from `links`, and whether a first sum is
    needed from the number of features."""

    graph: bool = Field(True, description="false: a node's own features alone; links do not count")
    links: int = Field(
        20, ge=0, description="k: epsilon per node is for nodes with at most this many links"
    )
    scale: float | None = Field(
        None, gt=0, description="d0: neighbours' sums are divided by it; by default max(1, k/3)"
    )
    encoding: Literal["rates", "sums"] = Field(
        "rates",
        description="a feature's weight by class: its class rates, for words and categories, or "
        "its class sums, for measurements of either sign",
    )
    narrow: int = Field(
        32, ge=0, description="up to this many features, nodes keep them and no first sum is taken"
    )

    @property
    def divisor(self) -> float:
        return max(1.0, self.links / 3) if self.scale is None else self.scale


class Settings(FeatureSettings):
    name: Literal["two_sums"] = "two_sums"
