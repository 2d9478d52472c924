"""The base of all settings: frozen, unknown keys forbidden, numbers finite."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator


class Settings(BaseModel):
    """A part of a config. Parsed once, at the edge; never changed after.

    renamed  new name by old name: an old name is accepted for one version, with a warning
    """

    renamed: ClassVar[Mapping[str, str]] = {}
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_old_names(cls, given: Any) -> Any:
        return with_new_names(given, cls.renamed)


def with_new_names(given: Any, renamed: Mapping[str, str]) -> Any:
    """Return the settings with old names replaced. Raise an error if both names are given."""
    for old, new in renamed.items():
        if not isinstance(given, dict) or old not in given:
            continue
        if new in given:
            raise ValueError(f"{old}: found beside {new}, its new name; expected {new} alone")
        warnings.warn(
            f"the setting {old} is called {new} now; the old name ends with the next version",
            FutureWarning,
            stacklevel=2,
        )
        given = {**{k: v for k, v in given.items() if k != old}, new: given[old]}
    return given


def explain_fault(error: Exception) -> str:
    """Return why a stored file is not what was expected: of a parsed one, the first wrong key."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
