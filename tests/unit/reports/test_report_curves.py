"""Curves and partition figures show what was stored, thinned where it is much."""

from __future__ import annotations

from dataclasses import replace

from securefg.reports.results import read_results
from securefg.reports.run_figures import (
    MAX_POINTS,
    bin_values,
    draw_curves,
    drops_by_round,
    partition_section,
    thin_rounds,
)
from securefg.runs.observing import RoundReport
from tests.unit.reports.runs import NOISE, MakeRun


def reports(dropped: list[int]) -> list[RoundReport]:
    return [
        RoundReport(number, 1.0, 1.0, 0.5, 0.5, {"client": None}, 10, 20, count, 0.1)
        for number, count in enumerate(dropped, 1)
    ]


def titles(make_run: MakeRun, *overrides: str) -> list[str]:
    return [figure.title for figure in draw_curves(read_results(make_run(*overrides)))]


def test_infinite_epsilon_has_no_curve(make_run: MakeRun) -> None:
    assert titles(make_run) == ["Accuracy", "Loss", "Bytes sent"]


def test_finite_epsilon_has_a_curve_per_unit(make_run: MakeRun) -> None:
    units = ("client", "row", "node", "edge")
    assert titles(make_run, *NOISE)[3:] == [f"Epsilon per {unit}" for unit in units]


def test_best_round_is_marked(make_run: MakeRun) -> None:
    results = read_results(make_run())
    assert all(f"best: round {results.summary.best_round}" in f.svg for f in draw_curves(results))


def test_drop_outs_are_differences_of_the_count_so_far() -> None:
    assert drops_by_round(reports([1, 1, 4, 4])) == ((1, 1), (3, 3))


def test_drop_outs_are_drawn_and_explained(make_run: MakeRun) -> None:
    results = read_results(make_run())
    last = replace(results.rounds[-1], dropped=2)
    accuracy = draw_curves(replace(results, rounds=(*results.rounds[:-1], last)))[0]
    assert 'class="drop"' in accuracy.svg
    assert "dropped out: 2" in accuracy.svg
    assert "Crosses mark drop-outs" in accuracy.caption


def test_thinning_keeps_best_last_and_all_drop_outs() -> None:
    rounds = reports([number // 100 for number in range(5000)])
    few = thin_rounds(rounds, best=4321)
    assert len(few) <= MAX_POINTS + 2
    assert {1, 4321, 5000} <= {r.round for r in few}
    assert sum(count for _, count in drops_by_round(few)) == rounds[-1].dropped


def test_partition_has_a_figure_for_each_question(make_run: MakeRun) -> None:
    section = partition_section(read_results(make_run()).partition, samples=False)
    assert [figure.title for figure in section.figures] == [
        "Nodes per client",
        "Edges per client",
        "Labels per client",
        "Degrees per client",
        "Overlap",
    ]
    assert len(section.table) == 3


def test_merged_party_has_no_overlap(make_run: MakeRun) -> None:
    partition = read_results(make_run("method={name: alone}", "centralised=true")).partition
    section = partition_section(partition, samples=False)
    assert section.sentence.startswith("One client holds all")
    assert "Overlap" not in [figure.title for figure in section.figures]


def test_bins_hold_every_value_once() -> None:
    assert bin_values([1] * 9) == [("1", 9)]
    assert bin_values([1, 2, 2, 4]) == [("1", 1), ("2", 2), ("3", 0), ("4", 1)]
    assert sum(count for _, count in bin_values(list(range(100, 900)))) == 800


def test_bins_double_where_few_are_far_above_the_rest() -> None:
    assert bin_values([3] * 10 + [40]) == [
        ("2–3", 10),
        ("4–7", 0),
        ("8–15", 0),
        ("16–31", 0),
        ("32–63", 1),
    ]
