"""Exports of other countries and programs: each is read correctly, or stopped with its cause."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from securefg.data.tabular.drafting import check_tables
from securefg.settings.tables import table_settings
from tests.unit.data.test_strange_tables import ROWS, Cell, column, faults, lines, made_of, tables

CITIES = ("Łódź", "Genève", "Zürich")
NAMED = [(a, f"{b}", CITIES[n % 3], c) for n, (a, b, c) in enumerate(ROWS)]
HEADER = "id,age,city,label"


def number(draw: random.Random) -> int:
    return draw.randint(1, 9_999_999)


FILES: dict[str, bytes] = {
    "utf-32 with its mark": lines(HEADER, NAMED).encode("utf-32"),
    "names with commas": "\n".join(
        [
            "id;age;city (home, work, or other, or none);label",
            *(";".join(map(str, r)) for r in NAMED),
        ]
    ).encode(),
}


@pytest.mark.parametrize("what", FILES)
def test_unusual_file_is_read_as_the_plain_one(what: str, tmp_path: Path) -> None:
    plain = made_of(tables(tmp_path / "plain", lines(HEADER, NAMED)))
    made = made_of(tables(tmp_path / "t", FILES[what]))
    assert made.faults == ()
    assert np.array_equal(made.features, plain.features)


UNREAD: dict[str, tuple[bytes, str]] = {
    "utf-16 without its mark": (lines(HEADER, NAMED).encode("utf-16-be"), "encoding: utf-16-be"),
    "utf-32 without its mark": (lines(HEADER, NAMED).encode("utf-32-le"), "encoding: utf-32-le"),
    "a spreadsheet": (b"PK\x03\x04" + bytes(range(256)), "a spreadsheet or an archive"),
    "a name twice": (lines("id,age,age,label", NAMED).encode(), "'age' more than once"),
    "a column of row numbers": (lines(",age,id,label", NAMED).encode(), "no name of column 1"),
}


@pytest.mark.parametrize("what", UNREAD)
def test_file_that_cannot_be_read_is_stopped_by_its_cause(what: str, tmp_path: Path) -> None:
    data, expected = UNREAD[what]
    assert expected in "\n".join(faults(tables(tmp_path / "t", data)))


THOUSANDS: dict[str, tuple[Callable[[float], str], str]] = {
    "apostrophes": (lambda v: f"{v:,.2f}".replace(",", "'"), ""),
    "typographic apostrophes": (lambda v: f"{v:,.2f}".replace(",", "\u2019"), ""),
    "blanks": (lambda v: f"{v:,.2f}".replace(",", " "), ""),
    "narrow blanks": (lambda v: f"{v:,.2f}".replace(",", "\u202f"), ""),
    "blanks before decimal commas": (
        lambda v: f"{v:,.2f}".replace(",", "\u00a0").replace(".", ","),
        'decimal: ","',
    ),
}


@pytest.mark.parametrize("what", THOUSANDS)
def test_marks_between_thousands_are_read_as_the_number(what: str, tmp_path: Path) -> None:
    write, yaml = THOUSANDS[what]
    plain = made_of(column(tmp_path / "plain", "x", lambda n, r: f"{number(r) / 100:.2f}"))
    made = made_of(column(tmp_path / "t", "x", lambda n, r: write(number(r) / 100), yaml))
    assert made.faults == ()
    assert np.array_equal(made.features, plain.features)


def test_mean_over_numbers_with_apostrophes_is_their_mean(tmp_path: Path) -> None:
    for bank, amount in (("north", "1'000.50"), ("south", "3'000.50")):
        rows = [(a, f"{1 + n}'000.25" if n else amount, c) for n, (a, _, c) in enumerate(ROWS)]
        tables(tmp_path / "banks" / bank, lines("id,x,label", rows))
    (tmp_path / "banks" / "tables.yaml").write_text("shared: mean")
    made = made_of(tmp_path / "banks")
    assert made.gathered.columns["x"][0] == "2000.5"


DATES: dict[str, Cell] = {
    '"2025-01-01"': lambda n, r: f"20{r.randint(15, 24)}-W{r.randint(10, 52)}",
    "%Y-%j": lambda n, r: f"20{r.randint(15, 24)}-{r.randint(100, 365)}",
    "%b %d, %Y %I:%M %p": lambda n, r: f"Mar {n % 28 + 1:02}, 2024 1{n % 2}:3{n % 10} AM",
    "%B %Y": lambda n, r: f"{('March', 'August')[n % 2]} 20{r.randint(15, 24)}",
    "%Y%m": lambda n, r: f"20{r.randint(15, 24)}{r.randint(1, 12):02}",
    "%G%V": lambda n, r: f"20{r.randint(15, 24)}{r.randint(1, 52):02}",
}


@pytest.mark.parametrize("form", DATES)
def test_unusual_date_is_stopped_and_its_advice_reads_it(form: str, tmp_path: Path) -> None:
    folder = column(tmp_path / "t", "x", DATES[form])
    (fault,) = faults(folder)
    assert "date: {x:" in fault
    assert form in fault
    checked = check_tables(folder, table_settings(folder))
    assert checked.left == 0
    assert checked.made is not None
    (dated,) = [one for one in checked.made.schema.columns if one.kind == "date"]
    assert dated.name == "x"


def test_birth_dates_in_a_spreadsheets_days_are_stopped(tmp_path: Path) -> None:
    folder = column(tmp_path / "t", "dob", lambda n, r: r.randint(9_000, 38_000))
    assert "days as a spreadsheet counts them" in faults(folder)[0]


def test_week_is_read_as_its_monday(tmp_path: Path) -> None:
    rule = 'date: {x: {reference: "2025-01-06", years: 1, format: "%G%V"}}'
    made = made_of(column(tmp_path / "t", "x", lambda n, r: ("202502", "202401")[n % 2], rule))
    ages = made.features[:2, -1]
    assert ages[0] == 0
    assert abs(abs(ages[1]) - 371 / 365.25) < 0.02 or abs(ages[1]) == 1


STOPPED: dict[str, tuple[str, Cell, str]] = {
    "networks": ("x", lambda n, r: f"10.0.{n % 9}.0/24", "addresses of machines"),
    "ports": ("x", lambda n, r: f"10.0.{n % 9}.7:443", "addresses of machines"),
    "long addresses": ("x", lambda n, r: f"2001:db8:0:{n % 9}::7", "addresses of machines"),
    "devices": (
        "x",
        lambda n, r: f"6fa459ea-ee8a-3ca4-894e-db77e160355{n % 9}",
        "addresses of machines",
    ),
    "small letters": ("x", lambda n, r: f"no93 8601 1117 94{n % 9}", "account numbers (IBAN)"),
    "latitudes": ("home_lat", lambda n, r: f"{r.uniform(47, 49):.5f}", "as coordinates are"),
    "pairs": ("x", lambda n, r: f"{r.uniform(47, 49):.4f}, {n % 9}.1234", "coordinates of places"),
    "degrees": ("x", lambda n, r: f"48°1{n % 9}'00\"N", "coordinates of places"),
    "truths": ("x", lambda n, r: r.choice(["yes", "Y", "TRUE", "1", "no", "0"]), "yes and no?"),
    "fillers": ("x", lambda n, r: -999 if n % 9 == 0 else n % 80, "-999, far from all other"),
    "two fillers": (
        "x",
        lambda n, r: 999 if n % 9 == 0 else 99999 if n % 9 == 1 else n % 80,
        "999, 99999, far from",
    ),
    "words among numbers": (
        "x",
        lambda n, r: "high" if n % 3 else f"{r.random():.4f}",
        "33 % numbers",
    ),
    "errors of a spreadsheet": (
        "x",
        lambda n, r: "#DIV/0!" if n % 9 == 0 else f"{r.random():.4f}",
        "words for a gap?",
    ),
    "endless numbers": (
        "x",
        lambda n, r: "-inf" if n % 9 == 0 else f"{r.random():.4f}",
        "words for a gap?",
    ),
}


@pytest.mark.parametrize("what", STOPPED)
def test_column_is_stopped_by_its_cause_and_drafted(what: str, tmp_path: Path) -> None:
    name, cell, expected = STOPPED[what]
    folder = column(tmp_path / "t", name, cell)
    (fault,) = faults(folder)
    assert expected in fault
    checked = check_tables(folder, table_settings(folder))
    assert checked.left == 0
    assert checked.made is not None
    assert checked.made.faults == ()


READ: dict[str, tuple[str, Cell]] = {
    "yes and no": ("x", lambda n, r: r.choice(["Y", "N"])),
    "a mark or nothing": ("active", lambda n, r: r.choice(["x", ""])),
    "negative zeros": ("x", lambda n, r: r.choice(["-0", "0", "-0.0", "+0", "1"])),
    "nines that are near": ("x", lambda n, r: r.choice([999, 1500, 400, 30])),
    "minus ones": ("x", lambda n, r: r.choice([-1, 0, 1])),
    "scores called long": ("long_term_debt", lambda n, r: f"{r.random() * 9000:.2f}"),
    "lengths called long": ("long", lambda n, r: r.randint(1, 90)),
    "six digits": ("x", lambda n, r: 1000 * r.randint(190, 209) + 77),
    "times are no addresses": ("x", lambda n, r: r.choice(["aa:bb", "cc:dd"])),
}


@pytest.mark.parametrize("what", READ)
def test_column_that_looks_alike_is_read(what: str, tmp_path: Path) -> None:
    assert faults(column(tmp_path / "t", *READ[what])) == []


def two_banks(folder: Path, header: str, words: dict[str, str]) -> Path:
    rows = [(f"S{a}", b, words.get(str(c), c)) for a, b, c in ROWS]
    ends = [(f"S{a}", f"S{b}") for (a, *_), (b, *_) in pairwise(ROWS)]
    tables(folder / "north", lines("id,age,label", ROWS))
    tables(folder / "south", lines(header, rows), ends, ends="SOURCE,Target")
    return folder


def test_names_that_differ_by_case_at_one_bank_are_the_same(tmp_path: Path) -> None:
    made = made_of(two_banks(tmp_path / "banks", "ID,AGE,Label ", {}))
    assert made.faults == ()
    assert [one.name for one in made.schema.columns] == ["age"]
    assert int((made.labels >= 0).sum()) == 2 * len(ROWS)


def test_classes_of_other_names_at_one_bank_are_a_fault(tmp_path: Path) -> None:
    folder = two_banks(tmp_path / "banks", "id,age,label", {"yes": "1", "no": "0"})
    (fault,) = faults(folder)
    assert "classes 'no' and 'yes' at north, but '0' and '1' at south" in fault


def test_labels_that_nobody_gave_yet_are_no_class(tmp_path: Path) -> None:
    rows = [(a, b, "pending" if n % 4 == 0 else c) for n, (a, b, c) in enumerate(ROWS)]
    folder = tables(tmp_path / "t", lines("id,age,label", rows))
    assert "a class 'pending'" in faults(folder)[0]
    checked = check_tables(folder, table_settings(folder))
    assert checked.made is not None
    assert set(checked.made.schema.classes) == {"yes", "no"}


def test_packed_table_is_named(tmp_path: Path) -> None:
    folder = tables(tmp_path / "t", lines("id,age,label", ROWS))
    (folder / "nodes.csv").rename(folder / "nodes.xlsx")
    assert "but 'nodes.xlsx'; wanted text tables (.csv)" in faults(folder)[0]


def test_rare_values_of_foreign_tables_stay_out_of_the_schema(tmp_path: Path) -> None:
    cells = [cell for _, cell, _ in STOPPED.values()]
    draw = random.Random(3)
    rows = [
        (*row, *(cell(n, draw) for cell in cells), f"rare{n // 9}") for n, row in enumerate(ROWS)
    ]
    header = ",".join(["id", "age", "label", *(f"c{n}" for n in range(len(cells))), "note"])
    folder = tables(tmp_path / "t", lines(header, rows, ";"))
    checked = check_tables(folder, table_settings(folder))
    assert checked.made is not None
    stored = json.dumps(checked.made.schema.model_dump(mode="json"))
    assert "rare" not in stored
    assert "10.0." not in stored
