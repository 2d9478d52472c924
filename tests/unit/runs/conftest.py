"""Folders for findings of tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of an exchange; the history of its audits lies beside it."""
    (tmp_path / "audit").mkdir()
    return tmp_path / "audit"
