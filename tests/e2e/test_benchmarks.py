"""Benchmarks start by their path alone, and a limit that is not met is told."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from pathlib import Path

from tests.forks import completed

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


def test_the_page_tells_what_is_met_and_keeps_what_did_not_run(tmp_path: Path) -> None:
    sys.path.insert(0, "benchmarks")
    try:
        from bench import LONG, QUICK, Outcome, write
        from limits import Row
    finally:
        sys.path.remove("benchmarks")
    assert all("def rows(" in Path(f"benchmarks/{name}.py").read_text() for name in QUICK + LONG)
    fast, slow = Row("speed", 4, 5, "x", least=True), Row("time", 4, 5, "s")
    assert (fast.met, slow.met) == (True, False)
    first, second, last = QUICK[0], QUICK[1], LONG[-1]
    good, bad, broken = (
        Outcome(first, (fast,)),
        Outcome(second, (slow,)),
        Outcome(last, failure="gone"),
    )
    assert [each.met for each in (good, bad, broken)] == [True, False, False]
    page = tmp_path / "benchmarks.md"

    def met() -> list[str]:
        lines = [line for line in page.read_text().splitlines() if "`python benchmarks/" in line]
        return [line.split(" | ")[3] for line in lines]

    write(page, [good, bad, broken])
    assert met() == ["yes", "NO", "NO"]
    assert "gone" in page.read_text()
    write(page, [Outcome(second, (fast, fast))])
    assert met() == ["yes", "yes", "yes", "NO"]
    write(page, [Outcome(last, (fast,))])
    assert met() == ["yes", "yes", "yes", "yes"]
