"""A point of a sweep, the work done at it, and what a worker tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from securefg.flare import launch
from securefg.run.observing import Observer
from securefg.settings.config import RunConfig
from securefg.sweep.cache import Failure, find_run


@dataclass(frozen=True)
class Point:
    """A config and what people call it; the config's hash says whether it has been done."""

    key: str
    config: RunConfig

    def below(self, root: Path) -> Point:
        """The same point with its run folder in `root`."""
        output = self.config.output.model_copy(update={"root": root})
        return Point(self.key, self.config.model_copy(update={"output": output}))


class Work(Protocol):
    """What is done at every point. It travels to the workers, so it is a module's frozen class.

    `execute` does what is missing and can be killed at any moment: called again it goes on, and
    once `finished` says so it is never called again. It returns False where it was interrupted.
    """

    def finished(self, config: RunConfig) -> bool: ...
    def execute(self, config: RunConfig, observer: Observer) -> bool: ...


@dataclass(frozen=True)
class Runs:
    """Train: start the run, or resume what there is of it."""

    def finished(self, config: RunConfig) -> bool:
        folder = find_run(config.output.root, config.hash)
        return folder is not None and folder.finished

    def execute(self, config: RunConfig, observer: Observer) -> bool:
        folder = find_run(config.output.root, config.hash)
        if folder is not None:
            return launch.resume(folder, observer).summary is not None
        return launch.start(config, observer).summary is not None


@dataclass(frozen=True)
class At:
    """How far the point is; `rounds` is 0 until its first round is done."""

    round: int = 0
    rounds: int = 0


@dataclass(frozen=True)
class Ended:
    """The point is done, was done already, was interrupted, or failed."""

    how: Literal["done", "cached", "interrupted", "failed"]
    failure: Failure | None = None
