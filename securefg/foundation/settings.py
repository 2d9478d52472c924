"""The base of all settings: frozen, unknown keys forbidden, numbers finite."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A part of a config. Parsed once, at the edge; never changed after."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )
