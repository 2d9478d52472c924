"""Test modules have names of their own: without packages, two of one name hide each other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path


def test_no_two_test_modules_share_a_name() -> None:
    names = Counter(path.name for path in Path("tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
