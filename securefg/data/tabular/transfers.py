"""Transfers as features of their ends, so that what one link moves is bounded by public numbers.

A link is an account and one partner, with all transfers between them. It adds to the account's row

    w = (partner, count, amounts, windows of time; out and in) / sqrt(number of entries)

with every entry in 0..1 by public bounds, so |w| <= 1 whatever the transfers are. The sum over the
account's partners moves by at most 1 when a link goes, or when its transfers change from nothing.
An organisation sees the transfers of its own accounts, also those to other organisations.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from securefg.data.tabular.dates import as_date
from securefg.data.tabular.encoding import as_number
from securefg.settings.tables import TransferRule

Values = tuple[float | None, ...]
"""The columns of the rule for one transfer, amounts first."""
Sighting = tuple[int, str, int, Values]
"""An account's number, its partner's id, 0 for out or 1 for in, and the transfer."""
WAYS = ("to", "from")
LARGEST = 1e30
"""Amounts beyond it are typing errors, and their sums would overflow."""


def link_features(rule: TransferRule | None) -> tuple[str, ...]:
    """Return the meaning of every feature that is summed over links, in words."""
    if rule is None:
        return ()
    entries = ["partners", f"number of transfers, as a logarithm up to {rule.most}"]
    entries += [f"{name} from {low:g} to {high:g}" for name, (low, high) in rule.amount.items()]
    for name, edges in rule.time.items():
        days = [f"{edge:g}" if isinstance(edge, float) else edge.isoformat() for edge in edges]
        entries += [f"any with {name} from {a} to below {b}" for a, b in pairwise(days)]
    return tuple(f"sum over partners, {way}: {entry}" for way in WAYS for entry in entries)


def sum_over_links(
    sightings: list[Sighting], rule: TransferRule, num_nodes: int
) -> NDArray[np.float32]:
    """Return (nodes, features): the sum of every account's links."""
    width = len(link_features(rule))
    sums = np.zeros((num_nodes, width))
    for (node, _), transfers in links_of(sightings).items():
        sums[node] += link_vector(transfers, rule, width)
    return sums.astype(np.float32)


Links = dict[tuple[int, str], list[tuple[int, Values]]]
"""All transfers of an account with one partner."""


def links_of(sightings: list[Sighting]) -> Links:
    """Return the transfers by account and partner."""
    links: Links = defaultdict(list)
    for node, partner, way, values in sightings:
        links[node, partner].append((way, values))
    return links


def edge_rows(
    edges: NDArray[np.int64], ids: list[str], sightings: list[Sighting], rule: TransferRule
) -> NDArray[np.float32]:
    """Return the entries of every edge (a, b) as a sees them, each in 0..1.

    Where a's organisation lists no transfer between them, b's list counts.
    """
    width, links = len(link_features(rule)), links_of(sightings)
    rows = np.zeros((len(edges), width))
    for place, (first, second) in enumerate(edges.tolist()):
        seen = links.get((first, ids[second]))
        if seen is None:
            seen = [(1 - way, values) for way, values in links.get((second, ids[first]), [])]
        rows[place] = link_vector(seen, rule, width)
    return (rows * math.sqrt(width)).astype(np.float32)


def mirrored_entries(rule: TransferRule) -> NDArray[np.int64]:
    """Return which entry each one is from the other end: out becomes in."""
    half = len(link_features(rule)) // len(WAYS)
    return np.roll(np.arange(len(WAYS) * half), half)


def link_vector(
    transfers: list[tuple[int, Values]], rule: TransferRule, width: int
) -> NDArray[np.float64]:
    """Return w of one link, no longer than 1."""
    entries: list[float] = []
    for way in range(len(WAYS)):
        entries += _row_entries([values for found, values in transfers if found == way], rule)
    return np.array(entries) / math.sqrt(width)


def _row_entries(rows: list[Values], rule: TransferRule) -> list[float]:
    count = len(rows)
    row_entries = [float(count > 0), min(math.log1p(count) / math.log1p(rule.most), 1.0)]
    columns = [[row[place] for row in rows] for place in range(len(rule.columns))]
    totals = [math.fsum(v for v in column if v is not None) for column in columns]
    for total, (low, high) in zip(totals, rule.amount.values(), strict=False):
        size = (math.log1p(max(total, 0.0)) - low) / (high - low)
        row_entries.append(min(max(size, 0.0), 1.0) * (count > 0))
    for column, edges in zip(columns[len(rule.amount) :], rule.windows.values(), strict=True):
        for first, last in pairwise(edges):
            row_entries.append(float(any(v is not None and first <= v < last for v in column)))
    return row_entries


def read_amount(text: str) -> float:
    """Return an amount; raise ValueError with what was expected."""
    try:
        number = as_number(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= LARGEST:
        raise ValueError(
            "amounts as numbers that are not negative, the direction in source and target "
            '(tables.yaml: `decimal: ","` for decimal commas)'
        )
    return number


def read_time(text: str, rule: TransferRule, column: str) -> float:
    """Return a time as the windows count it; raise ValueError with what was expected."""
    has_days = not isinstance(rule.time[column][0], float)
    try:
        number = float(as_date(text, rule.format).toordinal()) if has_days else as_number(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"days as {rule.format or '2025-01-31'} (tables.yaml: `transfers.format`)"
            if has_days
            else 'numbers, or in tables.yaml days as windows: `time: {when: ["2025-01-01", ...]}`'
        )
    return number


def outside_windows(sightings: list[Sighting], rule: TransferRule) -> dict[str, int]:
    """Return, by column of times, how many sightings of transfers lie in no window."""
    counts = dict.fromkeys(rule.time, 0)
    for place, (name, edges) in enumerate(rule.windows.items(), len(rule.amount)):
        for _, _, _, values in sightings:
            when = values[place]
            counts[name] += when is None or not edges[0] <= when < edges[-1]
    return counts
