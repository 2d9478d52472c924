"""Benchmarks start by their path alone, and a limit that is not met is told."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from pathlib import Path

import pytest

from tests.forks import completed

sys.path.insert(0, "benchmarks")
from bench import LONG, QUICK
from bench_check import find_losses
from bench_page import page_text
from growth import Measured, fit_exponent, growth_tables
from limits import Outcome, Row, read_outcomes, store_outcomes

sys.path.remove("benchmarks")
ROOT = Path.cwd()
SCRIPTS = sorted(path for path in Path("benchmarks").glob("*.py") if "__main__" in path.read_text())
NOT_STARTED = {"flowers_secagg": "runs in Flower's own environment"}


def loaded(script: Path) -> tuple[int, str]:
    """As `python benchmarks/...` from the checkout, which finds no package beside the installed;
    up to where it would begin."""

    def work() -> None:
        installed = ("securefg", "attacks", "audits")
        for name in [n for n in sys.modules if n.partition(".")[0] in ("tests", "papers")]:
            del sys.modules[name]
        kept = [place for place in sys.path if place and Path(place).resolve() != ROOT]
        sys.path[:] = [str(script.parent.resolve()), *kept]
        sys.meta_path.insert(0, _Installed(installed))
        os.environ.pop("PYTHONPATH", None)
        runpy.run_path(str(script), run_name="loaded")

    done = completed(work, ROOT)
    return done.returncode, done.stdout + done.stderr


class _Installed:
    """Finds these packages in the checkout, as an editable installation does."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        from importlib.machinery import PathFinder

        if path is None and name in self._names:
            return PathFinder.find_spec(name, [str(ROOT)])
        return None


def test_benchmarks_find_all_they_need() -> None:
    importlib.import_module("torch_geometric.nn")  # once here, not in a fork of each that needs it
    started = [script for script in SCRIPTS if script.stem not in NOT_STARTED]
    assert len(started) > 30
    ended = {script.stem: loaded(script) for script in started}
    assert {name: said for name, (code, said) in ended.items() if code} == {}


def test_loaded_of_a_script_without_its_module_fails(tmp_path: Path) -> None:
    script = tmp_path / "lost.py"
    script.write_text("import small_helper_of_nobody\n")
    code, said = loaded(script)
    assert code
    assert "small_helper_of_nobody" in said


def made_outcomes() -> dict[str, Outcome]:
    fast, slow = Row("speed", 4, 5, "x", least=True), Row("time", 4, 5, "s")
    outcomes = [
        Outcome(QUICK[0], (fast,)),
        Outcome(QUICK[1], (slow,)),
        Outcome(LONG[-1], failure="gone"),
    ]
    return {each.script: each for each in outcomes}


def test_benchmark_names_have_rows() -> None:
    assert all("def rows(" in Path(f"benchmarks/{name}.py").read_text() for name in QUICK + LONG)


def test_outcome_of_a_missed_row_or_failure_is_not_met() -> None:
    assert [each.met for each in made_outcomes().values()] == [True, False, False]


def test_outcomes_stored_again_replace_their_script_alone(tmp_path: Path) -> None:
    path, made = tmp_path / "new" / "rows.json", made_outcomes()
    store_outcomes(path, made.values())
    better = Outcome(QUICK[1], (Row("time", 4, 3, "s"),), load=1.5, seconds=2.5)
    store_outcomes(path, [better])
    assert read_outcomes(path) == {**made, QUICK[1]: better}


def test_page_with_an_unexplained_miss_is_refused() -> None:
    explanations = {"time": "a slow clock", LONG[-1]: "it was removed"}
    page = page_text(made_outcomes(), explanations)
    lines = [line for line in page.splitlines() if "`python benchmarks/" in line][-3:]
    assert [line.split(" | ")[3] for line in lines] == ["yes", "NO", "NO"]
    assert "- **time.** a slow clock" in page
    with pytest.raises(SystemExit, match="no explanation for: time"):
        page_text(made_outcomes(), {LONG[-1]: "it was removed"})


def test_stored_rows_are_the_page_and_every_miss_is_explained() -> None:
    stored = read_outcomes(Path("benchmarks/rows.json"))
    explanations = json.loads(Path("benchmarks/missed.json").read_text())
    assert stored
    page = page_text(stored, explanations)
    table = [line for line in page.splitlines() if line.startswith("|")]
    written = Path("docs/research/benchmarks.md").read_text().splitlines()
    assert [line for line in written if line.startswith("|")] == table


@pytest.mark.parametrize(
    ("found", "least", "is_lost"),
    [
        (2.6, True, False),
        (2.4, True, True),
        (50.0, True, False),
        (9.9, False, False),
        (10.1, False, True),
        (0.1, False, False),
        (0.0, True, True),
    ],
)
def test_check_of_a_ratio_fails_past_the_margin(found: float, least: bool, is_lost: bool) -> None:
    stored = {"one": Outcome("one", (Row("ratio", 1, 5.0, "x", least),))}
    new = {"one": Outcome("one", (Row("ratio", 1, found, "x", least),))}
    assert bool(find_losses(new, stored, margin=2.0)) == is_lost


def test_check_of_seconds_compares_nothing() -> None:
    stored = {"one": Outcome("one", (Row("time", 1, 1.0, "s"),))}
    new = {"one": Outcome("one", (Row("time", 1, 99.0, "s"),))}
    assert find_losses(new, stored, margin=2.0) == []


def test_check_of_missing_rows_and_failures_fails() -> None:
    passed_outcome = Outcome("one", (Row("ratio", 1, 5.0, "x"),))
    assert find_losses({"one": passed_outcome}, {}, 2.0) == ["ratio: found no stored row"]
    assert find_losses({"one": Outcome("one")}, {"one": passed_outcome}, 2.0) == [
        "ratio: found no new row"
    ]
    failed = {"one": Outcome("one", failure="gone")}
    assert find_losses(failed, {"one": passed_outcome}, 2.0) == ["one: failed: gone"]


def measured_sizes(power: float, sizes: tuple[int, ...] = (10, 100, 1000)) -> list[Measured]:
    return [Measured("nodes", "made", n, "run", 5 + 0.5 * n**power, 5.0, 1.0) for n in sizes]


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_exponent_of_a_power_law_is_its_power(power: float) -> None:
    found = fit_exponent(measured_sizes(power))
    assert found == pytest.approx(power, abs=1e-6)


def test_exponent_of_costs_below_a_second_is_unknown() -> None:
    assert fit_exponent(measured_sizes(1.0, sizes=(1, 10))) is None


@pytest.mark.parametrize(("power", "mark"), [(1.0, "no"), (2.0, "YES")])
def test_growth_table_of_a_quadratic_cost_is_marked(power: float, mark: str) -> None:
    fits, costs = growth_tables(measured_sizes(power))
    assert fits.splitlines()[-1].endswith(f"| {mark} |")
    assert len(costs.splitlines()) == 5
