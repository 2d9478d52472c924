"""Tables: nothing is judged that was not finished, was quick, or is not in the paper."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from papers.entry import Cell, Entry, Source
from papers.output import page, write_section
from papers.readers import global_accuracy
from papers.statistics import Estimate
from papers.table import Line, Reproduction, as_csv, as_markdown, judge
from securefg.foundation.errors import InputError
from securefg.reports.figures.canvas import Figure, draw_canvas
from securefg.sweep import Failure


def cell(column: str, paper: float | None = None, interval: float | None = None) -> Cell:
    return Cell("Cora", column, (Source("x.yaml"),), global_accuracy, paper, interval)


def result(*lines: Line, quick: bool = False, failed: tuple[Failure, ...] = ()) -> Reproduction:
    cells = tuple(line.cell for line in lines)
    entry = Entry("tiny", "A <tiny> table", "Somebody, 2021.", cells, 5, ())
    return Reproduction(entry, lines, failed, 5, quick, "securefg reproduce tiny")


def judged(column: str, paper: float | None, mean: float) -> Line:
    found, one = Estimate(mean, 1.2, 5), cell(column, paper)
    return Line(one, found, judge(one, found), 5)


FULL = result(judged("a", 83.0, 82.1), judged("b", 60.0, 70.0), judged("c", None, 50.0))


def test_markdown_has_ours_the_papers_the_difference_and_the_verdict() -> None:
    text = as_markdown(FULL)
    assert "| | a | b | c |" in text
    assert (
        "| Cora | 82.1 ± 1.2 (83.0; −0.9; within 1.5 points) "
        "| 70.0 ± 1.2 (60.0; +10.0; above) | 50.0 ± 1.2 |"
    ) in text
    assert "2 cells of the paper: 1 within 1.5 points, 1 above." in text
    assert "    securefg reproduce tiny\n" in text


def test_a_difference_of_nothing_has_no_minus() -> None:
    assert judged("a", 83.0, 82.99).difference_text == "+0.0"


def test_csv_has_a_line_per_cell_with_the_same_verdicts() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(FULL))))
    assert [row["verdict"] for row in rows] == ["within 1.5 points", "above", ""]
    assert float(rows[0]["difference"]) == pytest.approx(-0.9)
    assert rows[2]["paper"] == ""


def test_unfinished_cells_say_how_many_seeds_they_have() -> None:
    some = Line(cell("a", 83.0), Estimate(82.0, None, 1), "", 5)
    none = Line(cell("b", 83.0), None, "", 5)
    failure = Failure("tiny: Cora / b, seed 0", "abc", "no memory")
    text = as_markdown(result(some, none, failed=(failure,)))
    assert "82.0 (1 of 5 seeds)" in text
    assert "missing (83.0)" in text
    assert "- tiny: Cora / b, seed 0: no memory" in text


def test_quick_tables_say_so_and_give_no_difference() -> None:
    line = Line(cell("a", 83.0), Estimate(30.0, 1.0, 2), "", 2, quick=True)
    text = as_markdown(result(line, quick=True))
    assert "**Quick**" in text
    assert "30.0 ± 1.0 (83.0) |" in text
    assert "cells of the paper" not in text


def test_the_page_is_escaped_and_asks_for_nothing() -> None:
    html = page(FULL, ())
    assert "A &lt;tiny&gt; table" in html
    assert "http:" not in html.replace("http-equiv", "")
    assert "https:" not in html
    assert "src=" not in html.replace("default-src=", "")


def test_a_section_of_the_docs_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    docs = tmp_path / "reproduction.md"
    write_section(docs, FULL)
    docs.write_text(docs.read_text() + "\nby hand\n")
    write_section(docs, result(judged("a", 83.0, 77.7)))
    text = docs.read_text()
    assert text.startswith("# Reproduction")
    assert text.count("<!-- begin tiny -->") == text.count("<!-- end tiny -->") == 1
    assert "77.7" in text
    assert "82.1" not in text
    assert text.endswith("\nby hand\n")


def test_markers_that_do_not_pair_are_refused(tmp_path: Path) -> None:
    docs = tmp_path / "reproduction.md"
    docs.write_text("<!-- begin tiny -->\n")
    with pytest.raises(InputError, match="not one pair"):
        write_section(docs, FULL)


def test_figures_stand_beside_the_section_and_old_ones_go(tmp_path: Path) -> None:
    docs = tmp_path / "reproduction.md"
    drawn = Figure("Up", "By place.", draw_canvas(40, "Up", ()))
    write_section(docs, FULL, [drawn, drawn])
    write_section(docs, FULL, [drawn])
    assert docs.read_text().count("![Up: By place.](images/reproduction/tiny-1.svg)") == 1
    assert [path.name for path in tmp_path.rglob("*.svg")] == ["tiny-1.svg"]
