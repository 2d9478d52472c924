"""All entries, paper by paper."""

from __future__ import annotations

import difflib

from papers import fedgl, gfl, nfedgnn, ppfl
from papers.entry import Entry
from securefg.foundation.errors import InputError

ENTRIES: tuple[Entry, ...] = (
    *fedgl.ENTRIES,
    *gfl.ENTRIES,
    *nfedgnn.ENTRIES,
    *ppfl.ENTRIES,
)


def get_entries(name: str) -> tuple[Entry, ...]:
    """One entry by its name, or `all` of them."""
    if name == "all":
        return ENTRIES
    found = tuple(entry for entry in ENTRIES if entry.name == name)
    if not found:
        names = [entry.name for entry in ENTRIES]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"no entry {name!r}; {hint}allowed: all, {', '.join(names)}")
    return found
