"""The base of all methods' settings."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator

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

    def under_masks(self) -> Self:
        """Return the settings of a masked run, with all that masks decide chosen."""
        return self
