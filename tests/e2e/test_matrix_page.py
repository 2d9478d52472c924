"""The page of all methods and questions is made from its stored rows, and no cell is open."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path("benchmarks").resolve()))

import matrix

from securefg.foundation.errors import SecurefgError
from securefg.runs.assembly import prepare
from securefg.settings.config import load_config


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    return matrix.load_rows()


def test_matrix_page_is_what_the_stored_rows_make(rows: dict[str, Any]) -> None:
    assert matrix.PAGE_FILE.read_text() == "\n".join(matrix.page(rows)) + "\n"


def test_matrix_has_a_row_for_every_case(rows: dict[str, Any]) -> None:
    first = matrix.SEEDS[0]
    assert [c for c in matrix.CASES if matrix.key_of(c, first) not in rows] == []


def test_matrix_cells_have_a_figure_or_a_reason(rows: dict[str, Any]) -> None:
    notes: list[str] = []
    cells = [
        matrix.cell(case, question, adversary, rows, notes)
        for case in matrix.CASES
        for question in matrix.QUESTIONS
        for adversary in matrix.ADVERSARIES
    ]
    assert len(cells) == len(matrix.CASES) * 15
    known = ("not visible", "note ", "+", "-", "as a recipient")
    assert [cell for cell in cells if not cell.startswith(known)] == []
    assert [note for note in notes if "not run" in note or "not measured" in note] == []


def test_matrix_rows_are_of_todays_configs(rows: dict[str, Any]) -> None:
    stored = [
        (c, seed, rows[k])
        for c in matrix.CASES
        for seed in matrix.SEEDS
        if (k := matrix.key_of(c, seed)) in rows
    ]
    changed = [(c.method, c.defence, seed) for c, seed, row in stored if told(c, seed, row)]
    assert changed == []


def told(case: Any, seed: int, row: dict[str, Any]) -> str:
    """Return how a stored row differs from today's config, or nothing."""
    path = Path("configs") / f"{case.config}.yaml"
    try:
        config = load_config(path, (*case.settings, f"seed={seed}"))
        if "refused" in row:
            prepare(config)
    except SecurefgError as error:
        said = " ".join(str(error).split())
        return "" if row.get("refused") == said else f"refused: {said}"
    if "refused" in row:
        return "no longer refused"
    return "" if row["config"] == config.hash else "another hash"


def test_matrix_rows_have_every_attack(rows: dict[str, Any]) -> None:
    asked = set(matrix.attacks_asked())
    played = {
        k: {one["attack"] for one in row["found"]} for k, row in rows.items() if "found" in row
    }
    assert {key for key, found in played.items() if not asked <= found} == set()


def test_matrix_cell_takes_the_largest_mean_gain() -> None:
    one = {"value": 0.7, "prior": 0.5, "verdict": "LEAK"}
    by_attack = {
        "weak": [one | {"gain": [0.1, 0.0, 0.2]}],
        "strong": [one | {"gain": [0.3, 0.2, 0.4]}, one | {"gain": [0.1, 0.05, 0.2]}],
    }
    found = matrix.measured_cell(by_attack)
    assert found == "+0.200 [+0.050, +0.400], 0.700 for 0.500, leak (`strong`)"


def test_matrix_measure_keeps_what_is_stored(tmp_path: Path) -> None:
    store = tmp_path / "rows.json"
    matrix.store_row(store, "b", {"found": []})
    matrix.store_row(store, "a", {"refused": "x"})
    assert matrix.load_rows(store) == {"a": {"refused": "x"}, "b": {"found": []}}
