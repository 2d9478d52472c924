"""The base of all settings: frozen, unknown keys forbidden, numbers finite."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class Settings(BaseModel):
    """A part of a config. Parsed once, at the edge; never changed after.

    renamed  new name by old name: an old name is accepted for one version, with a warning
    """

    renamed: ClassVar[Mapping[str, str]] = {}
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _accept_old_names(cls, given: Any) -> Any:
        return with_new_names(given, cls.renamed)

    @classmethod
    def describe_fields(cls) -> dict[str, str]:
        """Return the description of each field that has one.

        A description is given with the field, or is the string below it. Strings are read from the
        source when somebody asks. Pydantic's own reader would take half of the time of importing
        all settings.
        """
        described: dict[str, str] = {}
        for kind in reversed(cls.__mro__):
            if issubclass(kind, Settings):
                described |= _field_docstrings(kind)
        given = {name: field.description for name, field in cls.model_fields.items()}
        both = {name: text or described.get(name) for name, text in given.items()}
        return {name: text for name, text in both.items() if text}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, description in cls.describe_fields().items():
            properties[cls.model_fields[name].alias or name].setdefault("description", description)
        return schema


@cache
def _field_docstrings(kind: type[Settings]) -> dict[str, str]:
    """Return the strings below the fields of a class, without those of its bases."""
    (definition,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


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
