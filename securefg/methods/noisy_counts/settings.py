"""Settings of noisy label counts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, PrivateAttr

from securefg.foundation.errors import ConfigError
from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    """Who is covered, and what enters a published prediction."""

    name: Literal["noisy_counts"] = "noisy_counts"
    links: int = Field(
        100, ge=1, description="k: epsilon per node is for nodes with at most this many links"
    )
    own_features: bool = Field(
        True,
        description="a node's published prediction uses its own features, which no epsilon covers; "
        "false: it follows from the released counts alone",
    )
    encoding: Literal["rates", "sums"] = Field(
        "rates",
        description="a feature's weight by class: its class rates, for words and categories, or "
        "its class sums, for measurements of either sign",
    )

    counts_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="share of the budget for the counts; by default .7, or .88 where the last sum "
        "is clear of its noise",
    )
    _by_rule: tuple[float, str] | None = PrivateAttr(None)

    def with_share(self, share: float, why: str) -> Self:
        """Return the settings with the share that the rule chose, and why."""
        found = self.model_copy()
        found._by_rule = share, why
        return found

    @property
    def shares(self) -> tuple[float, float, float]:
        """Return the shares of 1 / multiplier^2 for the three sums.

        They are refused before the rule was asked: parties with different shares would break the
        claim.
        """
        counts = self.counts_share
        if counts is None:
            if self._by_rule is None:
                raise ConfigError("method.counts_share: not set, and not chosen by the rule yet")
            counts = self._by_rule[0]
        return (1 - counts) / 3, counts, 2 * (1 - counts) / 3

    @property
    def chosen(self) -> dict[str, str]:
        """The share of the counts, where the rule chose it."""
        if self.counts_share is not None or self._by_rule is None:
            return {}
        return {"method.counts_share": f"{self._by_rule[0]:g}: {self._by_rule[1]}"}

    @property
    def remedies(self) -> tuple[str, ...]:
        """What helps where noise drowns the sums."""
        return ("more nodes", "fewer links covered", "a larger epsilon")

    @property
    def baseline(self) -> str:
        """Return the method that shows what silos reach alone."""
        return "best_alone"
