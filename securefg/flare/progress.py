"""How far a run is: the file that the server's job writes, and its check at the administrator.

    securefg_runs/RUN/private/status.json     at the server, mode 0600, replaced whole

The file holds round numbers, epsilons, times and names of sites. It holds no score, and nothing
that a site sent. The server hands it to the administrator alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from securefg.foundation.errors import RunFailed
from securefg.foundation.files import PRIVATE, write_json
from securefg.foundation.quoting import shown
from securefg.foundation.settings import Settings

STATUS: Final = "status.json"
State = Literal["starting", "running", "finished", "interrupted", "failed"]
LONGEST_REASON: Final = 300


class Progress(Settings):
    """How far one submission of a run is.

    round    the last whole round; 0 before the first one
    seconds  the time of all whole rounds, of earlier submissions too
    epsilon  spent so far, per unit; None is infinite
    away     the sites that the run goes on without, and why
    """

    submission: int = Field(ge=1)
    state: State
    rounds: int = Field(ge=1)
    round: int = Field(0, ge=0)
    seconds: float = Field(0.0, ge=0)
    epsilon: Mapping[str, float | None] = Field(default_factory=dict)
    dropped: int = Field(0, ge=0)
    away: Mapping[str, str] = Field(default_factory=dict)
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Whether this submission has ended, in whatever way."""
        return self.state not in ("starting", "running")

    @property
    def seconds_left(self) -> float | None:
        """The time that the rest takes at most, at the pace so far; None before a whole round."""
        if not self.round:
            return None
        return (self.rounds - self.round) * self.seconds / self.round


class ProgressFile:
    """The newest progress, in memory and in a file that its owner alone reads."""

    def __init__(self, path: Path, first: Progress) -> None:
        self._path, self._now = path, first
        self.update_progress()

    def update_progress(self, **changes: Any) -> None:
        """Change some fields and replace the file."""
        if "reason" in changes:
            changes["reason"] = str(changes["reason"])[:LONGEST_REASON]
        self._now = self._now.model_copy(update=changes)
        with suppress(OSError):  # a status that cannot be written ends no run
            write_json(self._path, self._now.model_dump(mode="json"), sync=False, mode=PRIVATE)


def read_progress(raw_progress: Any) -> Progress | None:
    """Return the server's word on a run, checked, or None where the run has not begun."""
    if raw_progress is None:
        return None
    try:
        return Progress.model_validate(raw_progress)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the whole"
        raise RunFailed(
            f"the server's status: {key}: found {shown(first['input'])}; expected {first['msg']}"
        ) from None
