"""Sweeps: many points, each run once, in parallel processes. A sweep that is killed can go on."""

from __future__ import annotations

from securefg.sweep.cache import (
    Failure,
    Point,
    Runs,
    Work,
    fault_of,
    find_run,
    find_runs,
    read_failures,
)
from securefg.sweep.pool import SweepOutcome, sweep_points

__all__ = [
    "Failure",
    "Point",
    "Runs",
    "SweepOutcome",
    "Work",
    "fault_of",
    "find_run",
    "find_runs",
    "read_failures",
    "sweep_points",
]
