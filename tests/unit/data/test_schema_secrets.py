"""What a schema must not tell: rare values, one bank's tenth record, a single record."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from securefg.data.tabular.prepare import Prepared, prepared, write_prepared
from securefg.data.tabular.schema import Column, describe_column, schema_text
from securefg.settings.tables import TableSettings, table_settings

LEAST = 10
Rows = list[tuple[object, ...]]


def banks(folder: Path, tables: dict[str, Rows], yaml: str = "", header: str = "word") -> Path:
    """One folder per bank with rows (id, cells ..., label), and a ring of edges."""
    for bank, rows in tables.items():
        (folder / bank).mkdir(parents=True)
        lines = [f"id,{header},label", *(",".join(map(str, row)) for row in rows)]
        (folder / bank / "nodes.csv").write_text("\n".join(lines), encoding="utf-8")
        ring = [f"{rows[n - 1][0]},{rows[n][0]}" for n in range(len(rows))]
        (folder / bank / "edges.csv").write_text("\n".join(["source,target", *ring]))
    (folder / "tables.yaml").write_text(f'classes: ["no", "yes"]\n{yaml}')
    return folder


def made_of(folder: Path) -> Prepared:
    return prepared(folder, table_settings(folder))


def rows_of(bank: str, words: list[object]) -> Rows:
    return [(f"{bank}{n}", word, "no" if n % 2 else "yes") for n, word in enumerate(words)]


def test_mean_over_a_category_makes_no_new_value(tmp_path: Path) -> None:
    shared = [(f"S{n}", 1, "no") for n in range(20)]
    others: Rows = [(f"S{n}", 3, "no") for n in range(20)]
    tables = {
        "a": [*rows_of("a", [1, 3] * 40), *shared],
        "b": [*rows_of("b", [1, 3] * 40), *others],
    }
    folder = banks(tmp_path / "t", tables, "categorical: [word]\nshared: mean\n")
    made = made_of(folder)
    assert made.faults == ()
    assert made.schema.columns[0].values == ("1", "3")
    assert set(made.gathered.columns["word"]) == {"1", "3"}
    assert "2.0" not in schema_text(made.schema)


def test_mean_over_numbers_is_that_of_all_holders(tmp_path: Path) -> None:
    tables = {
        bank: [*rows_of(bank, list(range(40))), ("S", number, "no")]
        for bank, number in (("a", 1), ("b", 1), ("c", 10))
    }
    made = made_of(banks(tmp_path / "t", tables, "shared: mean\nrange: {word: [0, 50]}\n"))
    assert made.gathered.columns["word"][made.gathered.ids.index("S")] == "4.0"


@pytest.mark.parametrize("rule", ["same", "mean"])
def test_tenth_record_on_a_shared_node_does_not_count(rule: str, tmp_path: Path) -> None:
    nine: list[object] = ["Atlantis"] * 9 + ["Wien"] * 60
    tables = {
        "a": [*rows_of("a", nine), ("S", "", "no")],
        "b": [*rows_of("b", ["Wien"] * 60), ("S", "Atlantis", "no")],
    }
    made = made_of(banks(tmp_path / "t", tables, f"shared: {rule}\n"))
    assert made.faults == ()
    assert made.schema.columns[0].values == ("Wien",)
    assert "Atlantis" not in schema_text(made.schema)


def test_tenth_label_on_a_shared_node_does_not_make_a_class(tmp_path: Path) -> None:
    tables: dict[str, Rows] = {}
    for bank, label in (("a", ""), ("b", "odd")):
        rows = [(f"{bank}{n}", n % 50, ("no", "yes")[n % 2]) for n in range(80)]
        odd = [(f"{bank}x{n}", n, "odd") for n in range(9)] if bank == "a" else []
        tables[bank] = [*rows, *odd, ("S", 7, label)]
    folder = banks(tmp_path / "t", tables)
    (folder / "tables.yaml").write_text("")
    assert "class 'odd' in 9 records" in str(made_of(folder).faults[0])


def test_gaps_of_a_shared_node_are_not_counted_twice(tmp_path: Path) -> None:
    gaps: list[object] = [""] * 9 + ["Wien", "Graz"] * 30
    tables = {
        "a": [*rows_of("a", gaps), ("S", "Wien", "no")],
        "b": [*rows_of("b", ["Wien", "Graz"] * 30), ("S", "", "no")],
    }
    assert not made_of(banks(tmp_path / "t", tables)).schema.columns[0].missing


@pytest.mark.parametrize("rare", ["Atlantis", "", "Graz"])
def test_single_record_of_words_changes_no_byte_of_the_schema(rare: str) -> None:
    usual: list[str | None] = ["Wien"] * 50 + ["Graz"] * 50
    column = describe_column("word", [*usual, rare or None], TableSettings())
    assert column == describe_column("word", usual, TableSettings())
    assert column.other


@pytest.mark.parametrize("count", [30, 31, 57, 400])
@pytest.mark.parametrize("rich", ["99999999", "-99999999", "1e300"])
def test_large_number_does_not_show_in_a_mean_of_few(count: int, rich: str) -> None:
    usual: list[str | None] = [str(1000 + n) for n in range(count - 1)]
    column = describe_column("x", [*usual, rich], TableSettings())
    plain = describe_column("x", [*usual, str(999 if rich[0] == "-" else 2000)], TableSettings())
    assert column == plain
    assert abs(column.mean - 1000 - count / 2) < count


@pytest.mark.parametrize("count", [1, 9, 10, 29])
def test_mean_of_few_numbers_is_not_learnt(count: int, tmp_path: Path) -> None:
    words: list[object] = [12345 + 1.5 * n for n in range(count)] + [""] * 60
    folder = banks(tmp_path / "t", {bank: rows_of(bank, words) for bank in "abcd"})
    made = made_of(folder)
    assert any(f"numbers in {count} records" in str(fault) for fault in made.faults)
    learnt = made.schema.columns[0]
    assert (learnt.mean, learnt.scale) == (0.0, 1.0)
    (folder / "tables.yaml").write_text('classes: ["no", "yes"]\nrange: {word: [0, 99]}\n')
    assert made_of(folder).faults == ()


def test_mean_that_is_one_value_is_frequent_at_one_bank(tmp_path: Path) -> None:
    usual: list[object] = [n for n in range(12) for _ in range(2)]
    high: list[object] = [n + 900_000 for n in range(12) for _ in range(2)]
    mixed = {bank: rows_of(bank, [*usual, *[777_777] * 9, *high]) for bank in "abc"}
    column = made_of(banks(tmp_path / "t", mixed)).schema.columns[0]
    assert column.mean != 777_777
    many: list[str | None] = ["1"] * 9 + ["777777"] * 12 + ["900000"] * 9
    holders = [(bank,) for _ in range(15) for bank in "ab"]
    alone = describe_column("x", many, TableSettings(), holders, least=10)
    assert "777777" not in alone.model_dump_json()


def test_scale_tells_no_single_value() -> None:
    """All others have 0, so mean and scale are the value of one person times a known factor."""
    for smallest in (33, 37, 43):
        few: list[str | None] = [str(smallest), *(str(44 + n) for n in range(9))]
        column = describe_column("x", ["0"] * 990 + few, TableSettings())
        assert (column.mean, column.scale) == (0.0, 5.0)


def test_small_bank_shows_in_no_mean_of_a_large_one() -> None:
    """The large bank knows its own numbers, and could subtract them."""
    usual: list[str | None] = ["0"] * 15 + ["1"] * 15
    alone = describe_column("x", usual, TableSettings(), [("a",)] * 30)
    assert (alone.mean, alone.scale) == (0.5, 0.5)
    for few in (["0"], ["1"], ["37"] * 9, ["1"] * 29):
        holders = [("a",)] * 30 + [("b",)] * len(few)
        assert describe_column("x", [*usual, *few], TableSettings(), holders) == alone


def test_ten_rare_values_of_two_banks_show_in_no_scale() -> None:
    usual: list[str | None] = ["0"] * 1000
    few = [str(37 + n) for n in range(10)]
    holders = [("a",)] * 1000 + [("b",), ("c",)] * 5
    column = describe_column("x", [*usual, *few], TableSettings(), holders)
    assert (column.mean, column.scale) == (0.0, 1.0)


def test_kind_of_a_column_does_not_hang_on_a_single_record(tmp_path: Path) -> None:
    words: list[object] = [7] * 60
    folder = banks(tmp_path / "t", {"a": rows_of("a", [*words, "secret"])})
    assert any("numbers, and 'secret'" in str(fault) for fault in made_of(folder).faults)


def test_names_of_few_persons_with_many_records_are_stopped(tmp_path: Path) -> None:
    """Twelve advisers with fifty customers each: every name has enough records for the schema."""
    first = ["Anna", "Berta", "Carl", "Dora"]
    words: list[object] = [f"{first[n % 4]} {'ABC'[n % 3]}uer" for n in range(240)]
    made = made_of(banks(tmp_path / "t", {"a": rows_of("a", words)}))
    assert any("what looks like names of persons" in str(fault) for fault in made.faults)


def test_few_categories_of_two_words_pass(tmp_path: Path) -> None:
    kinds = ["Credit Card", "Bank Transfer", "Direct Debit", "Standing Order", "Lower Austria"]
    words: list[object] = [kinds[n % 5] for n in range(240)]
    assert made_of(banks(tmp_path / "t", {"a": rows_of("a", words)})).faults == ()


# ------------------------------------------------------------------------------------ byte search


def hostile_cell(draw: random.Random, kind: int, common: list[str]) -> object:
    """A cell of one of seven kinds: mostly common, sometimes of a single record."""
    rare = f"{draw.choice(['Xq', 'Zz'])}{draw.randrange(10**7)}"
    if kind == 0:
        return draw.choice(common) if draw.random() < 0.95 else rare
    if kind == 1:
        return draw.choice([11, 33, 55]) if draw.random() < 0.9 else draw.randrange(10**6, 10**7)
    if kind == 2:
        return f"{draw.lognormvariate(9, 2):.4f}"
    if kind == 3:
        return "" if draw.random() < 0.5 else draw.choice(common)
    if kind == 4:
        return draw.choice(["yes", "no"]) if draw.random() < 0.97 else rare
    if kind == 5:
        return round(draw.gauss(0, 1), 5) if draw.random() < 0.1 else ""
    return draw.choice(common[:2]) if draw.random() < 0.8 else f"Q{draw.randrange(60)}-few"


def hostile_banks(folder: Path, seed: int) -> Path:
    draw = random.Random(seed)
    kinds = [draw.randrange(7) for _ in range(5)]
    common = [f"Common{n}" for n in range(4)]
    tables: dict[str, Rows] = {}
    for bank in ("a", "b", "c")[: draw.randint(1, 3)]:
        names = [
            f"S{n}" if draw.random() < 0.3 else f"{bank}{n}" for n in range(draw.randint(45, 150))
        ]
        tables[bank] = [
            (
                name,
                *(hostile_cell(draw, kind, common) for kind in kinds),
                draw.choice(["no", "yes"]),
            )
            for name in names
        ]
    declared = [f"c{place}" for place, kind in enumerate(kinds) if kind == 1]
    yaml = f"shared: mean\nunknown_ends: drop\ncategorical: {json.dumps(declared)}\n"
    return banks(folder, tables, yaml, ",".join(f"c{place}" for place in range(5)))


def rare_cells(folder: Path) -> set[str]:
    """Cells with fewer than ten records at every bank, ids included, as the files have them."""
    most: dict[str, int] = defaultdict(int)
    for path in folder.glob("*/nodes.csv"):
        _, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
        for column in zip(*rows, strict=True):
            for value, count in Counter(column).items():
                most[value] = max(most[value], count)
    return {value for value, count in most.items() if count < LEAST and len(value) >= 4}


@pytest.mark.parametrize("seed", range(40))
def test_no_rare_cell_of_hostile_tables_is_in_the_schema(seed: int, tmp_path: Path) -> None:
    folder = hostile_banks(tmp_path / "t", seed)
    made = made_of(folder)
    stored = schema_text(made.schema).encode()  # also of tables that the check would stop
    leaked = [cell for cell in rare_cells(folder) if cell.encode() in stored]
    assert leaked == []
    if not made.faults:
        write_prepared(made, tmp_path / "out")
        assert (tmp_path / "out" / "schema.json").read_bytes() == stored


def test_search_of_bytes_sees_a_rare_cell(tmp_path: Path) -> None:
    folder = hostile_banks(tmp_path / "t", 0)
    cell = min(rare_cells(folder))
    leaky = Column(name="x", kind="category", values=(cell,))
    assert cell.encode() in leaky.model_dump_json().encode()
