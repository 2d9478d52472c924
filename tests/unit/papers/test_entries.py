"""Entries are sound: names are unique, configs are there and good, papers' figures are complete."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from papers.catalogue import ENTRIES, get_entries
from papers.command import Asked, reproduce
from papers.entry import Entry
from papers.plan import Options, find_config, make_plan
from securefg.foundation.errors import ConfigError, InputError
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.settings.config import load_config
from tests.unit.papers.made_summary import made_summary


def named(name: str) -> Entry:
    return get_entries(name)[0]


def test_names_are_unique() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
    assert not {"all", "list"} & set(names)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_cell_is_there_once_and_its_configs_are_good(entry: Entry) -> None:
    places = [(cell.row, cell.column) for cell in entry.cells]
    assert len(set(places)) == len(places)
    sources = dict.fromkeys(source for cell in entry.cells for source in cell.sources)
    hashes = {load_config(find_config(s.config), s.overrides).hash for s in sources}
    assert len(hashes) == len(sources), "two sources are the same run: one override has no effect"
    for source in sources:
        load_config(find_config(source.config), [*source.overrides, *entry.quick])


def test_papers_figures_are_as_printed() -> None:
    table2 = {(c.row, c.column): c.paper for c in named("fedgl-table2").cells}
    assert table2["Cora", "FedGL"] == 83.0
    assert table2["Wiki", "Centralized"] == 61.9
    readings = {"paper's D", "paper's sums", "paper's D and sums"}
    assert {column for (_, column), paper in table2.items() if paper is None} == readings
    assert sum(cell.paper is not None for entry in ENTRIES for cell in entry.cells) == 384


def test_quick_keeps_one_row_and_few_seeds() -> None:
    plan = make_plan(named("fedgl-table2"), Options(Path("runs"), quick=True))
    assert plan.entry.rows == ("Cora",)
    assert plan.num_seeds == 2
    assert {point.config.training.rounds for point in plan.points} == {3}


def test_rows_can_be_chosen_and_settings_changed() -> None:
    options = Options(Path("r"), seeds=1, rows=("wiki", "acm"), overrides=("training.lr=0.5",))
    plan = make_plan(named("fedgl-table2"), options)
    assert plan.entry.rows == ("ACM", "Wiki")
    assert len(plan.points) == 16
    assert {point.config.training.lr for point in plan.points} == {0.5}


def test_unknown_names_are_refused_with_what_is_allowed() -> None:
    with pytest.raises(InputError, match="did you mean fedgl-table2"):
        get_entries("fedgl_table2")
    with pytest.raises(InputError, match="expected Cora"):
        make_plan(named("fedgl-table2"), Options(Path("r"), rows=("dora",)))
    with pytest.raises(ConfigError, match=r"configs/none\.yaml: not found"):
        find_config("none.yaml")


def test_columns_are_chosen_as_rows_are() -> None:
    options = Options(Path("r"), seeds=1, rows=("cora",), columns=("fed",))
    plan = make_plan(named("fedgl-table2"), options)
    assert [cell.column for cell in plan.cells] == ["Federated", "FedGL"]
    with pytest.raises(InputError, match=r"--columns: found dora; expected"):
        make_plan(named("fedgl-table2"), Options(Path("r"), columns=("dora",)))


def test_stored_runs_give_a_table_and_nothing_is_run(tmp_path: Path) -> None:
    options = Options(tmp_path, seeds=1, rows=("cora",))
    asked = Asked((named("fedgl-table2"),), options, 1, tmp_path / "tables", stored=True)
    told = reproduce(asked, Console())
    assert not told.failed
    assert "| Cora | missing (81.1) |" in (told.pages[0][1].parent / "table.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables"]


def test_the_curve_of_the_best_lambda_is_that_of_the_run_chosen_on_validation(
    tmp_path: Path,
) -> None:
    cell = named("nfedgnn-curves").cells[0]
    runs = []
    for number, (val, test) in enumerate([(0.7, 0.9), (0.8, 0.6), (0.6, 0.7)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "summary.json").write_text(made_summary(val, test).model_dump_json())
        runs.append(RunFolder(folder))
    assert cell.shown(runs) is runs[1]
    assert cell.read(runs) == pytest.approx(60)


def test_a_stored_run_of_another_default_makes_no_table(tmp_path: Path) -> None:
    chosen = ("training.rounds=1", "data={name: csbm}", "partition={name: shares, shares: [1]}")
    options = Options(tmp_path, 1, rows=("cora",), columns=("fedgl",), overrides=chosen)
    asked = Asked((named("fedgl-table2"),), options, 1, tmp_path / "tables", stored=True)
    path = runner.start(make_plan(asked.entries[0], options).points[0].config).folder.path
    assert not reproduce(asked, Console()).failed
    kept = path / "config.yaml"
    kept.write_text(kept.read_text().replace("hidden: 16", "hidden: 17"))
    assert "or a default since then" in reproduce(asked, Console()).failed[0].reason
