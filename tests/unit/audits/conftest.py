"""Fixtures of several tests of audits."""

from __future__ import annotations

import pytest


@pytest.fixture
def few_birthdays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play the game of birthdays briefly: half of an audit's time, for other mutants than these."""
    monkeypatch.setattr("audits.mechanisms.audit.BIRTHDAYS", 40)
