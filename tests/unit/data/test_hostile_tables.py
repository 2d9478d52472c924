"""Hostile tables: each is read correctly, or stopped with a word that names the cause."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from securefg.data.tabular.prepare import describe_prepared, prepared
from securefg.foundation.errors import DataError
from securefg.settings.tables import table_settings

N = 240
Cell = Callable[[int, random.Random], object]
Id = Callable[[int], object]


def plain_id(number: int) -> object:
    return f"K{number}"


def yes_or_no(number: int) -> object:
    return "yes" if number % 3 == 0 else "no"


def lines(
    name: str, cell: Cell, ids: Id = plain_id, label: Id = yes_or_no, count: int = N
) -> list[str]:
    draw = random.Random(0)
    rows = (f"{ids(n)},{cell(n, draw)},{draw.randint(18, 90)},{label(n)}" for n in range(count))
    return [f"id,{name},age,label", *rows]


def tables(folder: Path, nodes: Sequence[str] | bytes, yaml: str = "") -> Path:
    folder.mkdir(parents=True)
    data = nodes if isinstance(nodes, bytes) else "\n".join(nodes).encode()
    (folder / "nodes.csv").write_bytes(data)
    ids = [line.partition(b",")[0].decode(errors="replace") for line in data.split(b"\n")[1:]]
    edges = [f"{a},{b}" for a, b in zip(ids, [*ids[1:], *ids[:1]], strict=True)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]))
    (folder / "tables.yaml").write_text(yaml)
    return folder


def answer(folder: Path) -> str:
    """Return what stops the tables, in one text. Nothing if they are read."""
    try:
        return "\n".join(map(str, prepared(folder, table_settings(folder)).faults))
    except DataError as error:
        return str(error)


def formula(n: int, draw: random.Random) -> str:
    return draw.choice(["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0"])


def plain(n: int, draw: random.Random) -> object:
    return draw.choice("ab")


def city(n: int, draw: random.Random) -> str:
    return draw.choice(["Zürich", "Köln"])


IN_TWO_ENCODINGS = b"\n".join(
    line.encode() if number < N // 2 else line.encode("cp1252")
    for number, line in enumerate(lines("city", city))
)
STOPPED: dict[str, tuple[Sequence[str] | bytes, str]] = {
    "formulas": (lines("note", formula), "which a spreadsheet runs"),
    "formulas as ids": (lines("x", plain, ids=lambda n: f"=cmd|{n}"), "a spreadsheet runs this"),
    "formulas as classes": (
        lines("x", plain, label=lambda n: ("=1+1", "no")[n % 2]),
        "class '=1+1', which a spreadsheet runs",
    ),
    "integers of 5 000 digits": (
        lines("x", lambda n, r: str(n % 2 + 8) * 5000),
        "whole numbers of up to 5000 characters",
    ),
    "integers of 40 digits": (lines("x", lambda n, r: r.getrandbits(130)), "numbers as large as"),
    "a header twice": (lines("age", plain), "a header of distinct names"),
    "a header twice but for case": (lines("Age", lambda n, r: n % 7), "a name like that of 'Age'"),
    "zero bytes": (lines("x", lambda n, r: "a\0b" if n == 9 else "c"), "line 11: found a zero"),
    "two encodings in one file": (
        IN_TWO_ENCODINGS,
        f"line {N // 2 + 1}: found bytes that are not utf-8",
    ),
    "an encoding read twice": (
        lines("city", lambda n, r: city(n, r).encode().decode("cp1252")),
        "' in a wrong encoding",
    ),
    "the label under another name": (
        lines("status", lambda n, r: "bad" if n % 3 == 0 else "good"),
        "the label under another name",
    ),
    "the label as numbers": (
        lines("status", lambda n, r: 7 * (n % 3), label=lambda n: "abc"[n % 3]),
        "the label under another name",
    ),
    "the label as a gap": (
        lines("closed", lambda n, r: "" if n % 3 else 2.5),
        "the label under another name",
    ),
    "times with zones": (
        lines("at", lambda n, r: f"2024-01-{10 + n % 9}T23:30:00+0{n % 9}:00"),
        "date: {at:",
    ),
    "times with names of zones": (
        lines("at", lambda n, r: f"2024-01-{10 + n % 9} 10:00 {('UTC', 'Europe/Vienna')[n % 2]}"),
        "one spelling for all dates",
    ),
    "invisible marks in ids": (
        lines("x", plain, ids=lambda n: f"K\u202e{n - 1}" if n == 5 else f"K{n}"),
        "a second time",
    ),
    "a giant cell": (lines("x", lambda n, r: "a" * 200_000 if n == 5 else "b"), "field limit"),
    "an empty file": (b"", "a header of distinct names"),
}


@pytest.mark.parametrize("what", STOPPED)
def test_hostile_table_is_stopped_by_its_cause(what: str, tmp_path: Path) -> None:
    nodes, expected = STOPPED[what]
    assert expected in answer(tables(tmp_path / "t", nodes))


READ: dict[str, tuple[Sequence[str] | bytes, str]] = {
    "ids of 400 digits": (lines("x", plain, ids=lambda n: 10**400 + n), ""),
    "ids with a plus": (lines("x", plain, ids=lambda n: f"+{n}"), ""),
    "negative numbers": (lines("x", lambda n, r: f"-{n % 50}.5"), ""),
    "markup": (lines("<script>", lambda n, r: r.choice(["[red]", "{{7*7}}"])), ""),
    "a path": (lines("../../etc", lambda n, r: n % 7), ""),
    "digits of another script": (
        lines("x", lambda n, r: "".join(chr(0x660 + int(digit)) for digit in str(n % 90))),
        "",
    ),
    "a copy of the label, declared": (
        lines("status", lambda n, r: "bad" if n % 3 == 0 else "good"),
        "categorical: [status]\n",
    ),
}


@pytest.mark.parametrize("what", READ)
def test_odd_but_harmless_table_is_read(what: str, tmp_path: Path) -> None:
    folder = tables(tmp_path / "t", *READ[what])
    assert answer(folder) == ""
    assert prepared(folder, table_settings(folder)).features.shape[0] == N


def test_named_encoding_leaves_files_of_utf8_as_they_are(tmp_path: Path) -> None:
    for bank, encoding in (("north", "cp1252"), ("south", "utf-8")):
        rows = lines("city", city, ids=lambda n, bank=bank: f"{bank}{n}")  # type: ignore[misc]
        tables(tmp_path / "banks" / bank, "\n".join(rows).encode(encoding))
    assert "such as `encoding: cp1252`" in answer(tmp_path / "banks")
    (tmp_path / "banks" / "tables.yaml").write_text("encoding: cp1252\n")
    made = prepared(tmp_path / "banks", table_settings(tmp_path / "banks"))
    assert set(made.gathered.columns["city"]) == {"Z\u00fcrich", "K\u00f6ln"}
    assert [table.encoding for table in made.gathered.tables][:2] == ["cp1252", "utf-8"]


def test_ids_that_lost_zeros_at_one_bank_are_told(tmp_path: Path) -> None:
    tables(tmp_path / "banks" / "north", lines("x", plain, ids=lambda n: f"{n + 1000:06}"))
    tables(tmp_path / "banks" / "south", lines("x", plain, ids=lambda n: str(n + 1000)))
    rows = describe_prepared(prepared(tmp_path / "banks", table_settings(tmp_path / "banks")))
    assert ("LOOK AT ids", str(2 * N)) in [row[:2] for row in rows]


def test_hundred_thousand_categories_are_stopped(tmp_path: Path) -> None:
    many = lines("shop", lambda n, r: f"S-{n}", count=100_000)
    assert "perhaps identifiers" in answer(tables(tmp_path / "t", many))


def test_value_that_is_rare_at_every_bank_stays_out_of_the_schema(tmp_path: Path) -> None:
    for number, bank in enumerate(("a", "b", "c", "d")):
        bank_lines = lines(
            "word",
            lambda n, r: "Atlantis" if n < 9 else r.choice(["Wien", "Graz"]),
            ids=lambda n, number=number: f"{number}-{n}",  # type: ignore[misc]
        )
        tables(tmp_path / "banks" / bank, bank_lines)
    made = prepared(tmp_path / "banks", table_settings(tmp_path / "banks"))
    assert made.faults == ()
    assert made.schema.columns[0].values == ("Graz", "Wien")
    assert "Atlantis" not in made.schema.model_dump_json()
