"""The mutants that `tests/mutants.py` makes: one change each, and the same ones for a seed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import ROOMS, Mutant, draw_mutants, matching_tests, sites_of

SOURCE = """
def check(a, b):
    if a < b and b:
        raise ValueError
    return a + 3
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "checked.py").write_text(SOURCE)
    return tmp_path / "checked.py"


def test_mutants_of_a_module_differ_in_one_place_each(module: Path) -> None:
    count = len(list(sites_of(ast.parse(SOURCE))))
    told = {Mutant("privacy", module, site).tree()[1].partition(": ")[2] for site in range(count)}
    assert told == {
        "if a < b and b: raise ValueError -> if a < b and b: pass",
        "a < b and b -> a < b or b",
        "a < b -> a <= b",
        "a + 3 -> a - 3",
        "3 -> 4",
    }
    made = {ast.unparse(Mutant("privacy", module, site).tree()[0]) for site in range(count)}
    assert len(made | {ast.unparse(ast.parse(SOURCE))}) == count + 1


def test_mutant_without_a_site_is_the_module(module: Path) -> None:
    assert ast.unparse(Mutant("privacy", module, None).tree()[0]) == ast.unparse(ast.parse(SOURCE))


def test_draw_mutants_of_one_seed_gives_the_same() -> None:
    one, again, other = draw_mutants(9, 1), draw_mutants(9, 1), draw_mutants(9, 2)
    assert one == again != other
    assert [mutant.room for mutant in one] == [room for room in ROOMS for _ in range(3)]


def test_matching_tests_import_the_mutants_module() -> None:
    mutant = Mutant("secagg", Path("securefg/secagg/shamir.py"), 0)
    names = {Path(file).name for file in matching_tests(mutant, Path("tests"))}
    assert {"test_shamir.py", "test_secagg_vectors.py"} <= names
    assert "test_mask_graph.py" not in names
