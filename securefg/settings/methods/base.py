"""The base of all methods' settings."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr

from securefg.foundation.settings import Settings


def _renamed(value: object) -> object:
    """Accept the earlier name `equal`."""
    return "clients" if value == "equal" else value


Weighting = Annotated[Literal["nodes", "clients"], BeforeValidator(_renamed)]
"""How clients count in a mean: by their number of nodes, or each alike."""


class MethodSettings(Settings):
    """The `method` part of a config; every method has its own."""

    name: str

    @property
    def chosen(self) -> dict[str, str]:
        """What a rule chose in this run, with its reason, by the setting's name."""
        return {}


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
        """Whether a client counts by its number of nodes."""
        chosen = "clients" if self._reason_to_count_alike else "nodes"
        return (self.weighting or chosen) == "nodes"

    def counting_alike(self, reason: str) -> Self:
        """Return the settings with clients counted alike, for this reason, if none is set."""
        chosen = self.model_copy()
        chosen._reason_to_count_alike = reason
        return chosen

    @property
    def chosen(self) -> dict[str, str]:
        """The weighting, where a rule chose it."""
        if self.weighting is not None or not self._reason_to_count_alike:
            return {}
        return {"method.weighting": f"clients: {self._reason_to_count_alike}"}
