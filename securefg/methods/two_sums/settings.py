"""Settings of two private sums."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

from pydantic import Field, PrivateAttr

from securefg.foundation.errors import ConfigError
from securefg.settings.methods import MethodSettings


class Divisor(NamedTuple):
    """A divisor d0 as a rule chose it, and why, in words."""

    value: float
    why: str


class FeatureSettings(MethodSettings):
    """What is left out follows from public sizes: `scale` from them, `links` and the noise
    (`features.with_divisor`), and whether a first sum is needed from the number of features."""

    graph: bool = Field(True, description="false: a node's own features alone; links do not count")
    links: int = Field(
        20, ge=0, description="k: epsilon per node is for nodes with at most this many links"
    )
    scale: float | None = Field(
        None,
        gt=0,
        description="d0: neighbours' sums are divided by it; by default as the rule has it for "
        "these sizes and this noise, which `securefg plan` tells",
    )
    encoding: Literal["rates", "sums"] = Field(
        "rates",
        description="a feature's weight by class: its class rates, for words and categories, or "
        "its class sums, for measurements of either sign",
    )
    narrow: int = Field(
        32, ge=0, description="up to this many features, nodes keep them and no first sum is taken"
    )
    link_columns: int = Field(
        0,
        ge=0,
        description="so many features, the last ones, are sums over links to which each link adds "
        "a vector no longer than 1 (`transfers` in tables.yaml); they need graph: false",
    )
    _by_rule: Divisor | None = PrivateAttr(None)

    def with_divisor(self, chosen: Divisor) -> Self:
        """Return the same settings, which still say that the rule was asked."""
        found = self.model_copy()
        found._by_rule = chosen
        return found

    @property
    def divisor(self) -> float:
        """Return d0. Raise ConfigError before the rule was asked: the distance that a node moves
        depends on it, and parties with different divisors would break the claim."""
        if self.scale is not None:
            return self.scale
        if self._by_rule is None:
            raise ConfigError("method.scale: not set, and not chosen by the rule yet")
        return self._by_rule.value

    @property
    def reads_links(self) -> bool:
        """Whether a link moves anything but its own ends' labels and columns."""
        return self.graph or self.link_columns > 0

    @property
    def chosen(self) -> dict[str, str]:
        """Return what a rule chose, with its reason, by the setting's name."""
        if self.scale is not None or self._by_rule is None:
            return {}
        return {"method.scale": f"{self._by_rule.value:.4g}: {self._by_rule.why}"}

    @property
    def remedies(self) -> tuple[str, ...]:
        """Return what helps where noise drowns the sums."""
        fewer = "fewer links covered", "features alone (method.graph=false)"
        return ("more nodes", *fewer, "a larger epsilon")

    @property
    def baseline(self) -> str:
        """Return the method that shows what clients reach alone."""
        return "best_alone"


class Settings(FeatureSettings):
    """Two sums, and who sees the answers."""

    name: Literal["two_sums"] = "two_sums"
    answers: Literal["home", "shown"] = Field(
        "home",
        description="who sees the prediction for a node: its own client alone, or others too; no "
        "epsilon covers answers that are shown",
    )
