"""Ids of nodes: one spelling for equal texts, and what to do about columns that hold no ids."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from securefg.data.tabular.faults import Fault, Fix
from securefg.data.tabular.text_table import FORMULA, TextTable
from securefg.foundation.quoting import shown

LOOKED_AT = 2000
"""So many values of a column decide what the column looks like."""
_SHORTENED = re.compile(r"[+-]?\d([.,]\d+)?e\+\d+", re.I | re.A)
_TOTALS = {"total", "totals", "grand total", "sum", "summe", "gesamt", "totale", "somme"}


def plain_id(text: str) -> str:
    """Return one spelling of texts that look alike: Unicode's NFC without invisible characters."""
    if text.isascii():
        return text
    shown_characters = (c for c in text if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFC", "".join(shown_characters))


def check_ids(table: TextTable, column: str, clients: list[str | None]) -> Iterator[Fault]:
    """Yield a fault where a column cannot be the nodes' ids, and name columns that can."""
    ids = table.column(column)
    distinct = len(set(zip(ids, clients, strict=True)))
    if len(ids) < 4 or distinct > len(ids) / 2:
        return
    others = [name for name, values in table.columns.items() if len(set(values)) == len(values)]
    hint = f", such as {', '.join(others[:3])}" if others else ""
    found = f"{len(set(ids))} values in {len(ids)} rows of column {column!r}"
    wanted = f"ids that are all different: in tables.yaml `id: ` and a column{hint}"
    fix = Fix({"id": others[0]}) if others else None
    yield Fault(table.path, table.lines[0] - 1, found, wanted, fix)


def odd_ids(table: TextTable, column: str) -> Iterator[Fault]:
    """Yield ids that a spreadsheet spoilt or would run, and a last line of totals."""
    ids = table.column(column)
    for pattern, wanted in (
        (_SHORTENED, "whole ids: a spreadsheet cut the digits of this one"),
        (FORMULA, "ids without = or @ in front: a spreadsheet runs this one"),
    ):
        for row, text in enumerate(ids):
            if text is not None and pattern.fullmatch(text):
                yield Fault(table.path, table.lines[row], f"{column} {shown(text)}", wanted)
                break
    if ids and ids[-1] is not None and ids[-1].casefold() in _TOTALS:
        line = table.lines[-1]
        yield Fault(table.path, line, f"a line of totals, {shown(ids[-1])}", "one node per line")


def count_zero_twins(ids: Iterable[str]) -> int:
    """Return how many ids differ from another one by zeros in front alone."""
    counts = Counter(text.lstrip("0") for text in ids)
    return sum(count for count in counts.values() if count > 1)


class Ends:
    """The ends of an edge table, and what its unknown ends may be."""

    def __init__(self, table: TextTable, places: Mapping[str, int]) -> None:
        self.table, self.places = table, places
        self._unknown: dict[int, str] = {}

    def note(self, row: int, text: str) -> None:
        """Note an end that is no node."""
        self._unknown[row] = text

    def faults(self, drop: bool) -> Iterator[Fault]:
        """Yield one fault where another spelling would fit, else one per line."""
        if not self._unknown or not self.places:
            return
        advice = self._other_spelling()
        most = len(self._unknown) > len(self.table) / 2
        if advice is not None and (most or drop):
            first = next(iter(self._unknown))
            count = f"{len(self._unknown)} edges to nodes of no table, the first to "
            yield Fault(
                self.table.path,
                self.table.lines[first],
                f"{count}{shown(self._unknown[first], 30)}",
                advice,
            )
        elif not drop:
            wanted = "ids of the node table (tables.yaml: `unknown_ends: drop` leaves them out)"
            left_out = Fix({"unknown_ends": "drop"})
            for row, text in self._unknown.items():
                line, found = self.table.lines[row], f"node {shown(text)}"
                yield Fault(self.table.path, line, found, advice or wanted, left_out)

    def _other_spelling(self) -> str | None:
        """Return what differs, if half of the unknown ends are nodes in another spelling."""
        known = spelt_alike(self.places)
        texts = list(self._unknown.values())[:LOOKED_AT]
        matches = [text for text in texts if _plain_spelling(text) in known]
        if len(matches) < len(texts) / 2:
            return None
        twin = known[_plain_spelling(matches[0])]
        return (
            f"one spelling in both tables: node {shown(twin, 30)} differs from "
            f"{shown(matches[0], 30)} by zeros, blanks, case or points alone"
        )


def spelt_alike(ids: Iterable[str]) -> dict[str, str]:
    """Return an id for every loose spelling."""
    return {_plain_spelling(text): text for text in ids}


@cache
def _spelling_pattern() -> re.Pattern[str]:
    return re.compile(r"\.0+$|[\W_]+")


def _plain_spelling(text: str) -> str:
    return _spelling_pattern().sub("", text.casefold()).lstrip("0")
