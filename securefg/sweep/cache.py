"""The points of a sweep, the work at each, and what its root keeps: runs, locks, failures."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

from audits.findings.history import require_as_it_ended
from securefg.flare import launch
from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import write_json
from securefg.foundation.json_text import read_json
from securefg.foundation.quoting import shown
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Observer
from securefg.settings.config import RunConfig

SECONDS_BETWEEN_TRIES = 0.1


@dataclass(frozen=True)
class Failure:
    """A point that could not be finished. `details` has the traceback where it is a bug's."""

    key: str
    config_hash: str
    reason: str
    details: str = ""


def find_run(root: Path, config_hash: str) -> RunFolder | None:
    """Return the run of this hash, whatever its name. A finished run comes before any other.

    Raise RunFolderError if it was made when a setting had another default: then its hash is no
    longer its own.
    """
    whole = [path for path in root.glob(f"*-s*-{config_hash}") if not path.name.startswith(".")]
    found = [RunFolder(path) for path in sorted(whole) if (path / "config.yaml").is_file()]
    best = max(found, key=lambda folder: folder.finished, default=None)
    if best is not None:
        _require_own(best, config_hash)
    return best


def _require_own(folder: RunFolder, config_hash: str) -> None:
    """Raise RunFolderError unless the folder's content is of the config that its name promises."""
    found = {"config.yaml": folder.config().hash}
    if folder.finished:
        found["summary.json"] = folder.summary().config_hash
    for name, other in found.items():
        if other != config_hash:
            raise RunFolderError(
                f"{folder.path / name}: of the config {shown(other)}; its folder is named for "
                f"{config_hash}"
            )


def find_runs(root: Path) -> dict[str, RunFolder]:
    """Return every finished run of a root, by its hash."""
    paths = sorted(path.parent for path in root.glob("*-s*-*/summary.json"))
    return {path.name.rpartition("-")[2]: RunFolder(path) for path in paths}


def fault_of(folder: RunFolder, config_hash: str) -> str:
    """Return why a finished run is not taken for that of this config as it ended, or empty if it
    is."""
    try:
        _require_own(folder, config_hash)
        require_as_it_ended(folder.path)
    except RunFolderError as error:
        return str(error)
    return ""


@contextmanager
def lock_point(root: Path, config_hash: str, give_up: Callable[[], bool]) -> Iterator[bool]:
    """Hold a point for this process. Yield False if `give_up` came first.

    The lock is the kernel's: it ends with the process, however that ends, and no sooner. A second
    sweep that wants the same point waits here, then finds it finished.
    """
    folder = root / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / config_hash, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        held = _take_handle(handle)
        while not held and not give_up():
            time.sleep(SECONDS_BETWEEN_TRIES)
            held = _take_handle(handle)
        yield held
    finally:
        os.close(handle)


def _take_handle(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def keep_failure(root: Path, failure: Failure) -> None:
    """Store why a point failed."""
    write_json(_failure_path(root, failure.config_hash), asdict(failure))


def forget_failure(root: Path, config_hash: str) -> None:
    """Remove what is stored of an earlier failure."""
    _failure_path(root, config_hash).unlink(missing_ok=True)


def read_failures(root: Path) -> tuple[Failure, ...]:
    """Return every point that failed when it was last tried."""
    paths = sorted((root / "failed").glob("*.json"))
    return tuple(Failure(**read_json(path)) for path in paths)


def _failure_path(root: Path, config_hash: str) -> Path:
    return root / "failed" / f"{config_hash}.json"


@dataclass(frozen=True)
class Point:
    """A config and what people call it. The config's hash says whether it has been done."""

    key: str
    config: RunConfig

    def below(self, root: Path) -> Point:
        """Return the same point with its run folder in `root`."""
        output = self.config.output.model_copy(update={"root": root})
        return Point(self.key, self.config.model_copy(update={"output": output}))


class Work(Protocol):
    """A task that is done at every point. It travels to the workers, so it is a module's frozen
    class.

    `execute` does what is missing and can be killed at any moment: called again it goes on, and
    once `finished` says so it is never called again. It returns False if it was interrupted.
    """

    def finished(self, config: RunConfig) -> bool:
        """Return whether nothing is left to do."""

    def execute(self, config: RunConfig, observer: Observer) -> bool:
        """Do what is missing. Return False if it was interrupted."""


@dataclass(frozen=True)
class Runs:
    """A task that trains: it starts the run, or resumes what there is of it."""

    def finished(self, config: RunConfig) -> bool:
        """Return whether the run of this config is finished."""
        folder = find_run(config.output.root, config.hash)
        return folder is not None and folder.finished

    def execute(self, config: RunConfig, observer: Observer) -> bool:
        """Start or resume the run. Return False if it was interrupted."""
        folder = find_run(config.output.root, config.hash)
        if folder is not None:
            return launch.resume(folder, observer).summary is not None
        return launch.start(config, observer).summary is not None


@dataclass(frozen=True)
class At:
    """A report of how far the point is. `rounds` is 0 until its first round is done."""

    round: int = 0
    rounds: int = 0


@dataclass(frozen=True)
class Ended:
    """A report that the point is done, was done already, was interrupted, or failed."""

    how: Literal["done", "cached", "interrupted", "failed"]
    failure: Failure | None = None
