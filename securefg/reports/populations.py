"""Many clients: how many of them are how large, and what they hold taken together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from securefg.data.statistics import PartitionStatistics
from securefg.reports.figures import BarChart, Figure, Row, bar_numbers, draw_bars
from securefg.reports.figures.scales import ticks
from securefg.reports.units import degree_range, span

MAX_BINS = 12


def population_figures(partition: PartitionStatistics, samples: bool) -> tuple[Figure, ...]:
    clients = partition.clients
    what = "samples" if samples else "nodes"
    return (
        _histogram("nodes", [c.num_nodes for c in clients]),
        _histogram("edges", [c.num_edges for c in clients]),
        _histogram("lost edges", [c.num_lost_edges for c in clients]),
        _histogram("classes", [sum(n > 0 for n in c.label_counts) for c in clients]),
        _totals("class", what, [c.label_counts for c in clients], str),
        _totals("degree", "nodes", [c.degree_counts for c in clients], degree_range),
    )


def _histogram(what: str, values: Sequence[int]) -> Figure:
    rows = tuple(Row(label, (count,)) for label, count in binned(values))
    label = f"Clients by their number of {what}, from {min(values):,} to {max(values):,}."
    chart = BarChart(label, rows, ("clients",), row_word=f"{what}:", axis=what)
    caption = f"Bars count clients; the median client has {np.median(values):,.0f} {what}."
    title = f"Clients by {what}"
    return Figure(title, caption, draw_bars(chart), csv=bar_numbers(chart))


def binned(values: Sequence[int]) -> list[tuple[str, int]]:
    """Ranges of whole numbers with the number of values in each: equal ones, or such that double
    where a few values lie far above the rest."""
    skewed = max(values) > 8 * max(float(np.median(values)), 2.0)
    edges = _doubling(max(values)) if skewed else _equal(min(values), max(values))
    counts, _ = np.histogram(values, edges)
    ranges = [span(a, b - 1) for a, b in pairwise(edges)]
    filled = np.flatnonzero(counts)
    kept = slice(int(filled[0]), int(filled[-1]) + 1)
    return list(zip(ranges[kept], counts[kept].tolist(), strict=True))


def _equal(low: int, high: int) -> list[int]:
    return [int(edge) for edge in ticks(low, high + 1, MAX_BINS, whole=True)]


def _doubling(high: int) -> list[int]:
    return [0, *(2**power for power in range(high.bit_length() + 1))]


def _totals(
    what: str, counted: str, counts: Sequence[Sequence[int]], name: Callable[[int], str]
) -> Figure:
    sums = np.asarray(counts, dtype=np.int64).sum(0).tolist()
    rows = tuple(Row(name(index), (int(total),)) for index, total in enumerate(sums))
    label = f"{counted.capitalize()} by {what}, over all clients."
    chart = BarChart(label, rows, (counted,), row_word=what, axis=what)
    caption = f"Bars count {counted} over all clients; one that two clients hold counts twice."
    title = f"{counted.capitalize()} by {what}"
    return Figure(title, caption, draw_bars(chart), csv=bar_numbers(chart))
