"""All entries, paper by paper."""

from __future__ import annotations

from papers import fedgl, gfl, nfedgnn, ppfl
from papers.entry import Entry
from securefg.foundation.errors import InputError
from securefg.foundation.suggestions import explain_unknown_name

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
    matching_entries = tuple(entry for entry in ENTRIES if entry.name == name)
    if not matching_entries:
        names = ["all", *(entry.name for entry in ENTRIES)]
        raise InputError(
            explain_unknown_name("entry", name, names, where="securefg reproduce list")
        )
    return matching_entries
