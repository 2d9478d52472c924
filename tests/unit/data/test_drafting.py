"""All faults of messy tables at once, and a drafted tables.yaml that decides them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.data.tabular.drafting import apply_fixes, check_tables, settings_text, write_settings
from securefg.data.tabular.faults import Fix
from securefg.data.tabular.prepare import prepared, write_prepared
from securefg.foundation.errors import DataError
from securefg.settings.tables import TableSettings, table_settings

N = 200
FIRST = ("Änne", "Björn", "Cäcilia", "Dörte", "Emil", "Frida")
LAST = ("Müller", "Weiß", "Özdemir", "Huber", "Gruber")
HEADER = "nr;kundennr;inhaber;email;tel;umsatz;alter;seit;filiale;region;betrug"


def messy_row(bank: str, n: int, draw: random.Random) -> str:
    gap = draw.choice(("k.A.", "n/a", "-", "keine Angabe", "unbekannt"))
    cells = (
        n,
        f"{bank}-{n:05}",
        f"{draw.choice(FIRST)} {draw.choice(LAST)}",
        f"kunde{n}@{bank.lower()}.example",
        f"+43 660 {draw.randint(10**6, 10**7 - 1)}",
        gap if n % 9 == 0 else f"{draw.randint(1, 9)}.{draw.randint(100, 999)},{n % 90 + 10}",
        gap if n % 13 == 0 else draw.randint(18, 90),
        f"{draw.randint(1, 28):02}.{draw.randint(1, 12):02}.{draw.randint(2000, 2023)}",
        f"Filiale {draw.randint(1, 300)}",
        draw.choice(("Tirol", "Kärnten")),
        "" if n % 10 == 0 else ("ja" if n % 14 == 1 else "nein"),
    )
    return ";".join(map(str, cells))


def messy_banks(folder: Path) -> Path:
    draw = random.Random(3)
    for bank, encoding in (("Nord", "latin-1"), ("Sued", "utf-8")):
        (folder / bank).mkdir(parents=True)
        rows = [HEADER, *(messy_row(bank, n, draw) for n in range(N))]
        (folder / bank / "kunden.csv").write_bytes("\n".join(rows).encode(encoding))
        ends = [(draw.randrange(N + 9), draw.randrange(N + 9)) for _ in range(3 * N)]
        pays = [
            "beleg;von;an;betrag",
            *(f"B{n};{bank}-{a:05};{bank}-{b:05};9,5" for n, (a, b) in enumerate(ends)),
        ]
        (folder / bank / "zahlungen.csv").write_bytes("\n".join(pays).encode(encoding))
    return folder


EXPECTED = (
    "`nodes: kunden` and `edges: zahlungen`",
    "encoding: cp1252",
    "`label: betrug`",
    "`id: kundennr` and `source: von` and `target: an`",
    "unknown_ends: drop",
    "column 'nr'",
    "persons' names",
    "e-mail addresses",
    "phone numbers",
    'decimal: ","',
    "'k.A.'",
    "'keine Angabe'",
    "%d.%m.%Y",
    "column 'filiale'",
)


def test_check_of_messy_banks_names_all_faults_at_once(tmp_path: Path) -> None:
    banks = messy_banks(tmp_path / "banks")
    checked = check_tables(banks, TableSettings())
    told = "\n".join(checked.lines)
    assert [words for words in EXPECTED if words not in told] == []
    assert checked.left == 0


def test_drafted_settings_of_messy_banks_pass_the_check(tmp_path: Path) -> None:
    banks = messy_banks(tmp_path / "banks")
    command = ["data", "check", str(banks), "--draft", str(banks / "tables.yaml")]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 2
    assert (banks / "tables.yaml").read_text(encoding="utf-8") in first.output
    settings = table_settings(banks)
    assert set(settings.ignore) == {"nr", "inhaber", "email", "tel", "filiale"}
    assert (settings.decimal, settings.id, settings.label) == (",", "kundennr", "betrug")
    made = prepared(banks, settings)
    assert made.faults == ()
    assert [column.kind for column in made.schema.columns] == [
        "number",
        "number",
        "date",
        "category",
    ]
    write_prepared(made, tmp_path / "out")
    written = (tmp_path / "out" / "schema.json").read_text(encoding="utf-8")
    assert not any(word in written for word in ("Müller", "example", "+43", "Filiale"))


def test_draft_declares_nothing_public(tmp_path: Path) -> None:
    checked = check_tables(messy_banks(tmp_path / "banks"), TableSettings())
    drafted = checked.settings
    assert (drafted.values, drafted.range, drafted.bins, drafted.classes) == ({}, {}, {}, ())


def test_names_that_no_table_has_are_faults_with_near_names(tmp_path: Path) -> None:
    banks = messy_banks(tmp_path / "banks")
    settings = TableSettings.model_validate(
        {
            "nodes": "kunden",
            "edges": "zahlungen",
            "encoding": "latin-1",
            "label": "Betrugg",
            "id": "kundenr",
            "source": "von",
            "target": "ann",
            "ignore": ["e-mail"],
            "date": {"since": {"reference": "2025-01-01"}},
        }
    )
    told = "\n".join(check_tables(banks, settings).lines)
    for words in ("`label: betrug`", "`id: kundennr`", "'e-mail'", "email?", "'since'", "'ann'"):
        assert words in told


def test_fix_that_ignores_a_column_ends_its_other_rules() -> None:
    settings = TableSettings.model_validate({"categorical": ["plz"], "gaps": ["plz"]})
    fixed = apply_fixes(settings, [Fix({"ignore": ["plz"]})])
    assert (fixed.ignore, fixed.categorical, fixed.gaps) == (("plz",), (), ())


def test_drafted_text_is_read_back_as_the_settings(tmp_path: Path) -> None:
    fixes = [Fix({"ignore": ["a b", "yes", "öl"], "missing": ["-", ": x"]}), Fix({"decimal": ","})]
    drafted = apply_fixes(TableSettings(), fixes)
    write_settings(drafted, tmp_path / "tables.yaml")
    assert table_settings(tmp_path) == drafted
    assert settings_text(drafted) == (tmp_path / "tables.yaml").read_text(encoding="utf-8")
    with pytest.raises(DataError, match="exists; wanted a new file"):
        write_settings(drafted, tmp_path / "tables.yaml")


def test_shared_rule_is_not_drafted_for_columns_that_are_left_out(tmp_path: Path) -> None:
    for bank in ("north", "south"):
        rows = [
            f"K{n},+43 660 {1234567 + n}{len(bank) + n % 7},{n % 50},{n % 2}" for n in range(90)
        ]
        rows = [row.replace("660", "661") if bank == "south" else row for row in rows]
        (tmp_path / "banks" / bank).mkdir(parents=True)
        (tmp_path / "banks" / bank / "nodes.csv").write_text("\n".join(["id,tel,age,label", *rows]))
        ends = "\n".join(["source,target", *(f"K{n},K{(n + 1) % 90}" for n in range(90))])
        (tmp_path / "banks" / bank / "edges.csv").write_text(ends)
    checked = check_tables(tmp_path / "banks", TableSettings())
    assert any("of a shared node" in line for line in checked.lines)
    assert checked.left == 0
    assert checked.settings == TableSettings(ignore=("tel",))
