"""The store is the one source: pages and configs must agree with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from papers.catalogue import ENTRIES
from papers.collect import collect, missing
from papers.command import collect_entries
from papers.entry import Cell, Entry
from papers.output import section_of
from papers.pages import PAGE, count_cells, is_far, section_text, stored_table
from papers.plan import Options, make_plan
from papers.statistics import Estimate
from papers.store import StoredCells, StoredFigure, append_figures, config_hash, read_figures
from securefg.foundation.errors import InputError


def tiny(read_from: list[float]) -> Entry:
    return Entry(
        "tiny", "Tiny", "Nobody.", (Cell("a", "b", (), lambda runs: read_from.pop(0), 50.0),), 3, ()
    )


def test_a_page_is_what_its_file_says() -> None:
    text, stale = PAGE.read_text(), []
    for entry in ENTRIES:
        old = section_of(text, entry.name)
        if old is None or old != section_text(entry, old):
            stale.append(entry.name)
    assert not stale, f"run securefg reproduce pages: {stale}"
    assert count_cells().text in text


def test_no_config_changed_since_its_figure_was_stored() -> None:
    stale = []
    for entry in ENTRIES:
        cells = StoredCells.of(entry)
        known = {(cell.row, cell.column): cell for cell in entry.cells}
        hashes = {key: config_hash(cells.plan, cell) for key, cell in known.items()}
        for figure in read_figures(entry.name):
            if hashes.get(figure.key) != figure.config:
                stale.append(f"{entry.name}: {figure.row} / {figure.column}")
    assert not stale, f"remove their lines and collect them anew: {sorted(set(stale))}"


def test_every_cell_far_off_has_an_explanation() -> None:
    bare = [
        f"{entry.name}: {line.cell.key}"
        for entry in ENTRIES
        for line in stored_table(entry).lines
        if is_far(line) and any(note.startswith("Not expl") for note in stored_table(entry).notes)
    ]
    assert not bare


def test_collecting_goes_on_after_a_kill(tmp_path: Path) -> None:
    values = [40.0, 50.0, 60.0]
    plan = make_plan(tiny(values), Options(tmp_path / "runs", seeds=2))
    assert not collect(plan, tmp_path, print, None)
    with (tmp_path / "tiny.jsonl").open("a") as file:
        file.write('{"table": "tiny", "row"')  # a line that a kill cut short
    whole = make_plan(tiny(values), Options(tmp_path / "runs", seeds=3))
    assert not collect(whole, tmp_path, print, None)
    assert [(f.seed, f.figure) for f in read_figures("tiny", tmp_path)] == [
        (0, 40.0),
        (1, 50.0),
        (2, 60.0),
    ]
    assert values == []


def test_an_earlier_mean_counts_until_there_are_as_many_seeds(tmp_path: Path) -> None:
    entry = tiny([])
    earlier = StoredFigure("tiny", "a", "b", 70.0, "", "", seeds=2, half_width=1.0)
    one = StoredFigure("tiny", "a", "b", 40.0, "", "", seed=0)
    two = StoredFigure("tiny", "a", "b", 42.0, "", "", seed=1)
    append_figures([earlier, one], tmp_path)
    assert StoredCells.of(entry, tmp_path).estimate(entry.cells[0]) == Estimate(70.0, 1.0, 2)
    append_figures([two], tmp_path)
    found = StoredCells.of(entry, tmp_path).estimate(entry.cells[0])
    assert found is not None
    assert (found.mean, found.count) == (41.0, 2)


def test_an_earlier_mean_of_one_seed_is_seed_zero(tmp_path: Path) -> None:
    earlier = StoredFigure("tiny", "a", "b", 40.0, "", "", seeds=1)
    append_figures([earlier], tmp_path)
    values = [42.0]
    plan = make_plan(tiny(values), Options(tmp_path / "runs", seeds=2))
    assert not collect(plan, tmp_path, print, None)
    found = StoredCells.of(plan.entry, tmp_path).estimate(plan.cells[0])
    assert found is not None
    assert (found.mean, found.count, values) == (41.0, 2, [])


def test_an_earlier_mean_over_enough_seeds_is_not_run_again(tmp_path: Path) -> None:
    append_figures([StoredFigure("tiny", "a", "b", 40.0, "", "", seeds=3)], tmp_path)
    few = make_plan(tiny([]), Options(tmp_path / "runs", seeds=3))
    more = make_plan(tiny([]), Options(tmp_path / "runs", seeds=4))
    assert list(missing(few, tmp_path)) == []
    assert [todo.seed for todo in missing(more, tmp_path)] == [0, 1, 2, 3]


def test_quick_collecting_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [40.0, 50.0]
    monkeypatch.setattr("papers.command.RESULTS", tmp_path / "results")
    options = Options(tmp_path / "runs", quick=True)
    console = Console(record=True)
    assert collect_entries([tiny(values)], options, False, console) == ()
    assert values == []
    assert "nothing was judged or stored" in console.export_text()
    assert not (tmp_path / "results").exists()


def test_collecting_with_other_settings_is_refused(tmp_path: Path) -> None:
    options = Options(tmp_path, overrides=("training.lr=1",))
    with pytest.raises(InputError, match="--collect: found --set; expected runs as shipped"):
        collect_entries([tiny([])], options, False, Console())


def test_a_line_that_is_no_figure_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tiny.jsonl").write_text('{"who": 1}\n')
    with pytest.raises(InputError, match="found a line that is no figure"):
        read_figures("tiny", tmp_path)


def test_census_names_every_cell_never_run(tmp_path: Path) -> None:
    entry = tiny([])
    extra = Cell("a", "unpublished", (), lambda runs: 0.0)
    both = replace(entry, cells=(*entry.cells, extra))
    found = count_cells([both], tmp_path)
    assert found.never_run == ("tiny a (b)",)
    assert found.extra == ("1 of tiny",)
    append_figures([StoredFigure("tiny", "a", "b", 70.0, "", "", seed=0)], tmp_path)
    assert count_cells([both], tmp_path).never_run == ()
