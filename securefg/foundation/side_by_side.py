"""Work done by a few threads that nobody waits for when the program is told to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

Task = TypeVar("Task")
Done = TypeVar("Done")


def side_by_side(
    work: Callable[[Task], Done], tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[Task, Done | Exception]]:
    """Every task with what came of it, in the order of their ends; an exception is a result.

    The threads are daemons: one that never ends keeps nobody from leaving, where those of a
    `ThreadPoolExecutor` are joined before the interpreter goes.
    """
    left: SimpleQueue[Task] = SimpleQueue()
    done: SimpleQueue[tuple[Task, Done | Exception]] = SimpleQueue()
    for task in tasks:
        left.put(task)

    def carry_out() -> None:
        while True:
            try:
                task = left.get_nowait()
            except Empty:
                return
            try:
                done.put((task, work(task)))
            except Exception as error:
                done.put((task, error))

    for _ in range(min(max(1, jobs), len(tasks))):
        Thread(target=carry_out, daemon=True).start()
    for _ in tasks:
        yield done.get()
