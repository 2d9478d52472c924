"""The words of a complaint: values found, names expected, and the nearest right name."""

from __future__ import annotations

import bisect
import difflib
import itertools
from collections.abc import Iterable, Sequence

from securefg.foundation.quoting import printable, shortened, shown

LONGEST_LIST = 90
LONGEST_KEY = 200


def complain_about(key: str, found: str, expected: str, hint: str = "") -> str:
    """Return `key: found X; expected Y`, with a hint after it if there is one."""
    text = f"{spell_key(key)}: found {found}; expected {expected}{f'; {hint}' if hint else ''}"
    return printable(text, keep="")


def spell_key(key: str) -> str:
    """Return a key on one line, cut if it is very long."""
    return printable(shortened(key, LONGEST_KEY), keep="")


def spell_value(value: object) -> str:
    """Return a value as a config would have it: nothing, true, 3, 'text', a mapping."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"a mapping with {list_names(map(str, value), 40)}" if value else "an empty mapping"
    return shown(value)


def name_kind(tree: object) -> str:
    """Return what a file holds instead of a mapping, in words."""
    if tree is None:
        return "an empty file"
    return "a list" if isinstance(tree, list) else spell_value(tree)


def list_names(
    names: Iterable[str], limit: int = LONGEST_LIST, last: str = ", ", where: str = ""
) -> str:
    """Return the names with commas and `last` before the last one.

    Past `limit` characters, names are counted and `where` says how to see them.
    """
    every = list(names)
    ends = list(itertools.accumulate(len(name) + 2 for name in every))
    shown_names = every[: max(1, bisect.bisect_right(ends, limit + 2))]
    left = len(every) - len(shown_names)
    if left:
        return f"{', '.join(shown_names)} and {left} more{where}"
    return last.join(filter(None, (", ".join(shown_names[:-1]), *shown_names[-1:])))


def suggest_name(name: str, known: Sequence[str]) -> str:
    """Return `did you mean louvain?`, or nothing if no known name is near."""
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=1)
    return f"did you mean {by_lower[near[0]]}?" if near else ""


def explain_unknown_name(
    key: str, name: str, known: Sequence[str], also: str = "", where: str = ""
) -> str:
    """Return the complaint about a name that is none of the known ones.

    also   what else is allowed, e.g. a module path
    where  the command that lists all names
    """
    shown_where = f" (`{where}`)" if where else ""
    listed = list_names(known, 60, ", " if also else " or ", shown_where)
    expected = f"{listed}, or {also}" if also else listed
    return complain_about(key, spell_value(name), expected, suggest_name(name, known))
