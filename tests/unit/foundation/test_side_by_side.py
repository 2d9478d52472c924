"""Threads that nobody waits for: what they do is told, and one that hangs keeps nobody."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from securefg.foundation.side_by_side import TookTooLong, side_by_side

HANGS = """
import time
from securefg.foundation.side_by_side import side_by_side
for task, found in side_by_side(lambda k: k or time.sleep(600), [1, 0], 2):
    print(found, flush=True)
"""


@pytest.mark.parametrize("jobs", [1, 3, 8])
def test_every_task_comes_with_what_came_of_it(jobs: int) -> None:
    found = dict(side_by_side(lambda k: 6 // k, [3, 0, 2], jobs))
    assert (found[3], found[2]) == (2, 3)
    assert isinstance(found[0], ZeroDivisionError)
    assert list(side_by_side(lambda k: k, [], jobs)) == []


def test_a_task_that_never_ends_keeps_nobody_from_leaving() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HANGS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) != 0
        finally:
            process.kill()


def spins(seconds: float) -> float:
    """Python all the way: it can be told between two steps, and catches what it can."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(Exception):
            sum(range(100))
    return seconds


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("work", [spins, lambda s: time.sleep(s) or s])
def test_what_takes_too_long_is_ended_and_the_others_go_on(
    work: Callable[[float], float], jobs: int
) -> None:
    """A sleep is a call into C: it is left behind."""
    found = dict(side_by_side(work, [20.0, 0.01, 0.02], jobs, seconds=0.3, grace=0.2))
    assert isinstance(found[20.0], TookTooLong)
    assert str(found[20.0]) == "it was ended after 0.3 seconds"
    assert (found[0.01], found[0.02]) == (0.01, 0.02)


def test_work_that_was_ended_takes_no_more_time() -> None:
    before = threading.active_count()
    list(side_by_side(spins, [60.0], 1, seconds=0.1, grace=1.0))
    assert threading.active_count() == before
