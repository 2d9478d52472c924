"""Every test that the page on folders names is there."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_page_on_folders_names_tests_that_are_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", Path("docs/trust_in_folders.md").read_text()))
    texts = [path.read_text() for path in Path("tests").rglob("test_*.py")]
    there = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.M)}
    assert len(named) > 30
    assert named - there == set()
