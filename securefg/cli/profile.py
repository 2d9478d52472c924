"""`--profile`: CPU seconds and peak memory of a command, phase by phase."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from securefg.runs.assembly import Setup
    from securefg.runs.observing import RoundReport

Profiled = Annotated[
    bool, typer.Option("--profile", help="Report CPU seconds and peak memory on standard error.")
]


@dataclass(frozen=True)
class Usage:
    """Resources that a process used so far. Processes that it started count once they ended."""

    cpu_seconds: float
    peak_gib: float
    peak_of_children_gib: float

    @classmethod
    def now(cls) -> Usage:
        """Return the usage of this process up to now."""
        own_usage, others = (
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        seconds = sum(used.ru_utime + used.ru_stime for used in (own_usage, others))
        return cls(seconds, _to_gib(own_usage.ru_maxrss), _to_gib(others.ru_maxrss))


def _to_gib(maxrss: int) -> float:
    """Return the kernel's unit in GiB: KiB on Linux, bytes on macOS."""
    return maxrss / (2**30 if sys.platform == "darwin" else 2**20)


@dataclass
class Profile:
    """The phases of a command, each with the usage at its end."""

    phases: list[tuple[str, Usage]] = field(default_factory=list)
    _current: str = "start-up"

    def begin(self, phase: str) -> None:
        """End the current phase and begin another; the same name again changes nothing."""
        if phase != self._current:
            self.phases.append((self._current, Usage.now()))
            self._current = phase

    def lines(self) -> list[str]:
        """Return a table: CPU seconds of every phase, and the peak of memory until its end."""
        ended = [*self.phases, (self._current, Usage.now())]
        shown, before = ["phase             CPU s   peak GiB"], 0.0
        for name, usage in ended:
            shown.append(f"{name:<14}{usage.cpu_seconds - before:9.2f}{usage.peak_gib:11.3f}")
            before = usage.cpu_seconds
        last = ended[-1][1]
        shown.append(f"{'total':<14}{last.cpu_seconds:9.2f}{last.peak_gib:11.3f}")
        if last.peak_of_children_gib:
            shown.append(f"largest process started: {last.peak_of_children_gib:.3f} GiB")
        return shown


class Phases:
    """An observer that begins the phase of the rounds."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def started(self, experiment: Setup, first_round: int) -> None:
        """Begin the rounds."""
        self._profile.begin("rounds")

    def round_done(self, report: RoundReport) -> None:
        """Ignore the round."""

    def stop_requested(self) -> bool:
        """Never ask for a stop."""
        return False


@contextmanager
def profile_phases(asked: bool) -> Iterator[Profile]:
    """Yield a profile; print it at the end where it was asked for, also after a failure."""
    profile = Profile()
    try:
        yield profile
    finally:
        if asked:
            sys.stderr.write("".join(f"securefg: profile: {line}\n" for line in profile.lines()))
