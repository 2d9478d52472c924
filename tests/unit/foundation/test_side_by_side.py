"""Threads that nobody waits for: what they do is told, and one that hangs keeps nobody."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from securefg.foundation.side_by_side import side_by_side

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
