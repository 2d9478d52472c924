"""How values found in input are shown: short, on one line, without control characters."""

from __future__ import annotations

import re
from collections.abc import Collection

LONGEST = 60

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+|inf|nan)\s*(?:$|[;\t\r\n])"
_SIGN = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_FORMULA = re.compile(rf"((?:^(?=[\t\r]))|(?:^|[;\t\r\n])(?!\s*{_NUMBER})(?=\s*{_SIGN}))")


def shown(value: object, limit: int = LONGEST) -> str:
    """Return `repr`, cut to `limit` characters. A huge value is never spelt out first."""
    if isinstance(value, str | bytes) and len(value) > limit:
        return repr(value[: limit - 5]) + "..."
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list | tuple | set | dict):
        return _container_text(value, limit)
    return shortened(repr(value), limit)


def _container_text(value: Collection[object], limit: int) -> str:
    if len(value) > limit:
        return f"a {type(value).__name__} of {len(value)} entries"
    try:
        return shortened(repr(value), limit)
    except (RecursionError, ValueError):  # nested too deep, or an integer of too many digits
        return f"a {type(value).__name__}"


def shortened(text: str, limit: int = LONGEST) -> str:
    """Return the text, cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def printable(text: str, keep: str = "\n") -> str:
    """Return text for a terminal: what could move its cursor or colour it is spelt out."""
    return "".join(c if c.isprintable() or c in keep else _spell_character(c) for c in text)


def _spell_character(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def neutral_cell(value: object) -> object:
    """Return a cell of a table that no spreadsheet takes for a formula. Numbers are kept.

    An apostrophe goes before `=`, `+`, `-` and `@` at the start of a cell, and after the separators
    at which a spreadsheet may split it.
    """
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value
