"""The display of a sweep: a live table on a terminal, a line per point elsewhere, or nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from securefg.foundation.quoting import shortened
from securefg.foundation.units import seconds_text
from securefg.settings.forecast import round_duration

SECONDS_BETWEEN_LINES = 30.0


@dataclass(frozen=True)
class Running:
    """A point that a worker is at. `rounds` is 0 until its first round is done."""

    key: str
    round: int
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Finished:
    """A point that was done, with its seconds."""

    key: str
    seconds: float


@dataclass(frozen=True)
class Status:
    """A status of a sweep."""

    total: int
    done: int
    cached: int
    failed: int
    running: tuple[Running, ...]
    seconds_left: float | None
    finished: tuple[Finished, ...] = ()

    @property
    def ended(self) -> int:
        """Return how many points have ended, in any way."""
        return self.done + self.cached + self.failed

    def words(self) -> str:
        """Return `3 of 10 done (1 cached), 2 running, 0 failed, about 40 s left`."""
        cached = f" ({self.cached} cached)" if self.cached else ""
        left = (
            "" if self.seconds_left is None else f", about {seconds_text(self.seconds_left)} left"
        )
        left = left if self.ended < self.total else ""
        return (
            f"{self.done + self.cached} of {self.total} done{cached}, "
            f"{len(self.running)} running, {self.failed} failed{left}"
        )

    def finished_lines(self, num_reported: int, width: int) -> list[str]:
        """Return a short line, with the time left, per finished point after the first
        `num_reported`."""
        left = "" if self.seconds_left is None else f"about {duration_text(self.seconds_left)} left"
        left = left if self.ended < self.total else "all done"
        before = self.ended - len(self.finished)
        lines = [
            f"{before + number} of {self.total}  in {duration_text(one.seconds)}, {left}  {one.key}"
            for number, one in enumerate(self.finished, 1)
        ]
        return [shortened(line, max(60, width)) for line in lines[num_reported:]]


def duration_text(seconds: float) -> str:
    """Return whole seconds below a minute and a half, else minutes or hours."""
    return f"{seconds:.0f} s" if seconds < 90 else round_duration(seconds)


class Display(Protocol):
    """A display that shows where a sweep stands, again and again."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def show(self, status: Status) -> None:
        """Show the status as it is now."""


class Silence:
    """A display that shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def show(self, status: Status) -> None:
        """Show nothing."""


def print_finished(console: Console, status: Status, told: int) -> int:
    """Print a line per point that finished since `told`. Return how many are told now."""
    for line in status.finished_lines(told, console.width):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return len(status.finished)


class PlainLines(Silence):
    """A line per finished point, and where all stands every half minute without one, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told, self._ended, self._last = 0, 0, time.monotonic()

    def show(self, status: Status) -> None:
        """Print the points that finished, and otherwise the status if half a minute has passed."""
        silent = time.monotonic() - self._last < SECONDS_BETWEEN_LINES
        if status.ended == self._ended and silent:
            return
        before = self._told
        self._told = print_finished(self._console, status, self._told)
        self._ended, self._last = status.ended, time.monotonic()
        if self._told == before:
            self._console.print(status.words(), highlight=False, markup=False, soft_wrap=True)


class LiveTable(Silence):
    """A bar over all points, a line for every running one, and above it the finished ones."""

    def __init__(self, console: Console) -> None:
        self._told = 0
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, status: Status) -> None:
        """Draw the table anew."""
        self._told = print_finished(self._live.console, status, self._told)
        table = Table(box=None, show_header=False, pad_edge=False)
        for point in status.running:
            bar = ProgressBar(total=point.rounds or 1, completed=point.round, width=20)
            rounds = f"round {point.round}/{point.rounds or '?'}"
            table.add_row(Text(point.key), bar, rounds, seconds_text(point.seconds))
        whole = ProgressBar(total=status.total or 1, completed=status.ended, width=40)
        self._live.update(Group(whole, Text(status.words()), table))


def display_for(console: Console) -> Display:
    """Return a live table on a terminal, else plain lines."""
    return LiveTable(console) if console.is_terminal else PlainLines(console)
