"""Settings of label propagation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    """Personalised propagation of the known labels."""

    name: Literal["label_propagation"] = "label_propagation"
    teleport: float = Field(0.1, gt=0, le=1, description="weight of a node's own label per step")
    steps: int = Field(50, ge=1, description="number of propagation steps")
    coordinates: int = Field(
        0,
        ge=0,
        description="so many spectral coordinates of the graph, on which a regression of the known "
        "labels multiplies the propagated shares; 0: propagation alone",
    )
