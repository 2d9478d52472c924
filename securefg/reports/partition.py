"""How the graph was dealt to the clients: a row per client, or histograms where they are many."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.data.statistics import ClientStatistics, PartitionStatistics
from securefg.reports.figures import (
    BarChart,
    Figure,
    HeatMap,
    LegendEntry,
    Row,
    bar_numbers,
    draw_bars,
    draw_heat_map,
    map_numbers,
)
from securefg.reports.populations import population_figures
from securefg.reports.units import degree_range, number, plural

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
    return Figure(
        "Nodes per client",
        "A node may be held by several clients.",
        draw_bars(chart),
        csv=bar_numbers(chart),
    )


def _edges(partition: PartitionStatistics) -> Figure:
    rows = tuple(Row(str(c.client), (c.num_edges, c.num_lost_edges)) for c in partition.clients)
    lost = [c.num_lost_edges for c in partition.clients]
    label = f"Edges per client, held and lost; lost ones from {min(lost):,} to {max(lost):,}."
    chart = BarChart(label, rows, ("held", "lost"), axis="client")
    legend = (LegendEntry("held", "s1 block"), LegendEntry("lost", "s2 block"))
    caption = "Lost: one end is at the client, the other is not, so it never sees the edge."
    return Figure(
        "Edges per client",
        caption,
        draw_bars(chart),
        legend,
        csv=bar_numbers(chart),
    )


def _labels(partition: PartitionStatistics, samples: bool) -> Figure:
    counts = tuple(c.label_counts for c in partition.clients)
    classes = tuple(str(number) for number in range(len(counts[0])))
    what = "samples" if samples else "nodes"
    label = f"Labels per client: {what} of each of {len(classes)} classes."
    chart = HeatMap(label, _names(partition), classes, counts, _row_shares(counts), "class")
    caption = f"Number of {what}; the stronger the colour, the larger the share of the client's."
    return Figure(
        "Labels per client",
        caption,
        draw_heat_map(chart),
        csv=map_numbers(chart),
    )


def _degrees(partition: PartitionStatistics) -> Figure:
    counts = tuple(c.degree_counts for c in partition.clients)
    bins = tuple(degree_range(index) for index in range(len(counts[0])))
    label = f"Degrees per client: nodes in {len(bins)} ranges of degree within the shard."
    chart = HeatMap(label, _names(partition), bins, counts, _row_shares(counts), "degree")
    caption = "Nodes by their degree within the client's own shard, in ranges that double."
    return Figure(
        "Degrees per client",
        caption,
        draw_heat_map(chart),
        csv=map_numbers(chart),
    )


def _overlap(partition: PartitionStatistics, overlap: tuple[tuple[int, ...], ...]) -> Figure:
    names = _names(partition)
    shares = tuple(tuple(both / max(row[i], 1) for both in row) for i, row in enumerate(overlap))
    label = "Overlap of clients: nodes that both hold."
    chart = HeatMap(label, names, names, overlap, shares, "client")
    caption = "Nodes that both hold; the stronger the colour, the larger the share of the row's."
    return Figure("Overlap", caption, draw_heat_map(chart), csv=map_numbers(chart))


def _row_shares(counts: tuple[tuple[int, ...], ...]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(value / max(sum(row), 1) for value in row) for row in counts)
