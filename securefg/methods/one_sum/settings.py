"""Settings of one private sum."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    """Who sees the answers is not a choice here: every client predicts for its own nodes."""

    name: Literal["one_sum"] = "one_sum"
    encoding: Literal["rates", "sums"] = Field(
        "rates",
        description="a feature's weight by class: its class rates, for words and categories, or "
        "its class sums, for measurements of either sign",
    )

    @property
    def remedies(self) -> tuple[str, ...]:
        """Return what helps where noise drowns the sum."""
        return ("more labels", "a larger epsilon")

    @property
    def baseline(self) -> str:
        """Return the method that shows what clients reach alone."""
        return "best_alone"
