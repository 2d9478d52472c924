"""A worker's process: takes points from a pipe until there are no more, and ends with its parent.

    python -m securefg.sweep.worker FD

It lives as long as the sweep, since importing torch takes longer than many a point.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection

from securefg.foundation.collection import skip_last_collection
from securefg.foundation.errors import SecurefgError
from securefg.runs.assembly import Setup
from securefg.runs.observing import RoundReport
from securefg.sweep.cache import At, Ended, Failure, Point, Work, lock_point

PARENT_IS_GONE = 3
SECONDS_BETWEEN_REPORTS = 0.5


class Orders:
    """A queue of what the parent says: points, then None. Silence for ever (it died) ends this
    process.

    A thread listens, so that a stop is heard in the middle of a point, and so that a parent killed
    with SIGKILL takes its workers along: all that a run writes is whole or absent, so ending at
    once does no more harm than any other kill.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._points: queue.SimpleQueue[Point | None] = queue.SimpleQueue()
        self.stopped = False
        threading.Thread(target=self._listen_for_orders, daemon=True).start()

    def next(self) -> Point | None:
        """Wait for the next point, or None if there are no more."""
        return self._points.get()

    def _listen_for_orders(self) -> None:
        try:
            while True:
                order = self._pipe.recv()
                self.stopped = self.stopped or order is None
                self._points.put(order)
        except (EOFError, OSError):
            os._exit(PARENT_IS_GONE)


class Reporter:
    """A reporter that tells the parent the round, now and then."""

    def __init__(self, pipe: Connection, orders: Orders) -> None:
        self._pipe, self._orders = pipe, orders
        self._rounds, self._last = 0, 0.0

    def started(self, experiment: Setup, first_round: int) -> None:
        """Note how many rounds there will be."""
        self._rounds = experiment.config.training.rounds

    def round_done(self, report: RoundReport) -> None:
        """Tell the parent the round, at most twice a second."""
        if time.monotonic() - self._last > SECONDS_BETWEEN_REPORTS:
            self._last = time.monotonic()
            self._pipe.send(At(report.round, self._rounds))

    def stop_requested(self) -> bool:
        """Return whether the parent has said that there are no more points."""
        return self._orders.stopped


def serve(pipe: Connection) -> None:
    """Perform one point after the other until there are no more."""
    work: Work = pipe.recv()
    orders = Orders(pipe)
    while (point := orders.next()) is not None:
        pipe.send(perform_point(work, point, Reporter(pipe, orders)))


def perform_point(work: Work, point: Point, reporter: Reporter) -> Ended:
    """Do a point under its lock and tell how it ended."""
    config = point.config
    try:
        with lock_point(config.output.root, config.hash, reporter.stop_requested) as held:
            if not held:
                return Ended("interrupted")
            if work.finished(config):
                return Ended("cached")
            return Ended("done" if work.execute(config, reporter) else "interrupted")
    except Exception as error:
        return Ended("failed", describe_failure(point, error))


def describe_failure(point: Point, error: Exception) -> Failure:
    """Return a reason in one line, with the traceback only if it is a bug's."""
    known = isinstance(error, SecurefgError)
    text = " ".join(str(error).split())
    return Failure(
        point.key,
        point.config.hash,
        text if known else f"{type(error).__name__}: {text}",
        "" if known else traceback.format_exc(),
    )


if __name__ == "__main__":
    skip_last_collection()
    # Ctrl-C reaches the whole process group; the parent alone decides when workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, ConnectionError):  # The parent is gone.
        serve(Connection(int(sys.argv[1])))
