"""How the graph was dealt to the clients: a row per client, or histograms where they are many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from securefg.data.statistics import ClientStatistics, PartitionStatistics
from securefg.foundation.units import degree_range, number, plural, span
from securefg.reports.figures.canvas import Figure, LegendEntry, ticks
from securefg.reports.figures.charts import BarChart, HeatMap, Row, bar_figure, map_figure

MAX_ROWS = 64


@dataclass(frozen=True)
class PartitionSection:
    """`table` has the exact numbers of every client, and is empty where there are too many."""

    sentence: str
    figures: tuple[Figure, ...]
    table: tuple[ClientStatistics, ...]


def partition_section(partition: PartitionStatistics, samples: bool) -> PartitionSection:
    """`samples`: labels belong to a node's samples, not to the node."""
    many = partition.num_clients > MAX_ROWS
    if not partition.clients:
        return PartitionSection(_sentence(partition), (), ())
    return PartitionSection(
        sentence=_sentence(partition),
        figures=population_figures(partition, samples) if many else _figures(partition, samples),
        table=() if many else partition.clients,
    )


def _sentence(partition: PartitionStatistics) -> str:
    if partition.num_clients == 1:
        return f"One client holds all {plural(partition.num_union_nodes, 'node')}."
    return (
        f"Scheme {partition.name}: {plural(partition.num_clients, 'client')} hold "
        f"{plural(partition.num_union_nodes, 'node')} together; "
        f"{number(partition.num_common_nodes)} of them are held by every client, and "
        f"{plural(partition.num_unheld_edges, 'edge')} of the whole graph by none."
    )


def _figures(partition: PartitionStatistics, samples: bool) -> tuple[Figure, ...]:
    figures = [_nodes(partition), _edges(partition), _labels(partition, samples)]
    figures.append(_degrees(partition))
    if partition.overlap is not None and partition.num_clients > 1:
        figures.append(_overlap(partition, partition.overlap))
    return tuple(figures)


def _names(partition: PartitionStatistics) -> tuple[str, ...]:
    return tuple(str(client.client) for client in partition.clients)


def _nodes(partition: PartitionStatistics) -> Figure:
    rows = tuple(Row(str(c.client), (c.num_nodes,)) for c in partition.clients)
    sizes = [c.num_nodes for c in partition.clients]
    label = f"Nodes per client, from {min(sizes):,} to {max(sizes):,}."
    chart = BarChart(label, rows, ("nodes",), axis="client")
    return bar_figure("Nodes per client", "A node may be held by several clients.", chart)


def _edges(partition: PartitionStatistics) -> Figure:
    rows = tuple(Row(str(c.client), (c.num_edges, c.num_lost_edges)) for c in partition.clients)
    lost = [c.num_lost_edges for c in partition.clients]
    label = f"Edges per client, held and lost; lost ones from {min(lost):,} to {max(lost):,}."
    chart = BarChart(label, rows, ("held", "lost"), axis="client")
    legend = (LegendEntry("held", "s1 block"), LegendEntry("lost", "s2 block"))
    caption = "Lost: one end is at the client, the other is not, so it never sees the edge."
    return bar_figure("Edges per client", caption, chart, legend)


def _labels(partition: PartitionStatistics, samples: bool) -> Figure:
    counts = tuple(c.label_counts for c in partition.clients)
    classes = tuple(str(number) for number in range(len(counts[0])))
    what = "samples" if samples else "nodes"
    label = f"Labels per client: {what} of each of {len(classes)} classes."
    chart = HeatMap(label, _names(partition), classes, counts, _row_shares(counts), "class")
    caption = f"Number of {what}; the stronger the colour, the larger the share of the client's."
    return map_figure("Labels per client", caption, chart)


def _degrees(partition: PartitionStatistics) -> Figure:
    counts = tuple(c.degree_counts for c in partition.clients)
    bins = tuple(degree_range(index) for index in range(len(counts[0])))
    label = f"Degrees per client: nodes in {len(bins)} ranges of degree within the shard."
    chart = HeatMap(label, _names(partition), bins, counts, _row_shares(counts), "degree")
    caption = "Nodes by their degree within the client's own shard, in ranges that double."
    return map_figure("Degrees per client", caption, chart)


def _overlap(partition: PartitionStatistics, overlap: tuple[tuple[int, ...], ...]) -> Figure:
    names = _names(partition)
    shares = tuple(tuple(both / max(row[i], 1) for both in row) for i, row in enumerate(overlap))
    label = "Overlap of clients: nodes that both hold."
    chart = HeatMap(label, names, names, overlap, shares, "client")
    caption = "Nodes that both hold; the stronger the colour, the larger the share of the row's."
    return map_figure("Overlap", caption, chart)


def _row_shares(counts: tuple[tuple[int, ...], ...]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(value / max(sum(row), 1) for value in row) for row in counts)


MAX_BINS = 12


def population_figures(partition: PartitionStatistics, samples: bool) -> tuple[Figure, ...]:
    """Histograms over the clients, and totals by class and degree."""
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
    return bar_figure(title, caption, chart)


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
    return bar_figure(title, caption, chart)
