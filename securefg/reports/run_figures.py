"""The figures of a run: curves over the rounds, and how the graph was dealt to the clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from securefg.data.statistics import ClientStatistics, PartitionStatistics
from securefg.foundation.units import (
    bytes_text,
    degree_range,
    delta_text,
    epsilon_text,
    number,
    percent,
    plural,
    significant,
    span_words,
)
from securefg.reports.figures.canvas import Figure, LegendEntry, axis_ticks
from securefg.reports.figures.charts import (
    BarChart,
    HeatMap,
    LineChart,
    Row,
    Series,
    bar_figure,
    draw_lines,
    line_numbers,
    map_figure,
)
from securefg.reports.results import Results
from securefg.runs.observing import RoundReport

MAX_POINTS = 400


def draw_curves(results: Results) -> tuple[Figure, ...]:
    """Return the figures over rounds, or none if no round was finished."""
    if not results.rounds:
        return ()
    rounds = thin_rounds(results.rounds, results.summary.best_round)
    costs = (_bytes_figure(results, rounds), *_epsilon_figures(results, rounds))
    # An aborted round repeats the scores of the round before, and the first has none to repeat.
    if all(one.aborted for one in results.rounds):
        return costs
    return (_accuracy_figure(results, rounds), _loss_figure(results, rounds), *costs)


def thin_rounds(rounds: Sequence[RoundReport], best: int) -> tuple[RoundReport, ...]:
    """Return evenly spaced rounds, at most about `MAX_POINTS`, with the best and the last one."""
    stride = -(-len(rounds) // MAX_POINTS)
    last = len(rounds) - 1
    return tuple(r for i, r in enumerate(rounds) if i % stride == 0 or i == last or r.round == best)


def drops_by_round(rounds: Sequence[RoundReport]) -> tuple[tuple[int, int], ...]:
    """Return (round, clients that dropped out since the round before). The metrics count all so
    far."""
    first = [(rounds[0].round, rounds[0].dropped)]
    later = [(b.round, b.dropped - a.dropped) for a, b in pairwise(rounds)]
    return tuple((number, count) for number, count in first + later if count > 0)


def _accuracy_figure(results: Results, rounds: Sequence[RoundReport]) -> Figure:
    series = (
        Series("validation", _scores_by_round(results, rounds, "val_accuracy"), 1, dashed=True),
        Series("test", _scores_by_round(results, rounds, "test_accuracy"), 2),
    )
    caption = "The test score is shown for the record; only validation chose the round."
    lost = drops_by_round(rounds)
    caption += " Crosses mark drop-outs." if lost else ""
    return _draw_figure(results, rounds, "Accuracy", caption, series, _short_percent, lost=lost)


def _loss_figure(results: Results, rounds: Sequence[RoundReport]) -> Figure:
    series = (
        Series("validation", _scores_by_round(results, rounds, "val_loss"), 1, dashed=True),
        Series("training", _scores_by_round(results, rounds, "train_loss"), 3),
    )
    return _draw_figure(
        results, rounds, "Loss", "Mean cross entropy per node.", series, significant
    )


def _scores_by_round(
    results: Results, rounds: Sequence[RoundReport], name: str
) -> tuple[float | None, ...]:
    """Return the score of every round, None before the first round that was not aborted."""
    first = next(one.round for one in results.rounds if not one.aborted)
    return tuple(getattr(one, name) if one.round >= first else None for one in rounds)


def _bytes_figure(results: Results, rounds: Sequence[RoundReport]) -> Figure:
    series = (
        Series("up", tuple(float(r.bytes_up) for r in rounds), 1),
        Series("down", tuple(float(r.bytes_down) for r in rounds), 2, dashed=True),
    )
    caption = "Encoded bytes so far, over all clients, envelopes included."
    return _draw_figure(results, rounds, "Bytes sent", caption, series, bytes_text, from_zero=True)


def _epsilon_figures(results: Results, rounds: Sequence[RoundReport]) -> list[Figure]:
    """Return a figure per unit, since the units lie orders of magnitude apart."""
    epsilon_figures = []
    for unit, claim in results.summary.epsilon.items():
        values = tuple(r.epsilon.get(unit) for r in rounds)
        if not any(values):
            continue
        series = (Series(f"epsilon per {unit}", values, 4 if unit == "row" else 3),)
        delta = delta_text(results.config.privacy.delta)
        caption = f"Of all releases so far, at delta {delta}: {claim.about(unit)}."
        if claim.not_covered:
            caption += f" Not covered: {'; '.join(claim.not_covered)}."
        if not results.summary.noise_protects:
            caption += " Void here: the noise was seeded."
        name = f"Epsilon per {unit}"
        epsilon_figures.append(
            _draw_figure(results, rounds, name, caption, series, _epsilon_text, from_zero=True)
        )
    return epsilon_figures


def _draw_figure(
    results: Results,
    rounds: Sequence[RoundReport],
    name: str,
    caption: str,
    series: tuple[Series, ...],
    text: Callable[[float], str],
    from_zero: bool = False,
    lost: tuple[tuple[int, int], ...] = (),
) -> Figure:
    chart = LineChart(
        label=f"{name} by round. {_line_ends(rounds, series, text)}",
        rounds=tuple(r.round for r in rounds),
        series=series,
        text=text,
        best=results.summary.best_round,
        drops=lost,
        from_zero=from_zero,
    )
    legend = tuple(LegendEntry(s.name, s.style) for s in series)
    return Figure(name, caption, draw_lines(chart), legend, csv=line_numbers(chart))


def _line_ends(
    rounds: Sequence[RoundReport], series: Sequence[Series], text: Callable[[float], str]
) -> str:
    """Return what a screen reader says of the lines."""
    end_texts = []
    for drawn_series in series:
        known = [
            (r.round, v) for r, v in zip(rounds, drawn_series.values, strict=True) if v is not None
        ]
        if known:
            (first, low), (last, high) = known[0], known[-1]
            end_texts.append(
                f"{drawn_series.name}: {text(low)} at round {first}, {text(high)} at round {last}."
            )
    return " ".join(end_texts)


def _short_percent(share: float) -> str:
    return percent(share).replace(".0%", "%")


def _epsilon_text(value: float) -> str:
    text = epsilon_text(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


MAX_ROWS = 64


@dataclass(frozen=True)
class PartitionSection:
    """A section on the partition. `table` has the exact numbers of every client, and is empty if
    there are too many."""

    sentence: str
    figures: tuple[Figure, ...]
    table: tuple[ClientStatistics, ...]


def partition_section(partition: PartitionStatistics, samples: bool) -> PartitionSection:
    """Return the section. With `samples`, labels belong to a node's samples, not to the node."""
    many = partition.num_clients > MAX_ROWS
    if not partition.clients:
        return PartitionSection(_partition_sentence(partition), (), ())
    return PartitionSection(
        sentence=_partition_sentence(partition),
        figures=population_figures(partition, samples)
        if many
        else _client_figures(partition, samples),
        table=() if many else partition.clients,
    )


def _partition_sentence(partition: PartitionStatistics) -> str:
    if partition.num_clients == 1:
        return f"One client holds all {plural(partition.num_union_nodes, 'node')}."
    return (
        f"Scheme {partition.name}: {plural(partition.num_clients, 'client')} hold "
        f"{plural(partition.num_union_nodes, 'node')} together; "
        f"{number(partition.num_common_nodes)} of them are held by every client, and "
        f"{plural(partition.num_unheld_edges, 'edge')} of the whole graph by none."
    )


def _client_figures(partition: PartitionStatistics, samples: bool) -> tuple[Figure, ...]:
    figures = [
        _nodes_figure(partition),
        _edges_figure(partition),
        _labels_figure(partition, samples),
    ]
    figures.append(_degrees_figure(partition))
    if partition.overlap is not None and partition.num_clients > 1:
        figures.append(_overlap_figure(partition, partition.overlap))
    return tuple(figures)


def _client_names(partition: PartitionStatistics) -> tuple[str, ...]:
    return tuple(str(client.client) for client in partition.clients)


def _nodes_figure(partition: PartitionStatistics) -> Figure:
    rows = tuple(Row(str(c.client), (c.num_nodes,)) for c in partition.clients)
    sizes = [c.num_nodes for c in partition.clients]
    label = f"Nodes per client, from {min(sizes):,} to {max(sizes):,}."
    chart = BarChart(label, rows, ("nodes",), axis="client")
    return bar_figure("Nodes per client", "A node may be held by several clients.", chart)


def _edges_figure(partition: PartitionStatistics) -> Figure:
    rows = tuple(Row(str(c.client), (c.num_edges, c.num_lost_edges)) for c in partition.clients)
    lost = [c.num_lost_edges for c in partition.clients]
    label = f"Edges per client, held and lost; lost ones from {min(lost):,} to {max(lost):,}."
    chart = BarChart(label, rows, ("held", "lost"), axis="client")
    legend = (LegendEntry("held", "s1 block"), LegendEntry("lost", "s2 block"))
    caption = "Lost: one end is at the client, the other is not, so it never sees the edge."
    return bar_figure("Edges per client", caption, chart, legend)


def _labels_figure(partition: PartitionStatistics, samples: bool) -> Figure:
    counts = tuple(c.label_counts for c in partition.clients)
    classes = tuple(str(number) for number in range(len(counts[0])))
    what = "samples" if samples else "nodes"
    label = f"Labels per client: {what} of each of {len(classes)} classes."
    chart = HeatMap(label, _client_names(partition), classes, counts, _row_shares(counts), "class")
    caption = f"Number of {what}. The stronger the colour, the larger the share of the client's."
    return map_figure("Labels per client", caption, chart)


def _degrees_figure(partition: PartitionStatistics) -> Figure:
    counts = tuple(c.degree_counts for c in partition.clients)
    bins = tuple(degree_range(index) for index in range(len(counts[0])))
    label = f"Degrees per client: nodes in {len(bins)} ranges of degree within the shard."
    chart = HeatMap(label, _client_names(partition), bins, counts, _row_shares(counts), "degree")
    caption = "Nodes by their degree within the client's own shard, in ranges that double."
    return map_figure("Degrees per client", caption, chart)


def _overlap_figure(partition: PartitionStatistics, overlap: tuple[tuple[int, ...], ...]) -> Figure:
    names = _client_names(partition)
    shares = tuple(tuple(both / max(row[i], 1) for both in row) for i, row in enumerate(overlap))
    label = "Overlap of clients: nodes that both hold."
    chart = HeatMap(label, names, names, overlap, shares, "client")
    caption = "Nodes that both hold. The stronger the colour, the larger the share of the row's."
    return map_figure("Overlap", caption, chart)


def _row_shares(counts: tuple[tuple[int, ...], ...]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(value / max(sum(row), 1) for value in row) for row in counts)


MAX_BINS = 12


def population_figures(partition: PartitionStatistics, samples: bool) -> tuple[Figure, ...]:
    """Return histograms over the clients, and totals by class and degree."""
    clients = partition.clients
    what = "samples" if samples else "nodes"
    return (
        _histogram_figure("nodes", [c.num_nodes for c in clients]),
        _histogram_figure("edges", [c.num_edges for c in clients]),
        _histogram_figure("lost edges", [c.num_lost_edges for c in clients]),
        _histogram_figure("classes", [sum(n > 0 for n in c.label_counts) for c in clients]),
        _totals_figure("class", what, [c.label_counts for c in clients], str),
        _totals_figure("degree", "nodes", [c.degree_counts for c in clients], degree_range),
    )


def _histogram_figure(what: str, values: Sequence[int]) -> Figure:
    rows = tuple(Row(label, (count,)) for label, count in bin_values(values))
    label = f"Clients by their number of {what}, from {min(values):,} to {max(values):,}."
    chart = BarChart(label, rows, ("clients",), row_word=f"{what}:", axis=what)
    caption = f"Bars count clients; the median client has {np.median(values):,.0f} {what}."
    title = f"Clients by {what}"
    return bar_figure(title, caption, chart)


def bin_values(values: Sequence[int]) -> list[tuple[str, int]]:
    """Return ranges of whole numbers with the number of values in each. Ranges are equal, or double
    if a few values lie far above the rest."""
    skewed = max(values) > 8 * max(float(np.median(values)), 2.0)
    edges = _doubling_edges(max(values)) if skewed else _equal_edges(min(values), max(values))
    counts, _ = np.histogram(values, edges)
    ranges = [span_words(a, b - 1) for a, b in pairwise(edges)]
    filled = np.flatnonzero(counts)
    kept = slice(int(filled[0]), int(filled[-1]) + 1)
    return list(zip(ranges[kept], counts[kept].tolist(), strict=True))


def _equal_edges(low: int, high: int) -> list[int]:
    return [int(edge) for edge in axis_ticks(low, high + 1, MAX_BINS, whole=True)]


def _doubling_edges(high: int) -> list[int]:
    return [0, *(2**power for power in range(high.bit_length() + 1))]


def _totals_figure(
    what: str, counted: str, counts: Sequence[Sequence[int]], name: Callable[[int], str]
) -> Figure:
    sums = np.asarray(counts, dtype=np.int64).sum(0).tolist()
    rows = tuple(Row(name(index), (int(total),)) for index, total in enumerate(sums))
    label = f"{counted.capitalize()} by {what}, over all clients."
    chart = BarChart(label, rows, (counted,), row_word=what, axis=what)
    caption = f"Bars count {counted} over all clients; one that two clients hold counts twice."
    title = f"{counted.capitalize()} by {what}"
    return bar_figure(title, caption, chart)
