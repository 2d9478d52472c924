"""Messy and hostile tables: read correctly, or stopped with advice that works."""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from securefg.data.tabular.prepare import Prepared, prepared, write_prepared
from securefg.data.tabular.schema import read_schema
from securefg.foundation.errors import ConfigError
from securefg.settings.tables import TableSettings, table_settings

N = 400
FIRST = ("Anna", "Bruno", "Carla", "David", "Eva", "Franz", "Greta", "Hugo")
LAST = ("Maier", "Huber", "Gruber", "Bauer", "Wagner", "Pichler", "Moser", "Steiner")
BASE = 'classes: ["no", "yes"]\n'
Cell = Callable[[int, random.Random], object]


def table(
    folder: Path, column: str, cell: Cell, yaml: str = "", fraud: float = 0.3, sep: str = ";"
) -> Path:
    """A folder of one column of interest, an innocent one, and a ring of edges."""
    draw = random.Random(0)
    rows = [
        (f"K{n}", cell(n, draw), draw.randint(18, 90), "yes" if n < fraud * N else "no")
        for n in range(N)
    ]
    return written(folder, ["id", column, "age", "label"], rows, yaml, sep)


def written(
    folder: Path, header: Sequence[str], rows: Sequence[Sequence[object]], yaml: str, sep: str = ";"
) -> Path:
    folder.mkdir(parents=True)
    with (folder / "nodes.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=sep)
        writer.writerows([header, *rows])
    ends = [(rows[n][0], rows[(n + 1) % len(rows)][0]) for n in range(len(rows))]
    edges = ["source,target", *(f"{a},{b}" for a, b in ends)]
    (folder / "edges.csv").write_text("\n".join(edges))
    (folder / "tables.yaml").write_text(BASE + yaml)
    return folder


def made_of(folder: Path) -> Prepared:
    return prepared(folder, table_settings(folder))


def stops(folder: Path) -> list[str]:
    return [str(fault) for fault in made_of(folder).faults]


def rare_values(folder: Path, least: int = 10) -> set[str]:
    """Values of any column with fewer records than `least`, as the files have them."""
    with (folder / "nodes.csv").open(encoding="utf-8") as file:
        _, *rows = csv.reader(file, delimiter=";")
    counted = [Counter(column) for column in zip(*rows, strict=True)]
    return {value for counts in counted for value, n in counts.items() if n < least and value}


def schema_texts(out: Path) -> set[str]:
    """All keys, words and numbers of schema.json."""
    leaves: set[str] = set()

    def collect(node: object) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                collect(value)
                leaves.add(key)
        elif isinstance(node, list):
            for value in node:
                collect(value)
        else:
            leaves.add(str(node))

    stored = json.loads((out / "schema.json").read_text(encoding="utf-8"))
    assert stored.pop("format") == 2
    collect(stored)
    return leaves


def assert_no_rare_value(folder: Path, out: Path) -> None:
    text = (out / "schema.json").read_bytes()
    texts = schema_texts(out)
    for value in rare_values(folder):
        assert value not in texts, value
        assert len(value) < 4 or value.encode() not in text, value


def day(n: int, form: str) -> str:
    return (date(2015, 1, 1) + timedelta(days=n * 7)).strftime(form)


def city(n: int, draw: random.Random) -> str:
    return draw.choice(["Wien", "Graz", "Linz"]) if n else "Atlantis"


REFERENCE = 'reference: "2025-01-01"'
STOPPED: dict[str, tuple[str, Cell, str, str]] = {
    # what: column, its cells, what the advice says, what the operator writes
    "decimal commas": (
        "x",
        lambda n, r: f"{r.random() * 9:.2f}".replace(".", ","),
        'decimal: ","',
        'decimal: ","',
    ),
    "dates": (
        "opened",
        lambda n, r: day(n, "%Y-%m-%d"),
        "date: {opened",
        f"date: {{opened: {{{REFERENCE}}}}}",
    ),
    "names": (
        "who",
        lambda n, r: f"{r.choice(FIRST)} {r.choice(LAST)}",
        "ignore: [who]",
        "ignore: [who]",
    ),
    "a unique column": (
        "token",
        lambda n, r: f"{r.getrandbits(60):x}",
        "ignore: [token]",
        "ignore: [token]",
    ),
    "5 000 values": (
        "shop",
        lambda n, r: f"S{r.randint(0, 150)}",
        "values: {shop",
        "values: {shop: [S900, S901]}",
    ),
    "mixed types": (
        "score",
        lambda n, r: "n.a." if n % 9 == 0 else r.random(),
        '"?", "n.a."]`',
        'missing: ["", "n.a."]',
    ),
    # ten more, hostile
    "german dates": (
        "seit",
        lambda n, r: day(n, "%d.%m.%Y"),
        "format",
        f'date: {{seit: {{{REFERENCE}, format: "%d.%m.%Y"}}}}',
    ),
    "compact dates": (
        "dob",
        lambda n, r: day(n, "%Y%m%d"),
        "%Y%m%d",
        f'date: {{dob: {{{REFERENCE}, format: "%Y%m%d"}}}}',
    ),
    "unix seconds": (
        "last",
        lambda n, r: 1_600_000_000 + r.randint(0, 10**8),
        "unix",
        f"date: {{last: {{{REFERENCE}, format: unix}}}}",
    ),
    "few dates": (
        "day",
        lambda n, r: day(n % 5, "%Y-%m-%d"),
        "date: {day",
        f"date: {{day: {{{REFERENCE}, features: [weekday]}}}}",
    ),
    "phones": (
        "contact",
        lambda n, r: f"+43 660 {r.randint(10**6, 10**7 - 1)}",
        "phone numbers",
        "ignore: [contact]",
    ),
    "phones without plus": (
        "contact",
        lambda n, r: f"0660{r.randint(10**6, 10**7 - 1)}",
        "phone numbers",
        "ignore: [contact]",
    ),
    "mail": (
        "contact",
        lambda n, r: f"{r.choice(FIRST)}{n}@bank.at",
        "e-mail",
        "ignore: [contact]",
    ),
    "ibans": (
        "account",
        lambda n, r: f"AT{r.randint(10**17, 10**18 - 1)}",
        "IBAN",
        "ignore: [account]",
    ),
    "numbered records": ("nr", lambda n, r: 70_000 + n, "ignore: [nr]", "ignore: [nr]"),
    "customer numbers": (
        "kdnr",
        lambda n, r: r.randint(10**8, 10**9 - 1),
        "ignore: [kdnr]",
        "ignore: [kdnr]",
    ),
    "customer numbers as decimals": (
        "kdnr",
        lambda n, r: f"{100_000 + 7 * n}.0",
        "ignore: [kdnr]",
        "ignore: [kdnr]",
    ),
    "customer numbers as a spreadsheet has them": (
        "kdnr",
        lambda n, r: f"{r.randint(10**8, 10**9 - 1) / 1e8:.8f}e8",
        "ignore: [kdnr]",
        "ignore: [kdnr]",
    ),
    "every third number": (
        "nr",
        lambda n, r: 50_000 + 3 * n - n % 2,
        "ignore: [nr]",
        "ignore: [nr]",
    ),
    "codes with zeros": (
        "plz",
        lambda n, r: r.choice(["01067", "04103", "80331"]),
        "categorical: [plz]",
        "categorical: [plz]",
    ),
    "first names": (
        "firstName",
        lambda n, r: r.choice(FIRST),
        "ignore: [firstName]",
        "ignore: [firstName]",
    ),
    "surname first": (
        "holder",
        lambda n, r: f"{r.choice(LAST)}, {r.choice(FIRST)}",
        "ignore: [holder]",
        "ignore: [holder]",
    ),
    "currency": (
        "balance",
        lambda n, r: f"€ {r.randint(1, 10**5)}",
        "numbers alone",
        "ignore: [balance]",
    ),
    "thousands": (
        "balance",
        lambda n, r: f"{r.randint(10**4, 10**6):,}.50",
        "without",
        "ignore: [balance]",
    ),
    "times": (
        "at",
        lambda n, r: f"{r.randint(0, 23)}:{r.randint(10, 59)}",
        "times of day",
        "ignore: [at]",
    ),
    "nearly empty": (
        "note",
        lambda n, r: 17.25 if n in (3, 7) else "",
        "range: {note",
        "range: {note: [0, 100]}",
    ),
    "rare words": (
        "flag",
        lambda n, r: f"case {n}" if n % 80 == 0 else "",
        "coarser values",
        "ignore: [flag]",
    ),
    "python numbers": (
        "v",
        lambda n, r: f"{r.randint(1, 9)}_{r.randint(100, 999)}",
        "perhaps identifiers",
        "ignore: [v]",
    ),
}


@pytest.mark.parametrize("what", STOPPED)
def test_dangerous_column_is_stopped_and_its_advice_works(what: str, tmp_path: Path) -> None:
    column, cell, advice, line = STOPPED[what]
    found = stops(table(tmp_path / "bad", column, cell))
    assert len(found) == 1
    assert advice in found[0], found
    assert "nodes.csv, line 1" in found[0]
    fixed = table(tmp_path / "good", column, cell, f"{line}\n")
    assert stops(fixed) == []
    write_prepared(made_of(fixed), tmp_path / "out")
    assert_no_rare_value(fixed, tmp_path / "out")


READ: dict[str, tuple[str, Cell]] = {
    "a constant": ("kind", lambda n, r: "private"),
    "an empty column": ("kind", lambda n, r: ""),
    "emoji": ("mood", lambda n, r: r.choice(["🙂", "🙁", "🏦 bank"]) if n else "🦄"),
    "rare city": ("city", city),
    "cents": ("balance", lambda n, r: f"{r.random() * 10**6:.2f}"),
    "brackets of income": (
        "income",
        lambda n, r: r.choice(["10000-20000", "20000-30000", "30000-50000"]),
    ),
    "booleans": ("has_phone", lambda n, r: r.choice(["true", "false"])),
    "a number with a long tail": (
        "wealth",
        lambda n, r: 999_999_937 if n == 5 else r.randint(1, 99),
    ),
    "quotes and breaks": ("kind", lambda n, r: r.choice(['a;"b', "c\nd", "e"])),
}


@pytest.mark.parametrize("what", READ)
def test_harmless_column_is_read_without_rare_values(what: str, tmp_path: Path) -> None:
    folder = table(tmp_path / "t", *READ[what])
    assert stops(folder) == []
    made = made_of(folder)
    assert np.isfinite(made.features).all()
    write_prepared(made, tmp_path / "out")
    assert_no_rare_value(folder, tmp_path / "out")
    assert read_schema(tmp_path / "out" / "schema.json") == made.schema


def test_rare_fraud_and_unknown_accounts_are_told(tmp_path: Path) -> None:
    folder = table(tmp_path / "t", "city", city, fraud=0.03)
    assert made_of(folder).labels.sum() == 12
    with (folder / "edges.csv").open("a") as file:
        file.write("\nK1,stranger")
    assert "unknown_ends: drop" in stops(folder)[0]


def test_three_hundred_columns_are_read(tmp_path: Path) -> None:
    draw = random.Random(1)
    header = ["id", *(f"c{i}" for i in range(300)), "label"]
    rows = [
        [f"K{n}", *(round(draw.gauss(0, 1), 3) for _ in range(300)), "yes" if n % 5 else "no"]
        for n in range(60)
    ]
    made = made_of(written(tmp_path / "t", header, rows, ""))
    assert made.faults == ()
    assert made.features.shape == (60, 300)


def test_decimal_commas_read_by_the_setting_are_the_numbers(tmp_path: Path) -> None:
    cells = ["1.234,5", "-7", "0,25", "12,75"]
    folder = table(tmp_path / "t", "x", lambda n, r: cells[n % 4], 'decimal: ","\n')
    made = made_of(folder)
    assert made.gathered.columns["x"][:4] == ["1234.5", "-7", "0.25", "12.75"]
    assert made.schema.columns[0].kind == "number"


def test_dates_become_age_and_weekday_by_public_rules(tmp_path: Path) -> None:
    rule = f"date: {{opened: {{{REFERENCE}, years: 10, features: [age, weekday]}}}}\n"
    days = ["2020-01-01", "1990-01-01", "2024-12-31"]
    made = made_of(table(tmp_path / "t", "opened", lambda n, r: days[n % 3], rule))
    assert made.faults == ()
    assert made.features[:3, 0].tolist() == pytest.approx([0.5002, 1.0, 1 / 3652.5], abs=1e-4)
    assert made.features[0, 1:8].tolist() == [0, 0, 1, 0, 0, 0, 0]  # a Wednesday
    bad = made_of(table(tmp_path / "b", "opened", lambda n, r: days[n % 3] if n else "soon", rule))
    assert "opened 'soon'" in str(bad.faults[0])


def test_bins_have_the_edges_of_the_config(tmp_path: Path) -> None:
    made = made_of(
        table(tmp_path / "t", "x", lambda n, r: n % 50, "bins: {x: [10, 20]}\n", fraud=0.5)
    )
    assert made.features[[9, 10, 19, 20, 49], :3].argmax(1).tolist() == [0, 1, 1, 2, 2]
    assert made.schema.columns[0].declared


def test_value_needs_enough_records_at_one_organisation(tmp_path: Path) -> None:
    root = tmp_path / "banks"
    for bank, count in (("north", 9), ("south", 9), ("east", 10)):
        value = "together" if bank != "east" else "alone"
        rows = [
            (f"{bank}{n}", value if n < count else "usual", n % 7, "yes" if n % 2 else "no")
            for n in range(60)
        ]
        written(root / bank, ["id", "word", "x", "label"], rows, "")
    (root / "tables.yaml").write_text(BASE)
    column = made_of(root).schema.columns[0]
    assert column.values == ("alone", "usual")  # 18 records at two banks would tell of each other
    assert column.other


def test_rare_class_is_stopped_unless_it_is_declared(tmp_path: Path) -> None:
    folder = table(tmp_path / "t", "city", city, fraud=0.02)
    (folder / "tables.yaml").write_text("")
    assert "class 'yes' in 8 records" in stops(folder)[0]
    (folder / "tables.yaml").write_text(BASE)
    assert stops(folder) == []


def test_first_line_of_values_is_no_header(tmp_path: Path) -> None:
    folder = table(tmp_path / "t", "city", city)
    lines = (folder / "nodes.csv").read_text().splitlines()
    (folder / "nodes.csv").write_text("\n".join(lines[1:]))
    assert any("no name of a column: '" in stop for stop in stops(folder))
    (folder / "nodes.csv").write_text("\n".join(["id;Wien;age;label", *lines[1:]]))
    assert any("no name of a column: 'Wien'" in stop for stop in stops(folder))


def test_client_column_of_few_records_is_not_named(tmp_path: Path) -> None:
    folder = table(
        tmp_path / "t", "client", lambda n, r: f"person {n // 5}" if n < 50 else "the rest"
    )
    made = made_of(folder)
    assert made.faults == ()
    assert not any("person" in name for name in made.schema.clients)
    assert "the rest" in made.schema.clients


def test_learnt_facts_are_named_and_declared_ones_are_not(tmp_path: Path) -> None:
    learnt = made_of(table(tmp_path / "a", "city", city)).schema.learnt
    assert any("mean and scale of age" in fact for fact in learnt)
    assert any("frequent values of city" in fact for fact in learnt)
    rules = "range: {age: [18, 90]}\nvalues: {city: [Wien, Graz]}\n"
    assert made_of(table(tmp_path / "b", "city", city, rules)).schema.learnt == ()


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("bins: {x: [3, 2]}", "ascending"),
        ("range: {x: [3, 3]}", "ascending"),
        ("ignore: [x]\nbins: {x: [3]}", "found under 2"),
        ("min_records: 3", "min_records"),
        ("values: {x: [a, a]}", "twice"),
        ('date: {x: {reference: "tomorrow"}}', "reference"),
    ],
)
def test_rules_that_make_no_sense_are_refused(tmp_path: Path, yaml: str, said: str) -> None:
    (tmp_path / "tables.yaml").write_text(yaml)
    with pytest.raises(ConfigError, match=said):
        table_settings(tmp_path)


def test_mean_is_rounded_to_half_of_its_scale() -> None:
    from securefg.data.tabular.schema import describe_column

    values = [str(n) for n in range(1000, 1100)] + ["123456"]
    column = describe_column("x", values, TableSettings())
    assert (column.mean, column.scale) == (1050.0, 20.0)


@pytest.mark.parametrize("declared", [True, False])
def test_run_names_what_the_schema_tells_as_not_covered(declared: bool, tmp_path: Path) -> None:
    from securefg.runs.assembly import prepare
    from securefg.runs.epsilons import not_covered
    from securefg.settings.config import parse_config

    rules = "range: {age: [18, 90]}\nvalues: {city: [Wien, Graz]}\n" if declared else ""
    write_prepared(made_of(table(tmp_path / "t", "city", city, rules)), tmp_path / "out")
    split = {"kind": "shares", "train_share": 0.5, "val_share": 0.2}
    config = parse_config(
        {
            "method": {"name": "fedavg"},
            "data": {"name": "folder", "folder": str(tmp_path / "out"), "split": split},
            "partition": {"name": "random", "num_clients": 2},
        }
    )
    told = [what for what in not_covered(prepare(config)) if "schema.json" in what]
    assert bool(told) is not declared
    assert not any("computed from edges" in what for what in not_covered(prepare(config)))
    text = (tmp_path / "t" / "tables.yaml").read_text()
    (tmp_path / "t" / "tables.yaml").write_text(f"{text}from_edges: [age]\n")
    write_prepared(made_of(tmp_path / "t"), tmp_path / "again")
    shutil.copy(tmp_path / "again" / "schema.json", tmp_path / "out" / "schema.json")
    assert any("1 columns that were computed from edges" in w for w in not_covered(prepare(config)))
    (tmp_path / "out" / "schema.json").write_text("{")
    assert "schema.json, which cannot be read" in not_covered(prepare(config))
