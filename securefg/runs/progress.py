"""The display of a run: a live bar on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from securefg.foundation.units import bytes_text
from securefg.runs.assembly import Setup
from securefg.runs.epsilons import planned_epsilons
from securefg.runs.forecast import describe_expected
from securefg.runs.observing import RoundReport

SECONDS_BETWEEN_LINES = 5.0


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """A first signal (Ctrl-C, or the end of a job) asks for a stop after the round. A second one
    stops at once. `number` is the signal that came."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before = {number: signal.getsignal(number) for number in SIGNALS}

    @property
    def requested(self) -> bool:
        """Return whether a signal asked for a stop."""
        return self.number is not None

    def __enter__(self) -> Self:
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.number = number
        print("\nfinishing this round; a second signal stops at once", file=sys.stderr)


class Quiet:
    """A display that shows nothing."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def started(self, experiment: Setup, first_round: int) -> None:
        """Print nothing."""

    def round_done(self, report: RoundReport) -> None:
        """Print nothing."""

    def stop_requested(self) -> bool:
        """Return whether a signal asked for a stop."""
        return self._interrupt.requested


class Lines(Quiet):
    """A plain line every few seconds, for logs."""

    def __init__(self, interrupt: Interrupt, console: Console) -> None:
        super().__init__(interrupt)
        self._console = console
        self._rounds, self._first, self._began, self._last = 0, 1, time.monotonic(), 0.0

    def started(self, experiment: Setup, first_round: int) -> None:
        """Print what is run, and start the clock."""
        self._rounds = experiment.config.training.rounds
        self._first, self._began = first_round, time.monotonic()
        self._console.print(opening_lines(experiment, first_round), highlight=False, soft_wrap=True)

    def round_done(self, report: RoundReport) -> None:
        """Print a line every few seconds, and one for the last round."""
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN_LINES and report.round != self._rounds:
            return
        self._last = now
        done = report.round - self._first + 1
        left = (now - self._began) / done * (self._rounds - report.round)
        line = f"round {report.round}/{self._rounds}  {figures(report)}  at most {left:.0f} s left"
        self._console.print(line, highlight=False, soft_wrap=True)


class Bar(Lines):
    """A live bar with the figures of the last round."""

    def __init__(self, interrupt: Interrupt, console: Console) -> None:
        super().__init__(interrupt, console)
        self._progress = Progress(
            TextColumn("[bold]round"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self._task = self._progress.add_task("preparing", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def started(self, experiment: Setup, first_round: int) -> None:
        """Print what is run, and show the bar."""
        self._console.print(opening_lines(experiment, first_round), highlight=False)
        total = experiment.config.training.rounds
        self._progress.update(self._task, total=total, completed=first_round - 1)

    def round_done(self, report: RoundReport) -> None:
        """Move the bar to this round."""
        self._progress.update(self._task, completed=report.round, description=figures(report))


def opening_lines(experiment: Setup, first_round: int) -> str:
    """Return the first lines: what is run, and what its epsilons are about."""
    config, clients = experiment.config, experiment.public.num_clients
    again = f", going on with round {first_round}" if first_round > 1 else ""
    start = (
        f"{config.method.name} on {config.data.name}: {clients} client{'s' * (clients != 1)}, "
        f"seed {config.seed}, engine {config.engine.name}, device {experiment.public.device}{again}"
    )
    return "\n".join([start, describe_expected(experiment), *about_epsilon(experiment)])


def about_epsilon(experiment: Setup) -> list[str]:
    """Return what the epsilons of the lines below will be about, if any is finite. `figures` has no
    room for it."""
    found = planned_epsilons(experiment)
    finite = {unit: claim for unit, claim in found.items() if claim.epsilon is not None}
    if not finite:
        return []
    said = [f"ε/{unit} at the end: {claim.bound(unit)}" for unit, claim in finite.items()]
    beside = next(iter(finite.values())).not_covered
    return [*said, *(f"no ε covers: {what}" for what in beside)]


def figures(report: RoundReport) -> str:
    """Return the scores, epsilons and traffic of a round in one line."""
    epsilon = " ".join(f"ε/{unit} {_number_text(value)}" for unit, value in report.epsilon.items())
    dropped = f"  dropped {report.dropped}" if report.dropped else ""
    scores = (
        f"loss {report.train_loss:.3f}  val {report.val_accuracy:.3f}  "
        f"test {report.test_accuracy:.3f}"
    )
    return (
        f"{'aborted' if report.aborted else scores}  {epsilon}  "
        f"↑{bytes_text(report.bytes_up)} ↓{bytes_text(report.bytes_down)}{dropped}"
    )


def _number_text(value: float | None) -> str:
    return "∞" if value is None else f"{value:.3g}"
