"""The settings that all methods share, and the place of each method's own.

A shipped method is a folder of securefg/methods with an algorithm: the folder is the registry. Its
`settings` are read without its code, so that reading a config imports no torch.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr

from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module, installed
from securefg.foundation.settings import Settings

GROUP: Final = "securefg.methods"
SHIPPED: Final = {
    path.parent.name: f"{GROUP}.{path.parent.name}.algorithm"
    for path in sorted((Path(__file__).parents[1] / "methods").glob("*/algorithm.py"))
}
"""The module of every shipped method, by the method's name."""


def method_names() -> list[str]:
    """Return all that a config may name without a module path."""
    return sorted({*SHIPPED, *installed(GROUP)})


def method_settings(name: str) -> type[MethodSettings]:
    """Return the settings of a method. A shipped method's code is not imported."""
    if name in SHIPPED:
        module = importlib.import_module(f"{GROUP}.{name}.settings")
        found: type[MethodSettings] = module.Settings
        return found
    method = getattr(find_module("method.name", name, SHIPPED, GROUP), "METHOD", None)
    settings = getattr(method, "settings", None)
    if not (isinstance(settings, type) and issubclass(settings, MethodSettings)):
        raise ConfigError(
            f"method.name: found module {name!r} without METHOD; expected METHOD with settings of "
            "its own"
        )
    return settings


def _accept_earlier_name(value: object) -> object:
    """Accept the earlier name `equal`."""
    return "clients" if value == "equal" else value


Weighting = Annotated[Literal["nodes", "clients"], BeforeValidator(_accept_earlier_name)]
"""How clients count in a mean: by their number of nodes, or each alike."""


Optimizer = Literal["adam", "sgd"]


class MethodSettings(Settings):
    """The `method` part of a config; every method has its own."""

    name: str

    @property
    def chosen(self) -> dict[str, str]:
        """Return what a rule chose in this run, with its reason, by the setting's name."""
        return {}

    def libraries(self, private_training: bool) -> list[str]:
        """Return the modules that every host needs beside the method's own, to be imported once."""
        # torch._dynamo is loaded with the first gradient of a sample
        return ["torch._dynamo"] if private_training else []

    @property
    def remedies(self) -> tuple[str, ...]:
        """Return what helps where noise drowns the sums, for `securefg plan`."""
        return ("more nodes", "a larger epsilon")

    @property
    def baseline(self) -> str:
        """Return the method that shows what clients could train alone, for `securefg plan`."""
        return ""


class WeightedSettings(MethodSettings):
    """Settings of a method that weights clients, or chooses by rule whether to do so."""

    weighting: Weighting | None = Field(
        None,
        description="weight clients by number of nodes, or count each alike, which uploads no "
        "size; null: nodes, and clients where rows of nodes are masked",
    )
    _reason_to_count_alike: str = PrivateAttr("")

    @property
    def is_weighted_by_nodes(self) -> bool:
        """Return whether a client counts by its number of nodes."""
        chosen = "clients" if self._reason_to_count_alike else "nodes"
        return (self.weighting or chosen) == "nodes"

    def counting_alike(self, reason: str) -> Self:
        """Return the settings with clients counted alike, for this reason, if none is set."""
        chosen = self.model_copy()
        chosen._reason_to_count_alike = reason
        return chosen

    @property
    def chosen(self) -> dict[str, str]:
        """Return the weighting, where a rule chose it."""
        if self.weighting is not None or not self._reason_to_count_alike:
            return {}
        return {"method.weighting": f"clients: {self._reason_to_count_alike}"}


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
