"""When and how clients train on samples of neighbourhoods instead of their whole graph."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from securefg.foundation.settings import Settings


class NeighborSampling(Settings):
    """Steps on batches of labelled nodes, each with some neighbours of neighbours (Hamilton et al.
    2017); a local epoch is then a pass over the batches."""

    above: int = Field(
        200_000,
        ge=0,
        description="clients with more nodes train on sampled neighbourhoods, others on their "
        "whole graph",
    )
    batch_size: int = Field(1024, ge=1, description="number of labelled nodes per step")
    fan_out: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (10, 10),
        min_length=1,
        description="number of neighbours drawn per node, for every layer of the network, from "
        "the labelled nodes outwards",
    )
