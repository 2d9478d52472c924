"""Failures of the outside world are told apart from our own, with what helps."""

from __future__ import annotations

import errno

import pytest

from securefg.foundation.errors import cause_of


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (OSError(errno.ENOSPC, "x", "a/b"), "a/b: No space left on device; free some space"),
        (OSError(errno.EMFILE, "x"), "Too many open files; raise the limit on open files"),
        (
            PermissionError(errno.EACCES, "x", "x/y"),
            "x/y: Permission denied; check who",
        ),
        (OSError("odd"), "odd"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you"), "not enough memory"),
    ],
)
def test_an_outside_failure_is_a_line_with_its_cause(error: Exception, wanted: str) -> None:
    said = cause_of(error)
    assert said is not None
    assert said.startswith(wanted)
    assert "\n" not in said


def test_a_bug_is_no_outside_failure() -> None:
    for error in (RuntimeError("shapes"), ValueError("x"), KeyError("y")):
        assert cause_of(error) is None
