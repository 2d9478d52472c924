"""Settings of sums by pseudo label."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    """Propagation of the known labels, and the weight of a user's own features at home.

    The defaults of `sharpness` and `feature_weight` were compared on CiteSeer and PubMed, never on
    Cora (docs/reference/private_users.md).
    """

    name: Literal["pseudo_sums"] = "pseudo_sums"
    teleport: float = Field(0.1, gt=0, le=1, description="weight of a node's own label per step")
    steps: int = Field(50, ge=1, description="number of propagation steps")
    sharpness: float = Field(
        2.0, ge=1, description="power to which propagated labels are raised before they are used"
    )
    coordinates: int = Field(
        0,
        ge=0,
        description="so many spectral coordinates of the graph, on which a regression of the known "
        "labels multiplies the propagated shares; 0: propagation alone",
    )
    feature_weight: float = Field(
        3.0, ge=0, description="weight of the class scores of a user's features in its prediction"
    )
    later_rounds: Literal["predictions", "residuals"] = Field(
        "predictions",
        description="with several rounds: users contribute by their own prediction, or by what "
        "their pseudo label has beyond it, which improves P step by step and needs many users",
    )
    encoding: Literal["rates", "sums"] = Field(
        "rates",
        description="a feature's weight by class: its class rates, for words and categories, or "
        "its class sums, for measurements of either sign",
    )

    @property
    def baseline(self) -> str:
        """The server's own labels over its own graph, without asking any user."""
        return "label_propagation"
