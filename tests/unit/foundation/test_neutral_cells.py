"""A cell of an exported table is never a formula to a spreadsheet."""

from __future__ import annotations

import csv
import io

import pytest

from securefg.foundation.quoting import neutral_cell
from securefg.reports.figures.charts import csv_text

FORMULAS = [
    "=1+1",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "  =1",
    "\n=1",
    "\tplain",
    "\rplain",
    "-",
    "=",
    "\uff1d1",
    "\u00a0=1",
    "-1e5=2",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_neutral_cell_of_formula_starts_with_apostrophe(text: str) -> None:
    cell = str(neutral_cell(text))
    assert cell.startswith("'")
    assert cell.replace("'", "") == text.replace("'", "")


@pytest.mark.parametrize("text", ["a; =1", "a\t=1", "a;+HYPERLINK(1)", "a\n@x", "a;\t-x", "a\r=1"])
def test_neutral_cell_of_formula_after_other_separator_is_text(text: str) -> None:
    """Spreadsheets of some countries split cells at semicolons, and some at tabs."""
    assert "'" in neutral_cell(text)
    assert neutral_cell(text).replace("'", "") == text


@pytest.mark.parametrize(
    "value",
    [-1, -0.5, 3, 1e-9, True, None, "-0.5", "+3", "-1.5e-7", "inf", "-inf", "nan", "a-b", "x=1",
     "", "12", "1 - 2", "delta 1e-05; per client", "it's", "a; -0.5"],
)  # fmt: skip
def test_neutral_cell_of_number_or_text_is_unchanged(value: object) -> None:
    assert neutral_cell(value) == value


def test_csv_text_with_formulas_in_names_has_none() -> None:
    text = csv_text(("=a", "b"), [("=x", -1.5), ("plain", None), ("-2", "@y")])
    rows = list(csv.reader(io.StringIO(text)))
    assert rows == [["'=a", "b"], ["'=x", "-1.5"], ["plain", ""], ["-2", "'@y"]]
