"""Work done by threads that nobody waits for: when told to stop, or when it takes too long."""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

Task = TypeVar("Task")
Done = TypeVar("Done")
GRACE = 5.0
"""Seconds that work has to end in, once it was told that its time is up."""


LONGEST_WAIT = 3600.0


class OutOfTime(BaseException):
    """A signal within work whose time is up, between two of its steps. It is no `Exception`, so
    that a handler of exceptions does not go on."""


class TookTooLong(Exception):
    """A result of work that was ended."""


@dataclass
class _Running:
    thread: Thread
    until: float
    told: bool = False


def side_by_side(
    work: Callable[[Task], Done],
    tasks: Sequence[Task],
    jobs: int,
    seconds: float | None = None,
    grace: float = GRACE,
) -> Iterator[tuple[Task, Done | Exception]]:
    """Yield every task with what came of it, in the order of their ends. An exception is a result.

    seconds  that each may take; work that has not ended in `grace` seconds more is left behind

    The threads are daemons: one that never ends keeps nobody from leaving, where those of a
    `ThreadPoolExecutor` are joined before the interpreter goes.
    """
    done: SimpleQueue[tuple[int, Done | Exception]] = SimpleQueue()
    late = TookTooLong(f"it was ended after {seconds or 0:g} seconds")

    def carry_out(number: int) -> None:
        with suppress(OutOfTime):  # its time may be up after its last step, too
            try:
                task_result: Done | Exception = work(tasks[number])
            except OutOfTime:
                task_result = late
            except Exception as error:
                task_result = error
            done.put((number, task_result))

    waiting, running = deque(range(len(tasks))), dict[int, _Running]()
    while waiting or running:
        while waiting and len(running) < max(1, jobs):
            number = waiting.popleft()
            running[number] = _start_thread(carry_out, number, seconds)
        with suppress(Empty):
            number, found = done.get(timeout=_soonest_end(running))
            if running.pop(number, None) is not None:
                yield tasks[number], found
        for number in _left_behind(running, grace):
            yield tasks[number], late


def _start_thread(carry_out: Callable[[int], None], number: int, seconds: float | None) -> _Running:
    thread = Thread(target=carry_out, args=(number,), daemon=True)
    thread.start()
    return _Running(thread, inf if seconds is None else time.monotonic() + seconds)


def _soonest_end(running: dict[int, _Running]) -> float | None:
    until = min(one.until for one in running.values())
    return None if until == inf else min(max(0.0, until - time.monotonic()), LONGEST_WAIT)


def _left_behind(running: dict[int, _Running], grace: float) -> list[int]:
    """Return those that were told that their time is up, and did not end. All that are late are
    told."""
    now = time.monotonic()
    late = {number: one for number, one in running.items() if one.until <= now}
    lost = [number for number, one in late.items() if one.told]
    for number, one in late.items():
        _raise_in_thread(one.thread)
        one.told, one.until = True, now + grace
        if number in lost:
            del running[number]
    return lost


def _raise_in_thread(thread: Thread) -> None:
    """Raise OutOfTime in a thread at its next step. Nobody waits for a call into C."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(OutOfTime)
        )
