"""Settings of clients that use their own sums alone."""

from __future__ import annotations

from typing import Literal

from securefg.methods.two_sums.settings import FeatureSettings


class Settings(FeatureSettings):
    """As of two_sums."""

    name: Literal["own_sums"] = "own_sums"
