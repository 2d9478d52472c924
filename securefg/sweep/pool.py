"""The pool: hands the points that are missing to long-lived workers, and books how they ended.

`concurrent.futures` does not serve here: the death of one worker breaks its whole pool and all
pending points, and it has no way to tell a worker to stop after the current round.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from securefg.runs.progress import Interrupt
from securefg.sweep.cache import At, Ended, Failure, Point, Runs, Work, forget_failure, keep_failure
from securefg.sweep.display import Display, Finished, Running, Silence, Status

MAX_DEATHS = 3
SECONDS_BETWEEN_LOOKS = 0.2
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class SweepOutcome:
    """A record of how every point ended, by its key. No point is missing from the three unless
    interrupted."""

    done: tuple[str, ...]
    cached: tuple[str, ...]
    failed: tuple[Failure, ...]
    interrupted: bool


def sweep_points(
    points: Sequence[Point],
    root: Path,
    jobs: int,
    work: Work | None = None,
    display: Display | None = None,
) -> SweepOutcome:
    """Do what is missing of `points` in `jobs` processes, with their folders in `root`.

    Points with equal configs are one point. A point that fails is kept in `root/failed` with its
    reason and tried again by the next sweep. The first Ctrl-C lets every worker finish its round.
    """
    placed = {point.config.hash: point.below(root) for point in reversed(points)}
    work = work or Runs()
    with Interrupt() as interrupt, display or Silence() as shown:
        pool = Pool(list(reversed(placed.values())), root, jobs, work, shown, interrupt)
        return pool.run()


@dataclass
class Worker:
    """A process and what it is at."""

    pipe: Connection
    process: subprocess.Popen[bytes]
    point: Point | None = None
    since: float = 0.0
    at: At = field(default_factory=At)


class Pool:
    """A sweep in progress."""

    def __init__(
        self,
        points: list[Point],
        root: Path,
        jobs: int,
        work: Work,
        display: Display,
        interrupt: Interrupt,
    ) -> None:
        self._root, self._jobs, self._work = root, jobs, work
        self._display, self._interrupt = display, interrupt
        self._total = len(points)
        self._cached: list[str] = []
        self._waiting: deque[Point] = deque()
        for point in points:
            if work.finished(point.config):
                self._cached.append(point.key)
                forget_failure(root, point.config.hash)
            else:
                self._waiting.append(point)
        self._done: list[str] = []
        self._failed: list[Failure] = []
        self._deaths: dict[str, int] = {}
        self._durations: list[float] = []
        self._workers: list[Worker] = []
        self._told_to_stop = False

    def run(self) -> SweepOutcome:
        """Work until all points have ended or the sweep is interrupted."""
        try:
            while self._busy_workers() or (self._waiting and not self._interrupt.requested):
                self._deal_points()
                self._display.show(self._make_status())
                self._listen_to_workers()
            self._display.show(self._make_status())
        finally:
            self._end_workers()
        return SweepOutcome(
            tuple(self._done), tuple(self._cached), tuple(self._failed), bool(self._waiting)
        )

    def _busy_workers(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.point is not None]

    def _deal_points(self) -> None:
        if self._interrupt.requested:
            if not self._told_to_stop:
                self._told_to_stop = True
                for worker in self._workers:
                    self._tell_worker(worker, None)
            return
        while self._waiting:
            idle = next((w for w in self._workers if w.point is None), None)
            if idle is None and len(self._workers) >= self._jobs:
                return
            worker = idle or self._new_worker()
            worker.point, worker.since, worker.at = self._waiting.popleft(), _clock_now(), At()
            self._tell_worker(worker, worker.point)

    def _new_worker(self) -> Worker:
        worker = Worker(*launch())
        self._workers.append(worker)
        self._tell_worker(worker, self._work)
        return worker

    def _tell_worker(self, worker: Worker, order: Point | Work | None) -> None:
        with contextlib.suppress(ConnectionError):  # `_listen_to_workers` finds its death, too
            worker.pipe.send(order)

    def _listen_to_workers(self) -> None:
        heard = wait([worker.pipe for worker in self._workers], SECONDS_BETWEEN_LOOKS)
        for worker in [w for w in self._workers if w.pipe in heard]:
            try:
                self._hear_news(worker, worker.pipe.recv())
            except (EOFError, ConnectionError):
                self._bury_worker(worker)

    def _hear_news(self, worker: Worker, news: At | Ended) -> None:
        if isinstance(news, At):
            worker.at = news
            return
        point, worker.point = worker.point, None
        assert point is not None
        match news.how:
            case "done":
                self._durations.append(_clock_now() - worker.since)
                self._done.append(point.key)
                forget_failure(self._root, point.config.hash)
            case "cached":
                self._cached.append(point.key)
                forget_failure(self._root, point.config.hash)
            case "interrupted":
                self._waiting.appendleft(point)
            case "failed":
                assert news.failure is not None
                self._keep_failure(news.failure)

    def _bury_worker(self, worker: Worker) -> None:
        """Replace a worker that died. Its point goes on from its last checkpoint in another
        worker."""
        self._workers.remove(worker)
        worker.pipe.close()
        code = worker.process.wait()
        if worker.point is None:
            return
        point = worker.point
        count = self._deaths[point.config.hash] = self._deaths.get(point.config.hash, 0) + 1
        if count < MAX_DEATHS:
            self._waiting.appendleft(point)
            return
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        reason = f"its process died {count} times, the last time by {how}"
        self._keep_failure(Failure(point.key, point.config.hash, reason))

    def _keep_failure(self, failure: Failure) -> None:
        self._failed.append(failure)
        keep_failure(self._root, failure)

    def _end_workers(self) -> None:
        """Tell idle workers to leave, and stop busy workers at once."""
        for worker in self._workers:
            if worker.point is None:
                self._tell_worker(worker, None)
            else:
                worker.process.kill()
        for worker in self._workers:
            worker.pipe.close()  # a worker also ends where its pipe does
            worker.process.wait()

    def _make_status(self) -> Status:
        running = tuple(
            Running(w.point.key, w.at.round, w.at.rounds, _clock_now() - w.since)
            for w in self._workers
            if w.point is not None
        )
        return Status(
            total=self._total,
            done=len(self._done),
            cached=len(self._cached),
            failed=len(self._failed),
            running=running,
            seconds_left=self._seconds_left(running),
            finished=tuple(map(Finished, self._done, self._durations)),
        )

    def _seconds_left(self, running: Sequence[Running]) -> float | None:
        """Return the seconds left, if points last as long as those that ended did, on average."""
        if not self._durations:
            return None
        usual = sum(self._durations) / len(self._durations)
        started = sum(max(usual - point.seconds, 0.0) for point in running)
        return (usual * len(self._waiting) + started) / self._jobs


def launch() -> tuple[Connection, subprocess.Popen[bytes]]:
    """Return a worker on one end of a socket, in a session of its own: a terminal's Ctrl-C is
    ours."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "securefg.sweep.worker", str(theirs.fileno())]
    path = os.pathsep.join(filter(None, sys.path))
    single = dict.fromkeys(THREAD_VARIABLES, "1")  # torch takes `engine.threads` all the same
    process = subprocess.Popen(
        command,
        pass_fds=[theirs.fileno()],
        env={**os.environ, **single, "PYTHONPATH": path},
        start_new_session=True,
    )
    theirs.close()
    return Connection(ours.detach()), process


def _clock_now() -> float:
    return time.monotonic()
