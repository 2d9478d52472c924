"""The base of all settings: frozen, unknown keys forbidden, numbers finite."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class Settings(BaseModel):
    """A part of a config. Parsed once, at the edge; never changed after."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


def explain_fault(error: Exception) -> str:
    """Return why a file is not what was expected: of a parsed one, the first wrong key."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
