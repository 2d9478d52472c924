"""Turns pydantic's errors into `key: found X; expected Y`, read off the settings' own types."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeGuard, Union

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from securefg.foundation.suggestions import (
    LONGEST_LIST,
    complain_about,
    list_names,
    spell_key,
    spell_value,
    suggest_name,
)

Resolve = Callable[[Sequence[str]], type[BaseModel] | None]
"""From the keys of a place to its settings, where the types alone do not tell."""


@dataclass(frozen=True)
class Expected:
    """A text for a setting whose type says too little, as metadata of the type."""

    words: str


MOST_FAULTS: Final = 2
OR_NOTHING: Final = ", or nothing"
_OWN_KEY = re.compile(r"[\w.*]+: ")
_UNKNOWN = "extra_forbidden"
_SIMPLE: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    dict: "a mapping",
    type(None): "nothing",
}
_BOUNDS: Final = (
    ("ge", "of at least {0}"),
    ("gt", "above {0}"),
    ("le", "of at most {0}"),
    ("lt", "below {0}"),
    ("min_length", "with at least {0} {1}"),
    ("max_length", "of at most {0} {1}s"),
)
_PATTERNS: Final = {r"^[\w.-]+$": "a name of letters, digits, dots, _ and -"}


def explain_errors(
    error: ValidationError,
    model: type[BaseModel],
    resolve: Resolve = lambda keys: None,
    prefix: str = "",
) -> str:
    """Return a line for each of the first faults. Misspelt keys come first.

    prefix  what each line starts with, e.g. a file's name
    """
    # What is missing often follows from a key that is misspelt.
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != _UNKNOWN)
    inner = [one for one in faults if not any(_is_above(one, other) for other in faults)]
    lines = (f"{prefix}{_explain_fault(fault, model, resolve)}" for fault in inner)
    return "\n".join(list(dict.fromkeys(lines))[:MOST_FAULTS])


def _is_above(fault: Any, other: Any) -> bool:
    """Return whether another fault lies below this one, which then follows from it."""
    length = len(fault["loc"])
    return len(other["loc"]) > length and other["loc"][:length] == fault["loc"]


def _explain_fault(fault: Any, model: type[BaseModel], resolve: Resolve) -> str:
    is_unknown = fault["type"] == _UNKNOWN
    keys, place = _find_place(fault["loc"], model, resolve, is_unknown)
    key, given_value = ".".join(keys) or "config", fault.get("input")
    if is_unknown:
        return _explain_unknown_key(keys, place, model)
    if fault["type"] == "value_error":
        return _join_own_words(
            ".".join(keys), fault["msg"].removeprefix("Value error, "), given_value
        )
    if fault["type"] == "missing":
        given_value = None
    expected = " or ".join(dict.fromkeys(map(describe_type, place))) or fault["msg"]
    if fault["type"] == "finite_number":
        expected = expected.replace("a number", "a finite number")
    return complain_about(
        key, spell_value(given_value), expected, _suggest_value(given_value, place, keys)
    )


def _join_own_words(key: str, words: str, given_value: object) -> str:
    """Return a validator's words behind its key. Words of strangers get the value found."""
    key, words = spell_key(key), " ".join(words.split())
    if words.startswith("found "):
        return f"{key or 'config'}: {words}"
    if _OWN_KEY.match(words):
        return f"{key}.{words}" if key else words
    told = "" if isinstance(given_value, dict) else f"found {spell_value(given_value)}; "
    return f"{key or 'config'}: {told}{words}"


def _explain_unknown_key(keys: list[str], place: list[Any], model: type[BaseModel]) -> str:
    names = list(dict.fromkeys(name for one in _models_in(place) for name in one.model_fields))
    hint = suggest_name(keys[-1], names) or _suggest_path(keys[-1], list(_list_paths(model)))
    expected = list_names(names, 60 if hint else LONGEST_LIST, " or ")
    return complain_about(".".join(keys), "an unknown key", expected, hint)


def _suggest_path(name: str, paths: Sequence[str]) -> str:
    """Return a hint at a setting of this name, or of a near one, at another place."""
    by_name = {path.rpartition(".")[2]: path for path in reversed(paths)}
    near = difflib.get_close_matches(name, list(by_name), n=1)
    return f"did you mean {by_name[near[0]]}?" if near else ""


def _suggest_value(given_value: object, place: list[Any], keys: Sequence[str]) -> str:
    if not isinstance(given_value, str):
        return ""
    if any("name" in model.model_fields for model in _models_in(place)):
        return (
            f"did you mean {keys[-1]}: {{name: {given_value}}}?"
            if given_value.isidentifier()
            else ""
        )
    return suggest_name(given_value, [str(c) for one in place for c in _choices_of(one)])


def _find_place(
    location: Sequence[Any], model: type[BaseModel], resolve: Resolve, is_unknown: bool
) -> tuple[list[str], list[Any]]:
    """Return the keys as the user wrote them and the types there.

    pydantic puts the names of a union's members between the keys. They lead nowhere and are left
    out. The types of an unknown key are those of the mapping that it was found in.
    """
    keys: list[str] = []
    place: list[Any] = [model]
    for number, part in enumerate(location, 1):
        inside = [below for one in place for below in _step_into(one, part)]
        if not inside and not (is_unknown and number == len(location)):
            continue
        keys.append(str(part))
        own = resolve(keys)
        place = [own] if own is not None else inside or place
    return keys, place


def _step_into(annotation: Any, part: Any) -> Iterator[Any]:
    """Yield the types below a key or an index."""
    kind, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if kind is Annotated:
        yield from _step_into(arguments[0], part)
    elif kind in (Union, types.UnionType):
        for one in arguments:
            yield from _step_into(one, part)
    elif kind is dict:
        yield arguments[1]
    elif kind in (list, tuple) and isinstance(part, int):
        yield arguments[0]
    elif _is_model(annotation) and part in annotation.model_fields:
        field = annotation.model_fields[part]
        yield Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def describe_type(annotation: Any) -> str:
    """Return what a type accepts, in words: `a whole number of at least 1, or nothing`."""
    kind, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if kind is Annotated:
        return _add_bounds(arguments[0], arguments[1:])
    if kind in (Union, types.UnionType):
        told = " or ".join(describe_type(one) for one in arguments if one is not type(None))
        return told + OR_NOTHING * (type(None) in arguments)
    if choices := _choices_of(annotation):
        return list_names(map(str, choices), last=" or ")
    if kind in (list, tuple):
        return f"a list (every entry: {describe_type(arguments[0])})"
    if _is_model(annotation):
        return f"a mapping with {list_names(annotation.model_fields, 60)}"
    return _SIMPLE.get(kind or annotation, getattr(annotation, "__name__", str(annotation)))


def _add_bounds(annotation: Any, metadata: Sequence[Any]) -> str:
    own_words = next((one.words for one in metadata if isinstance(one, Expected)), None)
    if own_words is not None:
        return own_words
    limits = dict(_limits_in(metadata))
    if limits.get("pattern") in _PATTERNS:
        return _PATTERNS[limits["pattern"]]
    entry = "character" if annotation is str else "entry"
    words = [
        form.format(_spell_limit(limits[name]), entry) for name, form in _BOUNDS if name in limits
    ]
    described, *nothing = describe_type(annotation).split(OR_NOTHING)
    return " ".join([described, " and ".join(words)]).strip() + OR_NOTHING * len(nothing)


def _spell_limit(limit: Any) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)


def _limits_in(metadata: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of every limit, wherever pydantic keeps it."""
    for metadata_item in metadata:
        if isinstance(metadata_item, FieldInfo):
            yield from _limits_in(metadata_item.metadata)
        for name in ("pattern", *(name for name, _ in _BOUNDS)):
            value = getattr(metadata_item, name, None)
            if isinstance(value, int | float | str):
                yield name, value


def _choices_of(annotation: Any) -> tuple[Any, ...]:
    kind, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if kind is Literal:
        return arguments
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(one.value for one in annotation)
    if kind is Annotated:
        return _choices_of(arguments[0])
    return ()


def _models_in(place: Sequence[Any]) -> Iterator[type[BaseModel]]:
    for annotation in place:
        if _is_model(annotation):
            yield annotation
        else:
            yield from _models_in(typing.get_args(annotation))


def _list_paths(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Yield the dotted path of every setting below a model."""
    for name, field in model.model_fields.items():
        yield f"{before}{name}"
        if typing.get_origin(field.annotation) not in (list, tuple, dict):
            for inner in _models_in([field.annotation]):
                yield from _list_paths(inner, f"{before}{name}.")


def _is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
