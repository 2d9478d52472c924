"""Every test that the pages on folders and on verdicts name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("page", "least"), [("reference/trust_in_folders", 30), ("reference/verdicts", 25)]
)
def test_the_page_names_tests_that_are_there(page: str, least: int) -> None:
    named = set(re.findall(r"`(test_\w+)`", Path(f"docs/{page}.md").read_text()))
    texts = [path.read_text() for path in Path("tests").rglob("test_*.py")]
    there = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.M)}
    assert len(named) > least
    assert named - there == set()
