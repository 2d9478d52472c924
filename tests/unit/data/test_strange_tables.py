"""Tables of strangers: files, ids, labels, dates and amounts as spreadsheets make them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from securefg.data.tabular.dates import as_date, fitting_formats
from securefg.data.tabular.faults import Fault, Unreadable, group_faults
from securefg.data.tabular.identities import plain_id
from securefg.data.tabular.prepare import Prepared, describe_prepared, prepared, write_prepared
from securefg.data.tabular.schema import describe_column
from securefg.data.tabular.transfers import read_amount, read_time
from securefg.foundation.errors import ConfigError, DataError
from securefg.settings.tables import TableSettings, TransferRule, table_settings

N = 120
Cell = Callable[[int, random.Random], object]
Row = tuple[object, ...]
DRAW = random.Random(1)
ROWS: list[Row] = [
    (1000 + n, DRAW.randint(18, 90), "yes" if n % 3 == 0 else "no") for n in range(N)
]
RING = [(1000 + n, 1000 + (n + 1) % N) for n in range(N)]
MISSING = '"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"'


def lines(header: str, rows: Sequence[Row], sep: str = ",", end: str = "\n") -> str:
    return end.join([header.replace(",", sep), *(sep.join(map(str, row)) for row in rows)])


def tables(
    folder: Path,
    nodes: str | bytes,
    edges: Sequence[Row] = RING,
    yaml: str = "",
    ends: str = "source,target",
) -> Path:
    folder.mkdir(parents=True)
    (folder / "nodes.csv").write_bytes(nodes if isinstance(nodes, bytes) else nodes.encode())
    (folder / "edges.csv").write_text(lines(ends, edges), encoding="utf-8")
    (folder / "tables.yaml").write_text(yaml, encoding="utf-8")
    return folder


def column(folder: Path, name: str, cell: Cell, yaml: str = "") -> Path:
    draw = random.Random(0)
    rows = [(*row, cell(n, draw)) for n, row in enumerate(ROWS)]
    return tables(folder, lines(f"id;age;label;{name}", rows, ";"), yaml=yaml)


def made_of(folder: Path) -> Prepared:
    return prepared(folder, table_settings(folder))


def faults(folder: Path) -> list[str]:
    try:
        return [str(fault) for fault in made_of(folder).faults]
    except Unreadable as error:
        return [str(fault) for fault in error.faults]


# ------------------------------------------------------------------------------------------- files

FILES: dict[str, bytes] = {
    "byte order mark": ("\ufeff" + lines("id,age,label", ROWS, ";")).encode(),
    "spreadsheet's own first line": ("sep=;\r\n" + lines("id,age,label", ROWS, ";")).encode(),
    "carriage returns": lines("id,age,label", ROWS, end="\r").encode(),
    "windows": lines("id,age,label", ROWS, end="\r\n").encode(),
    "blank lines": ("\n\n" + lines("id,age,label", ROWS, end="\n\n")).encode(),
    "utf-16 with its mark": lines("id,age,label", ROWS).encode("utf-16"),
    "every line ends with a separator": lines("id,age,label,", [(*r, "") for r in ROWS]).encode(),
    "lines but the first end with one": lines("id,age,label", [(*r, "") for r in ROWS]).encode(),
    "blanks": lines(" id ,age , label", [(f" {a}\u00a0", f"{b} ", c) for a, b, c in ROWS]).encode(),
    "invisible characters": lines(
        "id,age,label", [(f"{a}\u200b", b, c) for a, b, c in ROWS]
    ).encode(),
}


@pytest.mark.parametrize("what", FILES)
def test_file_of_an_export_is_read_as_the_plain_one(what: str, tmp_path: Path) -> None:
    plain = made_of(tables(tmp_path / "plain", lines("id,age,label", ROWS)))
    made = made_of(tables(tmp_path / "t", FILES[what]))
    assert made.faults == ()
    assert np.array_equal(made.features, plain.features)
    assert made.gathered.ids == plain.gathered.ids
    assert np.array_equal(made.edges, plain.edges)


def test_quoted_line_breaks_stay_in_their_cell(tmp_path: Path) -> None:
    rows = [(*row, '"two\nlines; ""x"""' if n % 2 else "one") for n, row in enumerate(ROWS)]
    made = made_of(tables(tmp_path / "t", lines("id,age,label,note", rows)))
    assert made.schema.columns[1].values == ("one", 'two\nlines; "x"')


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (lines("id,age,label", ROWS).encode("utf-16-le"), "encoding: utf-16-le"),
        (("Export of 2024\n" + lines("id,age,label", ROWS)).encode(), "found 1 fields, and 3"),
        (lines("id,age,label", [*ROWS[:9], (2000, '"3', "no")]).encode(), "never closed"),
        (lines("branch,age,label", [("Wien", 3, "no")] * 9).encode(), "tables.yaml `id: `"),
        (
            lines("kind,nr,label", [("x" * (n % 2), n, "no") for n in range(9)]).encode(),
            "such as nr",
        ),
    ],
)
def test_file_that_misleads_is_refused_with_advice(nodes: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        made_of(tables(tmp_path / "t", nodes))


def test_organisation_whose_table_has_another_name_is_not_left_out(tmp_path: Path) -> None:
    tables(tmp_path / "banks" / "north", lines("id,age,label", ROWS))
    tables(tmp_path / "banks" / "south", "id")
    (tmp_path / "banks" / "south" / "nodes.csv").rename(tmp_path / "banks" / "south" / "Nodes2.csv")
    with pytest.raises(DataError, match="south: found tables, and none called nodes"):
        made_of(tmp_path / "banks")


def test_many_faults_of_one_kind_are_told_in_few_lines(tmp_path: Path) -> None:
    alike = [Fault(tmp_path, n, f"x {n}", "a number") for n in range(500)]
    told = group_faults([*alike, Fault(tmp_path, 1, "no label", "a label")])
    assert len(told) == 5
    assert "497 lines more" in told[3]


# --------------------------------------------------------------------------------------------- ids


def test_last_line_of_totals_and_shortened_ids_are_faults(tmp_path: Path) -> None:
    total = tables(tmp_path / "total", lines("id,age,label", [*ROWS, ("Summe", 9000, "")]))
    assert "a line of totals" in faults(total)[0]
    short = [(f"1.2346E+{n}", *row[1:]) for n, row in enumerate(ROWS, 5)]
    edges = [(short[n][0], short[n - 1][0]) for n in range(N)]
    (said,) = faults(tables(tmp_path / "short", lines("id,age,label", short), edges))
    assert "a spreadsheet cut the digits" in said


ENDS: dict[str, tuple[Sequence[Row], str, str]] = {
    "zeros were lost": ([(a - 1000, b - 1000) for a, b in RING], "source,target", "one spelling"),
    "numbers with a point": ([(f"{a}.0", f"{b}.0") for a, b in RING], "source,target", "spelling"),
    "the first column counts transfers": (
        [(f"T{n}", *pair, 5) for n, pair in enumerate(RING)],
        "nr,payer,payee,amount",
        "`source: payer` and `target: payee`",
    ),
}


@pytest.mark.parametrize("yaml", ["", "unknown_ends: drop\n"])
@pytest.mark.parametrize("what", ENDS)
def test_ends_that_match_no_node_are_one_fault_with_advice(
    what: str, yaml: str, tmp_path: Path
) -> None:
    edges, header, message_text = ENDS[what]
    nodes = ROWS
    if what == "zeros were lost":
        nodes = [(f"{number - 1000:06}", *rest) for number, *rest in ROWS]  # type: ignore[operator]
    found = faults(tables(tmp_path / "t", lines("id,age,label", nodes), edges, yaml, header))
    assert len(found) == 1
    assert message_text in found[0]


def test_ends_outside_the_tables_are_dropped_without_a_fault(tmp_path: Path) -> None:
    edges = [*RING, *((1000 + n, f"abroad {n}") for n in range(3 * N))]
    folder = tables(tmp_path / "t", lines("id,age,label", ROWS), edges, "unknown_ends: drop\n")
    made = made_of(folder)
    assert made.faults == ()
    assert made.gathered.unknown_ends == 3 * N


def test_ids_that_look_alike_are_one_node() -> None:
    assert plain_id("e\u0301a\u200b") == plain_id("\u00e9a")
    assert plain_id("007") == "007"


def test_customers_in_a_column_called_client_are_no_clients(tmp_path: Path) -> None:
    rows = [(*row, f"P{n // 2}") for n, row in enumerate(ROWS)]
    (said,) = faults(tables(tmp_path / "t", lines("id,age,label,client", rows)))
    assert "column 'client': 60 values" in said
    assert "`client: organisation`" in said
    named = tables(tmp_path / "n", lines("id,age,label,client", rows), yaml="client: bank\n")
    assert "column 'client': 60 values, most of them in fewer than 10" in faults(named)[0]


# ------------------------------------------------------------------------------------------ labels

LABELS: dict[str, tuple[Callable[[int], object], str]] = {
    "case": (lambda n: ["yes", "Yes", "no", "No"][n % 4], "one spelling"),
    "points": (lambda n: ["1", "1.0", "0", "0.0"][n % 4], "one spelling"),
    "no word for none": (lambda n: ["yes", "no", "unknown"][n % 3], f'[{MISSING}, "unknown"]'),
    "minus one": (lambda n: [1, 0, -1][n % 3], "for no label"),
    "a score": (lambda n: [0.1, 0.25, 0.5, 0.75][n % 4], "a score?"),
    "one class": (lambda n: "no", "two classes or more"),
}


@pytest.mark.parametrize("what", LABELS)
def test_labels_that_mislead_are_stopped(what: str, tmp_path: Path) -> None:
    label, message_text = LABELS[what]
    rows = [(row[0], row[1], label(n)) for n, row in enumerate(ROWS)]
    found = faults(tables(tmp_path / "t", lines("id,age,label", rows)))
    assert len(found) == 1
    assert message_text in found[0], found


def test_column_that_gives_the_label_away_is_named(tmp_path: Path) -> None:
    telling = column(tmp_path / "t", "closed", lambda n, r: int(n % 3 == 0) * 5 + r.random())
    rows = [row for row in describe_prepared(made_of(telling)) if row[0].startswith("LOOK AT")]
    assert len(rows) == 1
    assert "closed" in rows[0][0]
    harmless = column(tmp_path / "h", "x", lambda n, r: int(n % 3 == 0) + 2 * r.random())
    assert not any(row[0].startswith("LOOK AT") for row in describe_prepared(made_of(harmless)))


# ---------------------------------------------------------------------------------------- columns


def mixed_dates(n: int, draw: random.Random) -> str:
    day, month = draw.randint(13, 28), draw.randint(1, 12)
    return f"2024-{month:02}-{day}" if n % 2 else f"{month:02}/{day}/2024"


STOPPED: dict[str, tuple[Cell, str]] = {
    "phones without plus": (
        lambda n, r: f"43{r.choice(['660', '1'])}{r.randint(10**6, 10**9)}",
        "ignore",
    ),
    "phones with points": (
        lambda n, r: f"{r.randint(200, 999)}.555.{r.randint(1000, 9999)}",
        "ignore",
    ),
    "one number for three accounts": (lambda n, r: 123_456_789 + n // 3 * 100_003, "ignore"),
    "national ids": (
        lambda n, r: f"{r.randint(40, 99)}0{r.randint(1, 9)}{r.randint(10**6, 10**7)}",
        "ignore",
    ),
    "addresses of machines": (lambda n, r: f"10.{n % 99}.3.{r.randint(1, 250)}", "machines"),
    "percent": (lambda n, r: f"{r.random() * 100:.1f} %", "in the table numbers alone"),
    "francs": (lambda n, r: f"CHF {r.randint(1, 999)}'{r.randint(100, 999)}.50", "numbers alone"),
    "blanks between thousands": (
        lambda n, r: f"{r.randint(1, 99)}\u00a0{r.randint(100, 999)},50",
        '`decimal: ","`',
    ),
    "points between thousands": (
        lambda n, r: f"{r.randint(1, 999)}.{r.randint(100, 999)}",
        'decimal: ","` if so',
    ),
    "two points": (lambda n, r: f"{r.randint(1, 9)}.{r.randint(100, 999)}.000", '`decimal: ","`'),
    "commas before three digits": (
        lambda n, r: f"{r.randint(1, 999)},{r.randint(100, 999)}",
        "thousands?",
    ),
    "brackets": (
        lambda n, r: f"({r.random():.2f})" if n % 4 else f"{r.random():.2f}",
        "minus sign",
    ),
    "minus at the end": (lambda n, r: f"{r.random():.2f}-" if n % 4 else "3.50", "minus sign"),
    "seven gaps": (
        lambda n, r: r.choice(["-", "n/a", "none", "#N/A", ".", "NaT", "k.A."]) if n % 4 else n / 7,
        'missing: ["", "NA"',
    ),
    "gaps among words": (lambda n, r: r.choice(["red", "n/a", "-", "blue"]), "words for a gap"),
    "too large": (lambda n, r: 1e308 if n % 2 else -1e308, "range: {x: [low, high]}"),
    "two spellings of dates": (mixed_dates, "one spelling for all dates"),
    "dates with a zone's name": (lambda n, r: f"2024-01-{10 + n % 9} 10:00:00 CET", "one spelling"),
    "dates of either kind": (
        lambda n, r: f"0{r.randint(1, 9)}/0{r.randint(1, 9)}/2024",
        'format: "%d/%m/%Y"}}` or `date: {x: {reference: "2025-01-01", format: "%m/%d/%Y"',
    ),
    "dates of the United States": (
        lambda n, r: f"0{r.randint(1, 9)}/{r.randint(13, 28)}/2024",
        'date: {x: {reference: "2025-01-01", format: "%m/%d/%Y"}}`,',
    ),
    "dates beside words": (
        lambda n, r: "open" if n % 3 else f"2024-01-{10 + n % 9}",
        '"open"]` with',
    ),
    "months": (lambda n, r: f"2024-0{r.randint(1, 9)}", '%Y-%m"'),
    "quarters": (lambda n, r: f"2024-Q{r.randint(1, 4)}", "values: {x: [...]}"),
    "case": (lambda n, r: r.choice(["TRUE", "True", "false"]), "the same value?"),
    "free text": (lambda n, r: " ".join(r.choices(["call", "loan", "asked"], k=9)), "ignore: [x]"),
}


@pytest.mark.parametrize("what", STOPPED)
def test_column_of_a_stranger_is_stopped(what: str, tmp_path: Path) -> None:
    cell, said = STOPPED[what]
    found = faults(column(tmp_path / "t", "x", cell))
    assert len(found) == 1, found
    assert said in found[0]


@pytest.mark.parametrize("name", ["plz", "zipCode", "branch_id", "MCC"])
def test_codes_without_leading_zeros_are_no_numbers(name: str, tmp_path: Path) -> None:
    folder = column(tmp_path / "t", name, lambda n, r: r.choice([1010, 4020, 8010]))
    assert f"categorical: [{name}]" in faults(folder)[0]
    fixed = column(
        tmp_path / "f", name, lambda n, r: r.choice([1010, 4020]), f"categorical: [{name}]\n"
    )
    assert faults(fixed) == []


def test_days_of_a_spreadsheet_are_dates(tmp_path: Path) -> None:
    def days(n: int, draw: random.Random) -> int:
        return draw.randint(36_526, 45_657)

    (said,) = faults(column(tmp_path / "t", "opened", days))
    assert 'format: "excel"' in said
    rule = 'date: {opened: {reference: "2025-01-01", format: excel}}\n'
    assert faults(column(tmp_path / "f", "opened", days, rule)) == []
    assert as_date("45658", "excel").isoformat() == "2025-01-01"
    assert faults(column(tmp_path / "n", "salary", days)) == []


def test_advice_quotes_names_that_yaml_would_misread(tmp_path: Path) -> None:
    for number, name in enumerate(("no", "on: the way", "x]")):
        folder = column(tmp_path / f"t{number}", name, lambda n, r: f"{r.getrandbits(60):x}")
        (said,) = faults(folder)
        line = said.split("`")[1]
        (folder / "tables.yaml").write_text(line)
        assert faults(folder) == []


def test_faulty_values_are_told_with_their_line(tmp_path: Path) -> None:
    rule = 'date: {x: {reference: "2025-01-01"}}\n'
    found = faults(column(tmp_path / "t", "x", mixed_dates, rule))
    assert len(found) == N // 2
    assert "nodes.csv, line 2: found x '" in found[0]
    assert found[0].endswith("wanted a date as 2025-01-31")


def test_time_zones_keep_the_day_that_the_text_has() -> None:
    assert as_date("2024-01-31T23:30:00+02:00", None).day == 31
    assert as_date("2024-02-01 00:30:00-05:00", None).day == 1
    assert fitting_formats(["2024-01-31T22:00:00Z", "2024-01-31"])[0] is None


def test_negative_numbers_and_gaps_are_read(tmp_path: Path) -> None:
    made = made_of(column(tmp_path / "t", "x", lambda n, r: "" if n == 3 else r.gauss(-50, 20)))
    assert made.faults == ()
    gap = made.schema.columns[1]
    assert not gap.missing  # one record without a value does not enter the schema
    assert made.features[3, 1] == 0
    assert "1 missing" in str(describe_prepared(made))


def test_one_rich_record_shows_neither_in_mean_nor_in_scale(tmp_path: Path) -> None:
    values = [str(n % 50) for n in range(400)]
    rich = [*values[:-1], "999999937"]
    settings = TableSettings()
    assert describe_column("x", rich, settings) == describe_column("x", values, settings)
    folder = column(tmp_path / "t", "x", lambda n, r: 999_999_937 if n == 5 else n % 50)
    assert np.abs(made_of(folder).features).max() == 10


# --------------------------------------------------------------------------------------- transfers

RULE = "transfers: {amount: {amount: [0, 12]}, time: {when: [0, 50, 100]}}\n"
DAYS = (
    "transfers: {amount: {amount: [0, 12]}, "
    'time: {when: ["2024-01-01", "2024-02-01", "2024-03-01"]}, format: "%d.%m.%Y"}\n'
)


def with_edges(folder: Path, cells: Callable[[int], Row], yaml: str = RULE) -> Path:
    edges = [(*pair, *cells(n)) for n, pair in enumerate(RING)]
    return tables(folder, lines("id,age,label", ROWS), edges, yaml, "from,to,amount,when")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (lambda n: (-50 * (n % 2), n), "not negative, the direction in source and target"),
        (lambda n: ("1e308", n), "found amount '1e308'"),
        (lambda n: (f"{n} EUR", n), "amounts as numbers"),
        (lambda n: ("inf", n), "amounts as numbers"),
        (lambda n: (n, "2024-01-05"), "days as windows"),
    ],
)
def test_transfers_that_cannot_be_summed_are_faults_of_their_lines(
    cells: Callable[[int], Row], said: str, tmp_path: Path
) -> None:
    found = faults(with_edges(tmp_path / "t", cells))
    assert said in found[0]
    assert "edges.csv, line " in found[0]


def test_days_are_windows_as_numbers_are(tmp_path: Path) -> None:
    by_day = made_of(with_edges(tmp_path / "d", lambda n: (n, f"{1 + n % 28:02}.01.2024"), DAYS))
    by_number = made_of(with_edges(tmp_path / "n", lambda n: (n, n % 28)))
    assert by_day.faults == ()
    assert np.array_equal(by_day.features, by_number.features)
    assert any("any with when from 2024-01-01 to below" in f for f in by_day.schema.features)
    write_prepared(by_day, tmp_path / "out")
    again = prepared(tmp_path / "d", table_settings(tmp_path / "d"), by_day.schema)
    assert np.array_equal(again.features, by_day.features)


def test_transfers_outside_all_windows_are_told(tmp_path: Path) -> None:
    made = made_of(with_edges(tmp_path / "t", lambda n: (n, 1_700_000_000 if n % 2 else 3)))
    assert "50% of the transfers are outside all windows" in str(describe_prepared(made))


def test_amounts_and_times_that_are_no_numbers_raise() -> None:
    assert read_amount("0") == 0
    for text in ("-1", "nan", "1e31", "1,5"):
        with pytest.raises(ValueError, match="amounts as numbers"):
            read_amount(text)
    rule = TransferRule(time={"when": (0.0, 1.0)})
    with pytest.raises(ValueError, match="days as windows"):
        read_time("nan", rule, "when")


# --------------------------------------------------------------------------------- split by time

TIMED = 'ignore: [opened]\nsplit_by: {column: opened, val: "2024-03-01", test: "2024-05-01"}\n'


def test_split_by_time_deals_labelled_nodes_by_their_day(tmp_path: Path) -> None:
    folder = column(tmp_path / "t", "opened", lambda n, r: f"2024-0{1 + n % 6}-15", TIMED)
    made = made_of(folder)
    assert made.faults == ()
    wanted = ["train", "train", "val", "val", "test", "test"]
    assert made.gathered.splits[:6] == wanted
    assert ("split", "train 40, val 40, test 40") in [row[:2] for row in describe_prepared(made)]
    odd = column(
        tmp_path / "o", "opened", lambda n, r: "15.01.2024" if n == 3 else "2024-01-15", TIMED
    )
    (said,) = faults(odd)
    assert "line 5: found opened '15.01.2024'; wanted a day as 2025-01-31" in said


def test_split_by_time_beside_a_column_is_refused(tmp_path: Path) -> None:
    rows = [(*row, "train", "2024-01-01") for row in ROWS]
    folder = tables(tmp_path / "t", lines("id,age,label,split,opened", rows), yaml=TIMED)
    assert "a column or `split_by`, not both" in faults(folder)[0]
    (tmp_path / "t" / "tables.yaml").write_text(TIMED.replace("2024-03", "2024-07"))
    with pytest.raises(ConfigError, match="found val 2024-07-01 after test"):
        made_of(folder)
