"""The pages on threats name tests that exist, and one way to report."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path("docs/reference/threats.md")
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
NOT_PREVENTED = "not prevented by software"


def rows(text: str) -> list[list[str]]:
    """The cells of the table of what each party can try, row by row."""
    table = text.split("## What each can try")[1].split("## What does not hold")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_threat_names_a_test_that_exists() -> None:
    modules = {path.stem for path in Path("tests").rglob("test_*.py")}
    found = rows(PAGE.read_text())
    assert len(found) > 20
    for who, what, happens, shown in found:
        named = re.findall(r"`(test_\w+)`", shown)
        assert named or happens.startswith(NOT_PREVENTED), (who, what)
        assert set(named) <= modules, (who, what)


def test_the_pages_on_reporting_have_the_same_addresses() -> None:
    said, cited = (
        set(ADDRESS.findall(Path(p).read_text())) for p in ("SECURITY.md", "CITATION.cff")
    )
    assert said == cited
